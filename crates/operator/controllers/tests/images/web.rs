//! Golden images that are files on web servers: imported once per version, and as safe as registry images.

use api::cdi::{DataImportCron, DataSource, DataVolume};
use controllers::images::cdi::Imports;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{
    Layout, PASSWORD, Registry, RegistryOptions, ScriptedResponse, USERNAME, WebFile, certificate,
    same_bytes, wait_until,
};

use crate::files::{Disks, Site, Wrong, gzip, xz};
use crate::pods::ends;
use crate::stage::{Stage, WAIT_TIMEOUT, condition, volume};

const CRON: &str = "fedora-image-cron-arm64";
const PATH: &str = "/fedora.qcow2";

/// Creates the DataImportCron of an architecture for a file.
async fn cron(stage: &Stage, architecture: &str, http: Value) -> anyhow::Result<()> {
    let patch = json!({ "spec": {
        // Imports outlive the cron, as when its template changes.
        "retentionPolicy": null,
        "template": { "spec": { "source": { "registry": null, "http": http } } },
    } });
    stage.cron_with("fedora", architecture, "", &patch).await?;
    Ok(())
}

/// Creates a DataVolume from a file, which no cron updates.
async fn data_volume(stage: &Stage, name: &str, spec: Value) -> anyhow::Result<()> {
    let mut object = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": { "name": name },
        "spec": { "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
    });
    machinery::patch::merge_patch(&mut object, &json!({ "spec": spec }))?;
    let volumes: Api<DataVolume> = stage.api();
    let object = serde_json::from_value(object)?;
    volumes.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Forces a poll; returns when its result is in the status.
async fn poll_again(
    stage: &Stage,
    site: &Site,
    architecture: &str,
    path: &str,
) -> anyhow::Result<()> {
    let before = site.asked("HEAD", path).len();
    let name = format!("fedora-image-cron-{architecture}");
    stage.refresh(&name).await?;
    stage
        .until::<DataImportCron>("asked", &name, |it| {
            let notes = &it["metadata"]["annotations"];
            site.asked("HEAD", path).len() > before
                && notes["cdi.kubevirt.io/storage.import.lastCronTime"].is_string()
        })
        .await?;
    Ok(())
}

/// The first version of a file is in service.
async fn in_service(disks: &Disks) -> anyhow::Result<(Site, Stage, String)> {
    let site = Site::start().await?;
    site.put(PATH, WebFile::new(disks.qcow2(1)?, "one"));
    let stage = Stage::importing(&[]).await?;
    cron(&stage, "arm64", json!({ "url": site.url(PATH) })).await?;
    let first = site.version(PATH);
    stage.imported("fedora", "arm64", &first).await?;
    Ok((site, stage, volume("fedora", "arm64", &first)))
}

