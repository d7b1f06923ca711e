//! Images pulled by nodes: the test plays the kubelet, and no process can reach the registry.

use api::cdi::DataImportCron;
use controllers::images::cdi::Imports;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::by;

use crate::pods::ends;
use crate::stage::{Stage, condition, volume};

const URL: &str = "docker://registry.invalid/disks/fedora:41";
const CRON: &str = "fedora-image-cron-arm64";

/// A cluster where pods import and nodes pull for a DataImportCron; also the name of its poller pod.
async fn pulling(architecture: &str) -> anyhow::Result<(Stage, String)> {
    let stage = Stage::new().await?;
    let image = "example.com/medley:1".to_owned();
    stage.operator_with(Imports::Pods { image }).await?;
    let patch = json!({ "spec": { "template": { "spec": { "source": {
        "registry": { "pullMethod": "node", "secretRef": "pull" },
    } } } } });
    let cron = stage.cron_with("fedora", architecture, URL, &patch).await?;
    let uid: String = cron.uid().unwrap_or_default().chars().take(8).collect();
    Ok((stage, format!("poller-{}-{uid}", cron.name_any())))
}

/// Writes the container status of a pod as the kubelet.
async fn says(
    stage: &Stage,
    pod: &str,
    container: &str,
    id: &str,
    state: Value,
) -> anyhow::Result<()> {
    let status = json!({ "status": {
        "phase": "Pending",
        "containerStatuses": [{
            "name": container, "image": "i", "imageID": id, "ready": false, "restartCount": 0,
            "state": state,
        }],
    } });
    let pods: Api<Pod> = stage.api();
    pods.patch_status(pod, &by("kubelet"), &Patch::Merge(&status))
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_poll_and_pull() -> anyhow::Result<()> {
    let (stage, poller) = pulling("arm64").await?;
    let found = stage.until::<Pod>("asks", &poller, |_| true).await?;
    let spec = &found["spec"];
    assert_eq!(spec["nodeSelector"]["kubernetes.io/arch"], "arm64");
    let container = &spec["containers"][0];
    assert_eq!(container["image"], "registry.invalid/disks/fedora:41");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(spec["imagePullSecrets"][0]["name"], "pull");

    // The registry rejects the credentials: the kubelet reports it, and the poll is retried.
    let denied = json!({ "waiting": {
        "reason": "ErrImagePull", "message": "failed to authorize: 401 Unauthorized",
    } });
    says(&stage, &poller, "poller", "", denied).await?;
    let cron = stage.fails_for_now(CRON, "PullUnauthorized").await?;
    let (_, _, message) = condition(&cron, "UpToDate");
    assert!(message.contains("401 Unauthorized"), "{message}");
    let uid = found["metadata"]["uid"].clone();
    stage
        .until::<Pod>("asks again", &poller, |it| it["metadata"]["uid"] != uid)
        .await?;
    let digest = format!("sha256:{}", "a".repeat(64));
    let id = format!("registry.invalid/disks/fedora@{digest}");
    says(&stage, &poller, "poller", &id, json!({ "running": {} })).await?;
    stage.until_gone::<Pod>(&poller).await?;

    // The image is an image volume of the importer pod, which the node pulls.
    let name = volume("fedora", "arm64", &digest);
    let importer = format!("importer-{name}");
    let found = stage.until::<Pod>("there", &importer, |_| true).await?;
    let spec = &found["spec"];
    assert_eq!(spec["nodeSelector"]["kubernetes.io/arch"], "arm64");
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let images: Vec<&Value> = volumes.filter_map(|it| it.get("image")).collect();
    assert_eq!(
        images,
        [&json!({ "reference": id, "pullPolicy": "IfNotPresent" })]
    );
    let mounts = spec["containers"][0]["volumeMounts"].as_array();
    let mut mounts = mounts.into_iter().flatten();
    let mount = mounts.find(|it| it["mountPath"] == "/image");
    assert_eq!(mount.map(|it| &it["readOnly"]), Some(&json!(true)));
    let gone = json!({ "waiting": {
        "reason": "ErrImagePull",
        "message": format!("failed to pull and unpack image \"{id}\": no match for platform in manifest: not found"),
    } });
    says(&stage, &importer, "importer", "", gone).await?;
    stage.fails_for_now(CRON, "ArchitectureNotFound").await?;
    let uid = found["metadata"]["uid"].clone();
    stage
        .until::<Pod>("another one", &importer, |it| it["metadata"]["uid"] != uid)
        .await?;
    ends(&stage, &importer, "Succeeded", 0, "{}").await?;
    stage.imported("fedora", "arm64", &digest).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_poll_without_matching_node() -> anyhow::Result<()> {
    let (stage, poller) = pulling("s390x").await?;
    let cron = "fedora-image-cron-s390x";
    stage.fails(cron, "NoMatchingNode").await?;
    let pods: Api<Pod> = stage.api();
    let all = pods.list(&ListParams::default()).await?;
    assert_eq!(all.items.len(), 0, "{:?}", all.items);
    // A node joins, but without capacity.
    stage.node("s390x").await?;
    stage.until::<Pod>("asks", &poller, |_| true).await?;
    let full = json!({ "status": { "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes",
    }] } });
    pods.patch_status(&poller, &by("scheduler"), &Patch::Merge(&full))
        .await?;
    let object = stage.fails(cron, "Unschedulable").await?;
    let (_, _, message) = condition(&object, "UpToDate");
    assert!(message.ends_with("0/3 nodes"), "{message}");
    // The poller waits for capacity, and is deleted with its DataImportCron.
    let crons: Api<DataImportCron> = stage.api();
    crons
        .delete(cron, &kube::api::DeleteParams::default())
        .await?;
    stage.until_gone::<DataImportCron>(cron).await
}
