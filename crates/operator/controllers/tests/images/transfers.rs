//! Clones of golden images into other namespaces, as virtual machines use them.

use api::cdi::DataVolume;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::{DeleteParams, ListParams, Patch, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{by, wait_until};

use crate::library::Library;
use crate::sources::allow;
use crate::stage::{NAMESPACE, Stage, WAIT_TIMEOUT, condition};

const HOME: &str = "machines";

async fn copy(stage: &Stage, name: &str) -> anyhow::Result<Api<DataVolume>> {
    let volumes: Api<DataVolume> = Api::namespaced(stage.cluster.client(), HOME);
    let copy = serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": { "name": name },
        "spec": {
            "sourceRef": { "kind": "DataSource", "namespace": NAMESPACE, "name": "fedora-arm64" },
            "storage": { "resources": { "requests": { "storage": "2Gi" } } },
        },
    }))?;
    volumes.create(&PostParams::default(), &copy).await?;
    Ok(volumes)
}

async fn until(
    volumes: &Api<DataVolume>,
    name: &str,
    holds: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    wait_until(name, WAIT_TIMEOUT, async || {
        let found = volumes.get_opt(name).await?.map(|it| json!(it));
        Ok(found.filter(|it| holds(it)))
    })
    .await
}

/// Names of the interim claims next to golden images.
async fn interim(stage: &Stage) -> anyhow::Result<Vec<String>> {
    let claims: Api<PersistentVolumeClaim> = stage.api();
    let all = claims.list(&ListParams::default()).await?;
    let names = all.items.into_iter().map(|it| it.name_any());
    Ok(names.filter(|it| it.starts_with("copy-")).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_image_is_cloned_into_other_namespace() -> anyhow::Result<()> {
    let library = Library::published("1")?;
    let server = library.serve().await?;
    let stage = Stage::importing(&[server.host()]).await?;
    let client = stage.cluster.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let home = serde_json::from_value(json!({ "metadata": { "name": HOME } }))?;
    namespaces.create(&PostParams::default(), &home).await?;
    let url = format!("docker://{}/disks/fedora:1", server.host());
    stage.cron("fedora", "arm64", &url).await?;
    let digest = library.digest("arm64", 1);
    stage.imported("fedora", "arm64", &digest).await?;

    // Not before it is permitted.
    let volumes = copy(&stage, "machine").await?;
    let object = until(&volumes, "machine", |it| {
        condition(it, "Running").1 == "NotAuthorized"
    })
    .await?;
    let (_, _, message) = condition(&object, "Running");
    let expected = format!(
        "User system:serviceaccount:{HOME}:default has insufficient permissions in clone source namespace {NAMESPACE}"
    );
    assert_eq!(message, expected);
    assert_eq!(interim(&stage).await?, Vec::<String>::new());
    let everybody = json!({
        "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts",
    });
    allow(&stage, NAMESPACE, everybody).await?;
    let patch = json!({ "metadata": { "annotations": { "looked": "at" } } });
    volumes
        .patch("machine", &by("admin"), &Patch::Merge(&patch))
        .await?;
    until(&volumes, "machine", |it| {
        it["status"]["phase"] == "Succeeded"
    })
    .await?;

    // Its volume has the content of the golden image, and belongs to the target namespace.
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), HOME);
    let claim = claims.get("machine").await?;
    let volume = claim.spec.and_then(|it| it.volume_name).unwrap_or_default();
    let all: Api<k8s_openapi::api::core::v1::PersistentVolume> = Api::all(client);
    let volume = json!(all.get(&volume).await?);
    assert_eq!(volume["spec"]["claimRef"]["namespace"], HOME);
    let from = &volume["spec"]["csi"]["volumeAttributes"]["sourceSnapshot"];
    assert!(from.is_string(), "{volume:#}");
    wait_until(
        "nothing is left beside the image",
        WAIT_TIMEOUT,
        async || Ok(interim(&stage).await?.is_empty().then_some(())),
    )
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_clone_is_cleaned_up() -> anyhow::Result<()> {
    let library = Library::published("1")?;
    let server = library.serve().await?;
    let stage = Stage::importing(&[server.host()]).await?;
    let namespaces: Api<Namespace> = Api::all(stage.cluster.client());
    let home = serde_json::from_value(json!({ "metadata": { "name": HOME } }))?;
    namespaces.create(&PostParams::default(), &home).await?;
    let everybody = json!({
        "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts",
    });
    allow(&stage, NAMESPACE, everybody).await?;
    let url = format!("docker://{}/disks/fedora:1", server.host());
    stage.cron("fedora", "arm64", &url).await?;
    let digest = library.digest("arm64", 1);
    stage.imported("fedora", "arm64", &digest).await?;
    // A class with WaitForFirstConsumer: no clone can be made next to the image.
    let volumes: Api<DataVolume> = Api::namespaced(stage.cluster.client(), HOME);
    let copy = serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": { "name": "machine" },
        "spec": {
            "sourceRef": { "kind": "DataSource", "namespace": NAMESPACE, "name": "fedora-arm64" },
            "pvc": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "resources": { "requests": { "storage": "2Gi" } },
            },
        },
    }))?;
    volumes.create(&PostParams::default(), &copy).await?;
    until(&volumes, "machine", |it| {
        condition(it, "Running")
            .2
            .contains("volumeBindingMode Immediate")
    })
    .await?;
    assert_eq!(interim(&stage).await?.len(), 1);
    volumes.delete("machine", &DeleteParams::default()).await?;
    wait_until(
        "nothing is left beside the image",
        WAIT_TIMEOUT,
        async || Ok(interim(&stage).await?.is_empty().then_some(())),
    )
    .await
}
