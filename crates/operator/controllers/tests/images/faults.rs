//! Failures: reported by reason on the DataImportCron and retried, while the previous image stays in service.

use api::cdi::{DataImportCron, DataSource, DataVolume};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{same_bytes, wait_until};

use crate::library::{Fault, Library, Server, image_at};
use crate::stage::{Stage, WAIT_TIMEOUT, condition, volume};

const CRON: &str = "fedora-image-cron-arm64";

/// The first version of the image is in service.
async fn in_service() -> anyhow::Result<(Library, Server, Stage)> {
    let (library, server, stage) = Stage::serving("latest").await?;
    let url = image_at(&server.host(), "latest");
    stage.cron("fedora", "arm64", &url).await?;
    let digest = library.digest("arm64", 1);
    stage.imported("fedora", "arm64", &digest).await?;
    Ok((library, server, stage))
}

/// The first version is in service, and importing the second one fails with this reason.
async fn failing(fault: Fault, reason: &str) -> anyhow::Result<(Library, Server, Stage, Value)> {
    let (mut library, server, stage) = in_service().await?;
    server.does(Some(fault));
    library.publish_all("latest", 2)?;
    stage.refresh(CRON).await?;
    let cron = stage.fails_for_now(CRON, reason).await?;
    Ok((library, server, stage, cron))
}

/// The first version can still be used.
async fn is_in_service(stage: &Stage, library: &Library) -> anyhow::Result<()> {
    let name = volume("fedora", "arm64", &library.digest("arm64", 1));
    let source = stage
        .until::<DataSource>("there", "fedora-arm64", |_| true)
        .await?;
    assert_eq!(condition(&source, "Ready").0, "True", "{source:#}");
    assert_eq!(source["status"]["source"]["snapshot"]["name"], name);
    same_bytes(&stage.disk(&name), &library.raw("arm64", 1))
}

/// The status has the time of the next attempt and the number of failures.
fn assert_retry_is_reported(object: &Value) {
    let notes = &object["metadata"]["annotations"];
    let next = notes["medley.dev/next-retry-time"].as_str();
    assert!(next.is_some(), "{object:#}");
    let failures = notes["medley.dev/failures"].as_str();
    assert!(failures.unwrap().parse::<u32>().unwrap() >= 1);
}

#[rstest]
#[case::down(Fault::Down, "RegistryUnavailable")]
#[case::unauthorized(Fault::Unauthorized, "PullUnauthorized")]
#[case::rate_limited(Fault::RateLimited, "RateLimited")]
#[tokio::test(flavor = "multi_thread")]
async fn unavailable_registry_is_retried(
    #[case] fault: Fault,
    #[case] reason: &str,
) -> anyhow::Result<()> {
    let (library, server, stage, cron) = failing(fault, reason).await?;
    assert_retry_is_reported(&cron);
    is_in_service(&stage, &library).await?;
    let events = stage.events(CRON).await?;
    assert!(events.iter().any(|(it, _)| it == reason), "{events:?}");
    // It recovers without intervention.
    server.does(None);
    let digest = library.digest("arm64", 2);
    stage.imported("fedora", "arm64", &digest).await?;
    let cron = stage
        .until::<DataImportCron>("there", CRON, |_| true)
        .await?;
    let notes = &cron["metadata"]["annotations"];
    assert_eq!(notes["medley.dev/failures"], json!(null));
    Ok(())
}

#[rstest]
#[case::truncated(Fault::Truncated, "RegistryUnavailable")]
#[case::corrupted(Fault::Corrupted, "DigestMismatch")]
#[tokio::test(flavor = "multi_thread")]
async fn corrupt_layer_is_fetched_again(
    #[case] fault: Fault,
    #[case] reason: &str,
) -> anyhow::Result<()> {
    let (library, server, stage, cron) = failing(fault, reason).await?;
    let (status, actual, _) = condition(&cron, "Progressing");
    assert_eq!((&*status, &*actual), ("False", reason));
    let digest = library.digest("arm64", 2);
    let name = volume("fedora", "arm64", &digest);
    let import = stage.until::<DataVolume>("there", &name, |_| true).await?;
    assert_retry_is_reported(&import);
    is_in_service(&stage, &library).await?;
    server.does(None);
    stage.imported("fedora", "arm64", &digest).await?;
    same_bytes(&stage.disk(&name), &library.raw("arm64", 2))
}

#[derive(Debug, Clone, Copy)]
enum Published {
    WithoutArchitecture,
    Single,
    Empty,
}

