//! DataVolumes that clone through a DataSource.

use api::cdi::DataVolume;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::library::image_at;
use crate::stage::{Stage, condition, volume};

#[tokio::test(flavor = "multi_thread")]
async fn clone_follows_pointer_once_ready() -> anyhow::Result<()> {
    let (library, server, stage) = Stage::serving("1").await?;
    stage.pointer("fedora", "fedora-arm64").await?;
    let volumes: Api<DataVolume> = stage.api();
    let copy = serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": { "name": "machine" },
        "spec": {
            "sourceRef": { "kind": "DataSource", "name": "fedora" },
            "storage": { "resources": { "requests": { "storage": "2Gi" } } },
        },
    }))?;
    volumes.create(&PostParams::default(), &copy).await?;
    let waiting = stage
        .until::<DataVolume>("waits", "machine", |it| {
            it["status"]["phase"] == "CloneScheduled"
        })
        .await?;
    let (_, _, message) = condition(&waiting, "Running");
    let expected = "Empty source field in 'fedora'. DataSource may not be ready yet";
    assert_eq!(message, expected);

    let url = image_at(&server.host(), "1");
    stage.cron("fedora", "arm64", &url).await?;
    stage
        .until::<DataVolume>("copied", "machine", |it| {
            it["status"]["phase"] == "Succeeded"
        })
        .await?;
    let claim = stage
        .until::<PersistentVolumeClaim>("there", "machine", |_| true)
        .await?;
    let name = volume("fedora", "arm64", &library.digest("arm64", 1));
    let source = &claim["spec"]["dataSource"];
    assert_eq!(source["kind"], "VolumeSnapshot");
    assert_eq!(source["name"], name);
    Ok(())
}
