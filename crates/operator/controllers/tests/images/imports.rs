//! Imports: when they run, and what results.

use api::cdi::{DataImportCron, DataSource, DataVolume, VolumeSnapshot};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{DeleteParams, Patch};
use serde_json::json;
use testkit::{PASSWORD, Registry, RegistryOptions, USERNAME, by, same_bytes, wait_until};

use crate::library::{Library, image_at};
use crate::stage::{NAMESPACE, Stage, WAIT_TIMEOUT, condition, volume};

/// End to end: a registry, three architectures, two of which are imported.
#[tokio::test(flavor = "multi_thread")]
async fn only_changed_architectures_are_imported_again() -> anyhow::Result<()> {
    let (mut library, registry) = Library::in_registry().await?;
    let stage = Stage::importing(&[registry.host()]).await?;
    let url = image_at(&registry.host(), "latest");
    stage.cron("fedora", "amd64", &url).await?;
    stage.cron("fedora", "arm64", &url).await?;
    for architecture in ["amd64", "arm64"] {
        let digest = library.digest(architecture, 1);
        let cron = stage.imported("fedora", architecture, &digest).await?;
        let name = volume("fedora", architecture, &digest);
        same_bytes(&stage.disk(&name), &library.raw(architecture, 1))?;
        assert_eq!(cron["status"]["sourceFormat"], "snapshot");
        assert_eq!(cron["status"]["lastImportedPVC"]["name"], name);
        let notes = &cron["metadata"]["annotations"];
        assert_eq!(
            notes["medley.dev/available-architectures"],
            "amd64,arm64,s390x"
        );
        assert_eq!(
            notes["cdi.kubevirt.io/storage.import.sourceDesiredDigest"],
            digest
        );
        // Only the snapshot is left.
        stage.until_gone::<DataVolume>(&name).await?;
        stage.until_gone::<PersistentVolumeClaim>(&name).await?;
        let snapshot = stage
            .until::<VolumeSnapshot>("there", &name, |_| true)
            .await?;
        let labels = &snapshot["metadata"]["labels"];
        assert_eq!(labels["template.kubevirt.io/architecture"], architecture);
        // Labels of the DataImportCron are copied to the DataSource.
        let source = format!("fedora-{architecture}");
        let source = stage
            .until::<DataSource>("there", &source, |_| true)
            .await?;
        let labels = &source["metadata"]["labels"];
        assert_eq!(labels["template.kubevirt.io/architecture"], architecture);
        assert_eq!(
            labels["cdi.kubevirt.io/storage.import.datasource-name"],
            "fedora"
        );
    }

    // A new image for arm64 only.
    let what = [("amd64", 1), ("arm64", 2), ("s390x", 1)];
    library.publish("2", &what)?;
    registry.push(&library.source("2"), "disks/fedora:latest")?;
    let before = registry.requests().len();
    stage.refresh("fedora-image-cron-arm64").await?;
    let digest = library.digest("arm64", 2);
    stage.imported("fedora", "arm64", &digest).await?;
    let name = volume("fedora", "arm64", &digest);
    same_bytes(&stage.disk(&name), &library.raw("arm64", 2))?;
    let amd64 = library.digest("amd64", 1);
    // It got the result of the same poll, and imported nothing.
    let cron = stage.imported("fedora", "amd64", &amd64).await?;
    let index = |cron: &serde_json::Value| {
        cron["metadata"]["annotations"]["medley.dev/index-digest"].clone()
    };
    let arm64 = stage
        .until::<DataImportCron>("there", "fedora-image-cron-arm64", |_| true)
        .await?;
    wait_until("amd64 knows of the new index", WAIT_TIMEOUT, async || {
        let crons: Api<DataImportCron> = stage.api();
        let cron = json!(crons.get("fedora-image-cron-amd64").await?);
        Ok((index(&cron) == index(&arm64)).then_some(()))
    })
    .await?;
    assert_eq!(cron["status"]["currentImports"][0]["Digest"], amd64);
    let asked = registry.requests();
    let asked: Vec<&String> = asked[before..].iter().collect();
    let of = |digest: &str| asked.iter().filter(|it| it.contains(digest)).count();
    assert_eq!(of(&amd64), 0, "nothing of amd64 is asked for: {asked:#?}");
    // Old imports are deleted, with their disks.
    let old = volume("fedora", "arm64", &library.digest("arm64", 1));
    stage.until_gone::<VolumeSnapshot>(&old).await?;
    wait_until("the old disk is gone", WAIT_TIMEOUT, async || {
        Ok((!stage.disk(&old).exists()).then_some(()))
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_architectures_share_a_poll() -> anyhow::Result<()> {
    let (library, registry) = Library::in_registry().await?;
    let stage = Stage::importing(&[registry.host()]).await?;
    let url = image_at(&registry.host(), "latest");
    for architecture in ["amd64", "arm64", "s390x"] {
        stage.cron("fedora", architecture, &url).await?;
    }
    for architecture in ["amd64", "arm64", "s390x"] {
        let digest = library.digest(architecture, 1);
        stage.imported("fedora", architecture, &digest).await?;
    }
    let before = registry.requests().len();
    let last = |cron: &serde_json::Value| cron["status"]["lastExecutionTimestamp"].clone();
    let cron = stage
        .until::<DataImportCron>("there", "fedora-image-cron-s390x", |_| true)
        .await?;
    stage.refresh("fedora-image-cron-amd64").await?;
    // A cron that did not poll gets the result, too.
    stage
        .until::<DataImportCron>("polled", "fedora-image-cron-s390x", |it| {
            last(it) != last(&cron)
        })
        .await?;
    let asked = registry.requests();
    let asked = &asked[before..];
    let manifests = asked.iter().filter(|it| it.contains("/manifests/"));
    assert_eq!(manifests.count(), 1, "{asked:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_kept_as_volumes_are_deleted_with_their_cron() -> anyhow::Result<()> {
    let (library, server, stage) = Stage::serving("1").await?;
    stage.keep_volumes().await?;
    let url = image_at(&server.host(), "1");
    stage.cron("fedora", "arm64", &url).await?;
    let digest = library.digest("arm64", 1);
    let cron = stage.imported("fedora", "arm64", &digest).await?;
    assert_eq!(cron["status"]["sourceFormat"], "pvc");
    let name = volume("fedora", "arm64", &digest);
    same_bytes(&stage.disk(&name), &library.raw("arm64", 1))?;
    let metrics = stage.metrics();
    let series = "kubevirt_cdi_dataimportcron_outdated{namespace=\"kubevirt-os-images\",cron_name=\"fedora-image-cron-arm64\",pending=\"false\"} 0";
    assert!(metrics.contains(series), "{metrics}");

    let crons: Api<DataImportCron> = stage.api();
    crons
        .delete("fedora-image-cron-arm64", &DeleteParams::default())
        .await?;
    stage
        .until_gone::<DataImportCron>("fedora-image-cron-arm64")
        .await?;
    stage.until_gone::<DataSource>("fedora-arm64").await?;
    stage.until_gone::<PersistentVolumeClaim>(&name).await?;
    wait_until("the disk is gone", WAIT_TIMEOUT, async || {
        Ok((!stage.disk(&name).exists()).then_some(()))
    })
    .await?;
    wait_until("its metrics are removed", WAIT_TIMEOUT, async || {
        Ok((!stage.metrics().contains("fedora-image-cron-arm64")).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_version_is_kept_until_unpinned() -> anyhow::Result<()> {
    let (mut library, server, stage) = Stage::serving("latest").await?;
    let url = image_at(&server.host(), "latest");
    stage
        .cron_with(
            "fedora",
            "arm64",
            &url,
            &json!({ "spec": { "importsToKeep": 2 } }),
        )
        .await?;
    let (first, retry) = (
        library.digest("arm64", 1),
        json!({ "initialDelay": "1s", "maxDelay": "2s" }),
    );
    stage.imported("fedora", "arm64", &first).await?;
    library.publish_all("latest", 2)?;
    stage.refresh("fedora-image-cron-arm64").await?;
    let second = library.digest("arm64", 2);
    stage.imported("fedora", "arm64", &second).await?;
    // Back: an existing import is used again, and nothing is fetched.
    let before = server.layers().len();
    let pins = json!([{
        "name": "fedora", "namespace": NAMESPACE,
        "pins": [{ "architecture": "arm64", "digest": first }],
    }]);
    stage
        .policy(json!({ "retry": retry, "images": pins }))
        .await?;
    stage.imported("fedora", "arm64", &first).await?;
    assert_eq!(server.layers().len(), before);
    stage.policy(json!({ "retry": retry })).await?;
    stage.imported("fedora", "arm64", &second).await?;
    let source = stage
        .until::<DataSource>("there", "fedora-arm64", |_| true)
        .await?;
    let history = source["metadata"]["annotations"]["medley.dev/history"].as_str();
    let history: serde_json::Value = serde_json::from_str(history.unwrap())?;
    let digests: Vec<&str> = history
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["digest"].as_str())
        .collect();
    assert_eq!(digests, [&*second, &*first, &*second, &*first]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_from_named_secret() -> anyhow::Result<()> {
    let library = Library::published("1")?;
    let registry = Registry::start_with(RegistryOptions {
        password: true,
        ..RegistryOptions::default()
    })
    .await?;
    registry.push(&library.source("1"), "disks/fedora:1")?;
    let stage = Stage::importing(&[registry.host()]).await?;
    let url = image_at(&registry.host(), "1");
    let patch = json!({ "spec": { "template": { "spec": { "source": { "registry": {
        "secretRef": "access",
    } } } } } });
    stage.cron_with("fedora", "amd64", &url, &patch).await?;
    let cron = stage
        .fails("fedora-image-cron-amd64", "PullUnauthorized")
        .await?;
    let (_, _, message) = condition(&cron, "UpToDate");
    assert!(
        message.contains("secret kubevirt-os-images/access not found"),
        "{message}"
    );
    let data = json!({ "accessKeyId": USERNAME, "secretKey": PASSWORD });
    stage.secret("access", data).await?;
    let digest = library.digest("amd64", 1);
    stage.imported("fedora", "amd64", &digest).await?;
    let name = volume("fedora", "amd64", &digest);
    same_bytes(&stage.disk(&name), &library.raw("amd64", 1))
}

#[tokio::test(flavor = "multi_thread")]
async fn pointer_resolves_to_source_of_its_target() -> anyhow::Result<()> {
    let (library, server, stage) = Stage::serving("1").await?;
    let sources: Api<DataSource> = stage.api();
    stage.pointer("fedora", "fedora-amd64").await?;
    stage
        .until::<DataSource>("not ready", "fedora", |it| {
            let (status, reason, _) = condition(it, "Ready");
            status == "False" && reason == "NotFound"
        })
        .await?;
    let url = image_at(&server.host(), "1");
    stage.cron("fedora", "amd64", &url).await?;
    let name = volume("fedora", "amd64", &library.digest("amd64", 1));
    let found = stage
        .until::<DataSource>("ready", "fedora", |it| condition(it, "Ready").0 == "True")
        .await?;
    assert_eq!(found["status"]["source"]["snapshot"]["name"], name);
    let labels = &found["metadata"]["labels"];
    assert_eq!(labels["template.kubevirt.io/architecture"], json!(null));
    // Pointers to pointers are not followed.
    let patch = json!({ "spec": { "source": { "dataSource": { "name": "fedora" } } } });
    stage.pointer("other", "fedora-amd64").await?;
    sources
        .patch("other", &by("admin"), &Patch::Merge(&patch))
        .await?;
    stage
        .until::<DataSource>("too deep", "other", |it| {
            condition(it, "Ready").1 == "MaxReferenceDepthReached"
        })
        .await?;
    Ok(())
}
