//! Addresses that imports connect to: only those the administrator allows, whatever a tenant names.

use api::cdi::DataVolume;
use controllers::Job;
use controllers::images::cdi::Imports;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use platform::AddressPolicy;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{FaultyServer, ScriptedResponse, WebFile, has, same_bytes};

use crate::files::{Disks, Site};
use crate::stage::{Stage, condition, volume};

const CRON: &str = "fedora-image-cron-arm64";
const PATH: &str = "/fedora.qcow2";

/// Creates a DataImportCron with a source.
async fn cron(stage: &Stage, source: &Value) -> anyhow::Result<()> {
    let mut patch = json!({ "spec": { "template": { "spec": { "source": {} } } } });
    let place = &mut patch["spec"]["template"]["spec"]["source"];
    *place = source.clone();
    if source.get("http").is_some() {
        place["registry"] = Value::Null;
    }
    stage.cron_with("fedora", "arm64", "", &patch).await?;
    Ok(())
}

/// Creates a DataVolume with a source, which no cron polls.
async fn data_volume(stage: &Stage, source: &Value) -> anyhow::Result<()> {
    let object = json!({
        "metadata": { "name": "mine" },
        "spec": {
            "source": source,
            "storage": { "resources": { "requests": { "storage": "1Gi" } } },
        },
    });
    let volumes: Api<DataVolume> = stage.api();
    let object = serde_json::from_value(object)?;
    volumes.create(&PostParams::default(), &object).await?;
    Ok(())
}

#[rstest]
#[case::file("http", "http://HOST/fedora.qcow2")]
#[case::name("http", "http://localhost:PORT/fedora.qcow2")]
#[case::image("registry", "docker://HOST/disks/fedora:1")]
#[case::image_by_name("registry", "docker://localhost:PORT/disks/fedora:1")]
#[tokio::test(flavor = "multi_thread")]
async fn loopback_is_not_accessed_for_tenants(
    #[case] kind: &str,
    #[case] url: &str,
) -> anyhow::Result<()> {
    let server = FaultyServer::start(|_| ScriptedResponse::answer(200, "secret")).await?;
    let host = server.host();
    let port = host.rsplit(':').next().unwrap_or_default();
    let url = url.replace("HOST", &host).replace("PORT", port);
    let source = json!({ kind: { "url": url } });
    let stage = Stage::new().await?;
    // The list of insecure registries does not allow addresses.
    let named = [host.clone(), format!("localhost:{port}")];
    stage.trust(&named).await?;
    let policy = AddressPolicy::default();
    stage
        .work_at(&[Job::ImagesCdi], stage.here(), policy)
        .await?;
    cron(&stage, &source).await?;
    let found = stage.fails(CRON, "ImportFailed").await?;
    let (_, _, message) = condition(&found, "UpToDate");
    has(
        &message,
        &[
            "127.0.0.1 is a loopback address",
            "--allow-address 127.0.0.1:",
        ],
    );
    data_volume(&stage, &source).await?;
    let found = stage
        .until::<DataVolume>("refused", "mine", |it| {
            condition(it, "Running").2.contains("--allow-address")
        })
        .await?;
    assert_eq!(condition(&found, "Running").1, "ImportFailed");
    assert_eq!(server.asked().len(), 0);
    Ok(())
}

#[rstest]
#[case("oci-archive:///etc/shadow")]
#[case("oci-archive:///nonexistent")]
#[case("oci:/etc")]
#[tokio::test(flavor = "multi_thread")]
async fn local_files_are_not_opened_for_tenants(#[case] url: &str) -> anyhow::Result<()> {
    let stage = Stage::importing(&[]).await?;
    let source = json!({ "registry": { "url": url } });
    cron(&stage, &source).await?;
    let found = stage.fails(CRON, "ImportFailed").await?;
    let (_, _, message) = condition(&found, "UpToDate");
    let expected = format!("source {url:?} is not imported: docker:// is accepted");
    has(&message, &[&expected]);
    data_volume(&stage, &source).await?;
    stage
        .until::<DataVolume>("refused", "mine", |it| {
            condition(it, "Running").2.contains(&expected)
        })
        .await?;
    Ok(())
}

/// Allowing one port does not allow its neighbours.
#[tokio::test(flavor = "multi_thread")]
async fn allowed_port_does_not_allow_others() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let site = Site::start().await?;
    site.put(PATH, WebFile::new(disks.qcow2(1)?, "one"));
    let stage = Stage::new().await?;
    let url = site.url(PATH);
    let host = url.trim_start_matches("http://").split('/').next();
    let allowed = host.unwrap_or_default().parse()?;
    let policy = AddressPolicy::allowing([allowed]);
    stage
        .work_at(&[Job::ImagesCdi], stage.here(), policy)
        .await?;
    cron(&stage, &json!({ "http": { "url": url } })).await?;
    let version = site.version(PATH);
    stage.imported("fedora", "arm64", &version).await?;
    let name = volume("fedora", "arm64", &version);
    same_bytes(&stage.disk(&name), &disks.raw(1))?;

    let other = FaultyServer::start(|_| ScriptedResponse::answer(200, "secret")).await?;
    let url = format!("http://{}/x", other.host());
    data_volume(&stage, &json!({ "http": { "url": url } })).await?;
    stage
        .until::<DataVolume>("refused", "mine", |it| {
            condition(it, "Running").2.contains("--allow-address")
        })
        .await?;
    assert_eq!(other.asked().len(), 0);
    Ok(())
}

/// Allowed addresses are passed to importer pods as well, which connect themselves.
#[tokio::test(flavor = "multi_thread")]
async fn importer_pods_get_the_allowed_addresses() -> anyhow::Result<()> {
    let disks = Disks::new()?;
    let site = Site::start().await?;
    site.put(PATH, WebFile::new(disks.qcow2(1)?, "one"));
    let stage = Stage::new().await?;
    let image = "example.com/medley:1".to_owned();
    let allowed = ["127.0.0.0/8".parse()?, "169.254.7.7:5000".parse()?];
    let policy = AddressPolicy::allowing(allowed);
    stage
        .work_at(&[Job::ImagesCdi], Imports::Pods { image }, policy)
        .await?;
    cron(&stage, &json!({ "http": { "url": site.url(PATH) } })).await?;
    let pod = format!(
        "importer-{}",
        volume("fedora", "arm64", &site.version(PATH))
    );
    let found = stage.until::<Pod>("there", &pod, |_| true).await?;
    let env = found["spec"]["containers"][0]["env"].as_array();
    let mut env = env.into_iter().flatten();
    let found = env.find(|it| it["name"] == "MEDLEY_ALLOW_ADDRESS");
    let expected = json!("127.0.0.0/8,169.254.7.7:5000");
    assert_eq!(found.map(|it| &it["value"]), Some(&expected));
    Ok(())
}
