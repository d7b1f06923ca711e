//! Imports in pods: the test plays the kubelet.

use api::cdi::DataVolume;
use controllers::images::cdi::Imports;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::Patch;
use serde_json::{Value, json};
use testkit::by;

use crate::library::{Library, image_at};
use crate::stage::{Stage, condition, volume};

/// Writes the termination status of an importer container.
pub(crate) async fn ends(
    stage: &Stage,
    pod: &str,
    phase: &str,
    code: i32,
    message: &str,
) -> anyhow::Result<()> {
    let status = json!({ "status": {
        "phase": phase,
        "containerStatuses": [{
            "name": "importer", "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": code, "message": message } },
        }],
    } });
    let pods: Api<Pod> = stage.api();
    pods.patch_status(pod, &by("kubelet"), &Patch::Merge(&status))
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_importer_pod_is_replaced() -> anyhow::Result<()> {
    let library = Library::published("1")?;
    let server = library.serve().await?;
    let stage = Stage::new().await?;
    stage.trust(&[server.host()]).await?;
    let image = "example.com/medley:1".to_owned();
    stage.operator_with(Imports::Pods { image }).await?;
    let url = image_at(&server.host(), "1");
    stage.cron("fedora", "arm64", &url).await?;
    let digest = library.digest("arm64", 1);
    let name = volume("fedora", "arm64", &digest);
    let pod = format!("importer-{name}");
    let found = stage.until::<Pod>("there", &pod, |_| true).await?;
    let container = &found["spec"]["containers"][0];
    assert_eq!(container["image"], "example.com/medley:1");
    let env: Vec<&Value> = container["env"].as_array().into_iter().flatten().collect();
    let value = |name: &str| {
        let found = env.iter().find(|it| it["name"] == name);
        found.map_or(Value::Null, |it| it["value"].clone())
    };
    let at = format!("docker://{}/disks/fedora@{digest}", server.host());
    assert_eq!(value("IMPORTER_ENDPOINT"), at);
    assert_eq!(value("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE"), "arm64");
    assert_eq!(value("INSECURE_TLS"), "true");

    // The first attempt fails; its message appears on the DataImportCron.
    let failed = r#"{"reason":"RegistryUnavailable","message":"nobody answers"}"#;
    ends(&stage, &pod, "Failed", 1, failed).await?;
    let cron = stage
        .fails_for_now("fedora-image-cron-arm64", "RegistryUnavailable")
        .await?;
    let (_, _, message) = condition(&cron, "UpToDate");
    assert!(message.starts_with("nobody answers"), "{message}");
    let uid = found["metadata"]["uid"].clone();
    stage
        .until::<Pod>("another one", &pod, |it| {
            it["metadata"]["uid"] != uid
                && it["metadata"]["annotations"]["medley.dev/attempt"] == "2"
        })
        .await?;
    let done = r#"{"content":"sha256:1","sniffed":["arm64"],"labels":{"instancetype.kubevirt.io/default-preference":"fedora"}}"#;
    ends(&stage, &pod, "Succeeded", 0, done).await?;
    stage.imported("fedora", "arm64", &digest).await?;
    stage.until_gone::<Pod>(&pod).await?;
    stage.until_gone::<DataVolume>(&name).await?;
    let snapshot = stage
        .until::<api::cdi::VolumeSnapshot>("there", &name, |_| true)
        .await?;
    let notes = &snapshot["metadata"]["annotations"];
    assert_eq!(notes["medley.dev/sniffed-architectures"], "arm64");
    assert_eq!(notes["medley.dev/content"], "sha256:1");
    Ok(())
}