#[rstest]
#[case(Published::WithoutArchitecture, "ArchitectureNotFound", "amd64, s390x")]
#[case(Published::Single, "NotAnIndex", "amd64 instead of arm64")]
#[case(Published::Empty, "NoDisk", "/disk")]
#[tokio::test(flavor = "multi_thread")]
async fn invalid_image_is_reported_by_reason(
    #[case] published: Published,
    #[case] reason: &str,
    #[case] expected: &str,
) -> anyhow::Result<()> {
    let (mut library, _server, stage) = in_service().await?;
    match published {
        Published::WithoutArchitecture => {
            library.publish("latest", &[("amd64", 2), ("s390x", 2)])?;
        }
        Published::Single => library.publish_single("latest", "amd64", 2)?,
        Published::Empty => library.publish_empty("latest")?,
    }
    stage.refresh(CRON).await?;
    let cron = stage.fails_for_now(CRON, reason).await?;
    let (_, _, message) = condition(&cron, "UpToDate");
    assert!(message.contains(expected), "{message}");
    is_in_service(&stage, &library).await?;
    library.publish_all("latest", 3)?;
    stage.refresh(CRON).await?;
    let digest = library.digest("arm64", 3);
    stage.imported("fedora", "arm64", &digest).await?;
    let name = volume("fedora", "arm64", &digest);
    same_bytes(&stage.disk(&name), &library.raw("arm64", 3))?;
    // The result of the invalid image is removed.
    wait_until("one import is left", WAIT_TIMEOUT, async || {
        Ok((stage.imports().await? == [name.clone()]).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn too_small_volume_is_reported() -> anyhow::Result<()> {
    let (library, server, stage) = Stage::serving("latest").await?;
    let url = image_at(&server.host(), "latest");
    // The disk has 8 MiB.
    let patch = json!({ "spec": { "template": { "spec": { "storage": { "resources": {
        "requests": { "storage": "4Mi" },
    } } } } } });
    stage.cron_with("fedora", "arm64", &url, &patch).await?;
    let cron = stage.fails_for_now(CRON, "TooSmall").await?;
    let (_, _, message) = condition(&cron, "UpToDate");
    assert!(message.contains("8388608"), "{message}");
    let name = volume("fedora", "arm64", &library.digest("arm64", 1));
    let import = stage
        .until::<DataVolume>("tried again", &name, |it| {
            it["status"]["restartCount"].as_i64() >= Some(2)
        })
        .await?;
    assert_retry_is_reported(&import);
    assert!(!stage.disk(&name).exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_operator_resumes_import() -> anyhow::Result<()> {
    let (mut library, server, stage) = in_service().await?;
    let half = 2 << 20;
    server.does(Some(Fault::Trickling(half)));
    library.publish_all("latest", 2)?;
    stage.refresh(CRON).await?;
    let digest = library.digest("arm64", 2);
    // The manifest is not read before the poll.
    let name = volume("fedora", "arm64", &digest);
    let saved = stage.disk(&name).with_file_name("disk.img.part.json");
    wait_until("half a disk is there", WAIT_TIMEOUT, async || {
        Ok(saved.exists().then_some(()))
    })
    .await?;
    stage
        .until::<DataVolume>("running", &name, |it| {
            it["status"]["phase"] == "ImportInProgress"
        })
        .await?;
    is_in_service(&stage, &library).await?;
    stage.stop().await;
    server.does(None);
    let before = server.layers().len();
    stage.operator().await?;
    stage.imported("fedora", "arm64", &digest).await?;
    same_bytes(&stage.disk(&name), &library.raw("arm64", 2))?;
    let layers = server.layers();
    let layers = &layers[before..];
    assert!(
        layers.iter().any(|(_, offset)| *offset > 0),
        "it began anew: {layers:?}"
    );
    assert!(!saved.exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_node_for_pull_is_reported() -> anyhow::Result<()> {
    let (library, server, stage) = Stage::serving("latest").await?;
    let url = image_at(&server.host(), "latest");
    let patch = json!({ "spec": { "template": { "spec": { "source": { "registry": {
        "pullMethod": "node",
    } } } } } });
    stage.cron_with("fedora", "s390x", &url, &patch).await?;
    let cron = stage
        .fails("fedora-image-cron-s390x", "NoMatchingNode")
        .await?;
    let (_, _, message) = condition(&cron, "UpToDate");
    assert!(message.contains("kubernetes.io/arch=s390x"), "{message}");
    stage.node("s390x").await?;
    let digest = library.digest("s390x", 1);
    stage.imported("fedora", "s390x", &digest).await?;
    Ok(())
}
