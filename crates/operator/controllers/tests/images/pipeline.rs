//! All layers: from nodes and a HyperConverged to disks that can be cloned, and back.

use api::cdi::{DataImportCron, DataSource};
use controllers::Job;
use fleet::operators::{HyperConvergedVersion, Installed, hyperconverged, names};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch};
use serde_json::{Value, json};
use testkit::{Registry, by, same_bytes};

use crate::library::{Library, image_at};
use crate::stage::{Stage, condition, volume};

/// The layers from HyperConverged to disks.
const LAYERS: [Job; 3] = [Job::ImagesHco, Job::ImagesSsp, Job::ImagesCdi];

/// A cluster with nodes of two architectures, a HyperConverged with an image for three, and all layers running.
async fn asked_for(url: &str, registry: &Registry) -> anyhow::Result<Stage> {
    let stage = Stage::with(Installed {
        hyperconverged: Some(HyperConvergedVersion::V1),
        cdi: true,
        ssp: true,
        templates: true,
        ..Installed::default()
    })
    .await?;
    // A single node would need no DataSource per architecture.
    stage.node_called("another", "amd64").await?;
    stage.trust(&[registry.host()]).await?;
    stage.work(&LAYERS, stage.here()).await?;
    let kind = hyperconverged(HyperConvergedVersion::V1);
    let home = names::VIRTUALIZATION_NAMESPACE;
    let found: Api<DynamicObject> = Api::namespaced_with(stage.cluster.client(), home, &kind);
    let sources = json!({
        "enableMultiArchBootImageImport": true,
        "dataImportCronTemplates": [{
            "metadata": {
                "name": "fedora-image-cron",
                "annotations": { "ssp.kubevirt.io/dict.architectures": "amd64,arm64,s390x" },
            },
            "spec": {
                "garbageCollect": "Outdated", "importsToKeep": 2, "retentionPolicy": "None",
                "managedDataSource": "fedora", "schedule": "0 */12 * * *",
                "template": { "spec": {
                    "source": { "registry": { "url": url } },
                    "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                } },
            },
        }],
    });
    let patch = json!({ "spec": { "workloadSources": sources } });
    let name = names::HYPERCONVERGED;
    found
        .patch(name, &by("admin"), &Patch::Merge(patch))
        .await?;
    Ok(stage)
}

/// The volume or snapshot that a DataSource resolves to.
fn stands_for(source: &Value) -> &Value {
    let source = &source["status"]["source"];
    match &source["snapshot"]["name"] {
        Value::Null => &source["pvc"]["name"],
        snapshot => snapshot,
    }
}

/// Waits until the DataSource of the image is ready and resolves to this volume.
async fn fedora_is(stage: &Stage, name: &str) -> anyhow::Result<Value> {
    stage
        .until::<DataSource>(&format!("stands for {name}"), "fedora", |it| {
            condition(it, "Ready").0 == "True" && stands_for(it) == name
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn images_follow_nodes_updates_and_rollback() -> anyhow::Result<()> {
    let (mut library, registry) = Library::in_registry().await?;
    let url = image_at(&registry.host(), "latest");
    let stage = asked_for(&url, &registry).await?;

    // Two architectures have nodes: two imports, each with its own disk.
    let first = ["amd64", "arm64"].map(|it| (it, library.digest(it, 1)));
    for (architecture, digest) in &first {
        stage.imported("fedora", architecture, digest).await?;
        let disk = stage.disk(&volume("fedora", architecture, digest));
        same_bytes(&disk, &library.raw(architecture, 1))?;
    }
    let crons: Api<DataImportCron> = stage.api();
    assert_eq!(crons.get_opt("fedora-image-cron-s390x").await?, None);
    let amd64 = volume("fedora", "amd64", &first[0].1);
    let pointer = fedora_is(&stage, &amd64).await?;
    let to = &pointer["spec"]["source"]["dataSource"];
    assert_eq!(to["name"], "fedora-amd64", "{pointer:#}");

    // A new image for arm64 only.
    library.publish("2", &[("amd64", 1), ("arm64", 2), ("s390x", 1)])?;
    registry.push(&library.source("2"), "disks/fedora:latest")?;
    stage.refresh("fedora-image-cron-arm64").await?;
    let second = library.digest("arm64", 2);
    stage.imported("fedora", "arm64", &second).await?;
    stage.imported("fedora", "amd64", &first[0].1).await?;

    // Switch the DataSource to arm64, and roll back to its previous version.
    let retry = json!({ "initialDelay": "1s", "maxDelay": "2s" });
    stage
        .policy(json!({ "retry": retry, "images": [{
            "name": "fedora", "defaultArchitecture": "arm64",
        }] }))
        .await?;
    fedora_is(&stage, &volume("fedora", "arm64", &second)).await?;
    stage
        .policy(json!({ "retry": retry, "gracePeriod": "1s", "images": [{
            "name": "fedora", "defaultArchitecture": "arm64",
            "pins": [{ "architecture": "arm64", "digest": first[1].1 }],
        }] }))
        .await?;
    fedora_is(&stage, &volume("fedora", "arm64", &first[1].1)).await?;

    // The last arm64 node is removed, and its images are deleted.
    let nodes: Api<Node> = Api::all(stage.cluster.client());
    nodes.delete("node-arm64", &DeleteParams::default()).await?;
    fedora_is(&stage, &amd64).await?;
    stage
        .until_gone::<DataImportCron>("fedora-image-cron-arm64")
        .await?;
    stage.until_gone::<DataSource>("fedora-arm64").await?;
    same_bytes(&stage.disk(&amd64), &library.raw("amd64", 1))?;
    Ok(())
}