/// A version can still be used.
async fn is_in_service(stage: &Stage, disks: &Disks, name: &str) -> anyhow::Result<()> {
    let source = stage
        .until::<DataSource>("there", "fedora-arm64", |_| true)
        .await?;
    assert_eq!(condition(&source, "Ready").0, "True", "{source:#}");
    assert_eq!(source["status"]["source"]["snapshot"]["name"], name);
    same_bytes(&stage.disk(name), &disks.raw(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_new_versions_are_imported() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let site = Site::start().await?;
    let paths = [("amd64", "/a.qcow2", 1), ("arm64", "/b.qcow2", 2)];
    for (_, path, number) in paths {
        site.put(path, WebFile::new(disks.qcow2(number)?, "one"));
    }
    let stage = Stage::importing(&[]).await?;
    for (architecture, path, _) in paths {
        cron(&stage, architecture, json!({ "url": site.url(path) })).await?;
    }
    for (architecture, path, number) in paths {
        let version = site.version(path);
        let found = stage.imported("fedora", architecture, &version).await?;
        let notes = &found["metadata"]["annotations"];
        assert_eq!(
            notes["cdi.kubevirt.io/storage.import.sourceDesiredDigest"],
            version
        );
        let disk = stage.disk(&volume("fedora", architecture, &version));
        same_bytes(&disk, &disks.raw(number))?;
    }
    // Polls send the known version, and get 304.
    for (architecture, path, _) in paths {
        poll_again(&stage, &site, architecture, path).await?;
        let last = site.asked("HEAD", path).pop();
        let last = last.unwrap();
        assert_eq!(last.header("if-none-match"), Some("\"one\""));
        stage
            .imported("fedora", architecture, &site.version(path))
            .await?;
        assert_eq!(site.asked("GET", path).len(), 1, "it was fetched again");
    }
    // One of the files changes.
    site.put("/b.qcow2", WebFile::new(disks.qcow2(3)?, "two"));
    for (architecture, path, _) in paths {
        poll_again(&stage, &site, architecture, path).await?;
    }
    let version = site.version("/b.qcow2");
    stage.imported("fedora", "arm64", &version).await?;
    let disk = stage.disk(&volume("fedora", "arm64", &version));
    same_bytes(&disk, &disks.raw(3))?;
    stage
        .imported("fedora", "amd64", &site.version("/a.qcow2"))
        .await?;
    let fetched = paths.map(|(_, path, _)| site.asked("GET", path).len());
    assert_eq!(fetched, [1, 2]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_file_formats_are_imported() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let qcow2 = disks.qcow2(1)?;
    let raw = std::fs::read(disks.raw(1))?;
    let files = [
        ("raw", raw.clone()),
        ("qcow2", qcow2.clone()),
        ("raw-gz", gzip(&raw)?),
        ("qcow2-xz", xz(&qcow2)?),
    ];
    let site = Site::start().await?;
    let stage = Stage::importing(&[]).await?;
    for (name, bytes) in files {
        let path = format!("/{name}");
        let checksum = platform::Digest::sha256(&bytes).to_string();
        site.put(&path, WebFile::new(bytes, name));
        let http = json!({ "url": site.url(&path), "checksum": checksum });
        data_volume(&stage, name, json!({ "source": { "http": http } })).await?;
        stage
            .until::<DataVolume>("imported", name, |it| it["status"]["phase"] == "Succeeded")
            .await?;
        same_bytes(&stage.disk(name), &disks.raw(1))?;
    }
    // A file that is not a disk is rejected.
    let spec = json!({
        "contentType": "archive", "source": { "http": { "url": site.url("/raw") } },
    });
    data_volume(&stage, "archive", spec).await?;
    wait_until("an archive is refused", WAIT_TIMEOUT, async || {
        let events = stage.events("archive").await?;
        let refused = events.iter().any(|(it, _)| it == "UnsupportedContentType");
        Ok(refused.then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn file_with_wrong_checksum_is_not_used() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let (site, stage, first) = in_service(&disks).await?;
    let newer = disks.qcow2(2)?;
    let checksum = platform::Digest::sha256(&newer).to_string();
    let http = json!({ "url": site.url(PATH), "checksum": checksum });
    // The template requires a checksum that the server does not serve yet.
    let crons: Api<DataImportCron> = stage.api();
    crons.delete(CRON, &DeleteParams::default()).await?;
    stage.until_gone::<DataImportCron>(CRON).await?;
    cron(&stage, "arm64", http.clone()).await?;
    let found = stage.fails_for_now(CRON, "DigestMismatch").await?;
    let (_, _, message) = condition(&found, "UpToDate");
    assert!(message.contains(&checksum), "{message}");
    is_in_service(&stage, &disks, &first).await?;
    // A DataVolume without a cron is not retried: it failed.
    data_volume(&stage, "alone", json!({ "source": { "http": http } })).await?;
    let found = stage
        .until::<DataVolume>("failed", "alone", |it| it["status"]["phase"] == "Failed")
        .await?;
    assert_eq!(condition(&found, "Running").1, "DigestMismatch");
    assert!(!stage.disk("alone").exists());
    site.put(PATH, WebFile::new(newer, "two"));
    stage.imported("fedora", "arm64", &checksum).await?;
    let disk = stage.disk(&volume("fedora", "arm64", &checksum));
    same_bytes(&disk, &disks.raw(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_web_server_is_retried() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let (site, stage, first) = in_service(&disks).await?;
    for (wrong, reason) in [
        (Wrong::Missing, "ImageNotFound"),
        (Wrong::Denied, "PullUnauthorized"),
        (Wrong::Down, "RegistryUnavailable"),
    ] {
        site.does(Some(wrong));
        stage.refresh(CRON).await?;
        stage.fails_for_now(CRON, reason).await?;
        is_in_service(&stage, &disks, &first).await?;
        let events = stage.events(CRON).await?;
        assert!(events.iter().any(|(it, _)| it == reason), "{events:?}");
    }
    // It recovers without intervention.
    site.put(PATH, WebFile::new(disks.qcow2(2)?, "two"));
    site.does(None);
    let second = site.version(PATH);
    stage.imported("fedora", "arm64", &second).await?;
    same_bytes(
        &stage.disk(&volume("fedora", "arm64", &second)),
        &disks.raw(2),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_and_headers_are_sent() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let site = Site::guarded(|asked| {
        let shown = [
            // Base64 of `me:secret`.
            ("authorization", "Basic bWU6c2VjcmV0"),
            ("x-one", "for everybody"),
            ("x-two", "for a few"),
        ];
        let known = shown
            .iter()
            .all(|(name, value)| asked.header(name) == Some(value));
        (!known).then(|| ScriptedResponse::answer(401, ""))
    })
    .await?;
    site.put(PATH, WebFile::new(disks.qcow2(1)?, "one"));
    let stage = Stage::importing(&[]).await?;
    let http = json!({
        "url": site.url(PATH), "secretRef": "access",
        "extraHeaders": ["X-One: for everybody"], "secretExtraHeaders": ["header"],
    });
    cron(&stage, "arm64", http).await?;
    for (secret, data) in [
        (
            "access",
            json!({ "accessKeyId": "me", "secretKey": "secret" }),
        ),
        ("header", json!({ "any": "X-Two: for a few\n" })),
    ] {
        let missing = format!("secret kubevirt-os-images/{secret} not found");
        stage
            .until::<DataImportCron>("reported", CRON, |it| {
                let (_, reason, message) = condition(it, "UpToDate");
                reason == "PullUnauthorized" && message.contains(&missing)
            })
            .await?;
        stage.secret(secret, data).await?;
    }
    let version = site.version(PATH);
    stage.imported("fedora", "arm64", &version).await?;
    same_bytes(
        &stage.disk(&volume("fedora", "arm64", &version)),
        &disks.raw(1),
    )
}

/// Blobs of a registry as files on a web server: with TLS, a password, tags and ranges.
#[tokio::test(flavor = "multi_thread")]
async fn tls_certificate_is_verified() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let bytes = disks.qcow2(1)?;
    let digest = platform::Digest::sha256(&bytes);
    let folder = tempfile::tempdir()?;
    let mut layout = Layout::new(folder.path())?;
    let image = layout.image("arm64", &[&bytes], &json!({}))?;
    layout.name("1", &image)?;
    let (own, key, authority) = certificate()?;
    let registry = Registry::start_with(RegistryOptions {
        password: true,
        tls: Some((own, key)),
    })
    .await?;
    registry.push(&layout.source("1"), "disks/fedora:1")?;
    // The list of insecure registries does not apply to web servers.
    let stage = Stage::importing(&[registry.host()]).await?;
    let access = json!({ "accessKeyId": USERNAME, "secretKey": PASSWORD });
    stage.secret("access", access).await?;
    let url = format!("https://{}/v2/disks/fedora/blobs/{digest}", registry.host());
    let mut http = json!({ "url": url, "secretRef": "access" });
    cron(&stage, "arm64", http.clone()).await?;
    stage.fails_for_now(CRON, "RegistryUnavailable").await?;
    let crons: Api<DataImportCron> = stage.api();
    crons.delete(CRON, &DeleteParams::default()).await?;
    stage.until_gone::<DataImportCron>(CRON).await?;
    let maps: Api<ConfigMap> = stage.api();
    let map = json!({ "metadata": { "name": "authorities" }, "data": { "ca.pem": authority } });
    maps.create(&PostParams::default(), &serde_json::from_value(map)?)
        .await?;
    http["certConfigMap"] = json!("authorities");
    cron(&stage, "arm64", http).await?;
    let found = stage
        .until::<DataImportCron>("up to date", CRON, |it| {
            condition(it, "UpToDate").0 == "True"
        })
        .await?;
    let version = found["status"]["currentImports"][0]["Digest"].as_str();
    let name = volume("fedora", "arm64", version.unwrap());
    same_bytes(&stage.disk(&name), &disks.raw(1))
}

/// With a strong validator a partial disk is resumed; without one it is restarted.
#[rstest]
#[case::sure(true)]
#[case::unsure(false)]
#[tokio::test(flavor = "multi_thread")]
async fn restarted_operator_resumes_file_import(#[case] is_sure: bool) -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let (site, stage, first) = in_service(&disks).await?;
    let mut file = WebFile::new(disks.qcow2(2)?, "two");
    if !is_sure {
        file.etag = Some("W/\"two\"".to_owned());
        file.modified = None;
    }
    site.put(PATH, file);
    site.does(Some(Wrong::Trickling(2 << 20)));
    stage.refresh(CRON).await?;
    let second = site.version(PATH);
    let name = volume("fedora", "arm64", &second);
    let half = stage.disk(&name).with_file_name("disk.img.part");
    let saved = stage.disk(&name).with_file_name("disk.img.part.json");
    wait_until("half a disk is there", WAIT_TIMEOUT, async || {
        let is_there = if is_sure {
            saved.exists()
        } else {
            std::fs::metadata(&half).is_ok_and(|it| it.len() > 1 << 20)
        };
        Ok(is_there.then_some(()))
    })
    .await?;
    is_in_service(&stage, &disks, &first).await?;
    stage.stop().await;
    site.does(None);
    let before = site.asked("GET", PATH).len();
    stage.operator().await?;
    stage.imported("fedora", "arm64", &second).await?;
    same_bytes(&stage.disk(&name), &disks.raw(2))?;
    let asked = site.asked("GET", PATH);
    let asked: Vec<_> = asked[before..]
        .iter()
        .map(|it| (it.offset() > 0, it.header("if-range")))
        .collect();
    let expected = if is_sure {
        (true, Some("\"two\""))
    } else {
        (false, None)
    };
    assert_eq!(asked, [expected]);
    assert!(!saved.exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn importer_pod_imports_file() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let site = Site::start().await?;
    site.put(PATH, WebFile::new(disks.qcow2(1)?, "one"));
    let stage = Stage::new().await?;
    let image = "example.com/medley:1".to_owned();
    stage.operator_with(Imports::Pods { image }).await?;
    cron(&stage, "arm64", json!({ "url": site.url(PATH) })).await?;
    let version = site.version(PATH);
    let pod = format!("importer-{}", volume("fedora", "arm64", &version));
    let found = stage.until::<Pod>("there", &pod, |_| true).await?;
    let env = found["spec"]["containers"][0]["env"].as_array();
    let value = |name: &str| {
        let found = env.into_iter().flatten().find(|it| it["name"] == name);
        found.map_or(Value::Null, |it| it["value"].clone())
    };
    assert_eq!(value("IMPORTER_SOURCE"), "http");
    assert_eq!(value("IMPORTER_ENDPOINT"), site.url(PATH));
    // A file has no platform to select; its disk is inspected for this architecture.
    assert_eq!(value("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE"), "arm64");
    ends(&stage, &pod, "Succeeded", 0, r#"{"content":"sha256:1"}"#).await?;
    stage.imported("fedora", "arm64", &version).await?;
    Ok(())
}
