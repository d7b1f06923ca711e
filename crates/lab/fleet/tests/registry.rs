//! The demo registry as clients use it: skopeo, and `publish`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use api::hco;
use fleet::operators::{self, Installed, importer, names};
use fleet::registry::{self, Architecture, IMAGES, Publication};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};
use tokio::process::Command;

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A cluster with the registry.
struct Fixture {
    cluster: TestCluster,
    manager: Manager,
    address: SocketAddr,
}

impl Fixture {
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        operators::install(&cluster.client(), &Installed::demo()).await?;
        let manager = Manager::new(cluster.client());
        let address = registry::start(&manager, &cluster.client()).await?;
        Ok(Self {
            cluster,
            manager,
            address,
        })
    }

    fn url(&self, name: &str) -> String {
        format!("docker://{}/containerdisks/{name}", self.address)
    }

    /// The raw manifest of a reference.
    async fn raw(&self, name: &str) -> anyhow::Result<Value> {
        let url = self.url(name);
        let text = run("skopeo", &["inspect", "--tls-verify=false", "--raw", &url]).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The digest of the manifest for an architecture.
    async fn digest(&self, name: &str, architecture: &str) -> anyhow::Result<String> {
        let index = self.raw(name).await?;
        let entries = index["manifests"].as_array().into_iter().flatten();
        let mut found = entries.filter(|it| it["platform"]["architecture"] == architecture);
        let digest = found.next().and_then(|it| it["digest"].as_str());
        Ok(digest.unwrap_or_default().to_owned())
    }
}

async fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).kill_on_drop(true);
    let output = tokio::time::timeout(WAIT_TIMEOUT, command.output()).await??;
    ensure!(output.status.success(), "{arguments:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn skopeo_inspects_and_copies_every_image() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let folder = tempfile::tempdir()?;
    for image in &IMAGES {
        let name = format!("{}:{}", image.repository, image.tag);
        let url = format!("docker://{}/{name}", fixture.address);
        let to = format!("oci:{}", folder.path().join(image.name).display());
        // Every layer is downloaded and verified.
        run(
            "skopeo",
            &[
                "copy",
                "--quiet",
                "--all",
                "--src-tls-verify=false",
                &url,
                &to,
            ],
        )
        .await?;
        for architecture in image.architectures {
            let arguments = [
                "inspect",
                "--tls-verify=false",
                "--override-os=linux",
                "--override-arch",
                architecture.name(),
                &url,
            ];
            let inspected: Value = serde_json::from_str(&run("skopeo", &arguments).await?)?;
            assert_eq!(inspected["Architecture"], architecture.name(), "{name}");
            assert!(inspected["Labels"]["shasum"].is_string(), "{inspected}");
            let tags = inspected["RepoTags"].as_array().map_or(0, Vec::len);
            let expected = IMAGES.iter().filter(|it| it.repository == image.repository);
            assert_eq!(tags, expected.count() * 2, "{inspected}");
        }
    }
    Ok(())
}

/// The disk in the only layer of an image, as QEMU reads it.
async fn disk(folder: &Path, url: &str, architecture: &str) -> anyhow::Result<Vec<u8>> {
    let to = folder.join(architecture);
    let target = format!("dir:{}", to.display());
    run(
        "skopeo",
        &[
            "--override-os=linux",
            "--override-arch",
            architecture,
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            url,
            &target,
        ],
    )
    .await?;
    let manifest: Value = serde_json::from_slice(&std::fs::read(to.join("manifest.json"))?)?;
    let layer = manifest["layers"][0]["digest"].as_str().unwrap_or_default();
    let layer = to.join(layer.trim_start_matches("sha256:"));
    let path = |name: &str| to.join(name).display().to_string();
    run(
        "tar",
        &[
            "-xzf",
            &layer.display().to_string(),
            "-C",
            &to.display().to_string(),
        ],
    )
    .await?;
    let disk = path("disk/disk.img");
    let raw = path("disk.raw");
    run("qemu-img", &["check", "-f", "qcow2", &disk]).await?;
    run(
        "qemu-img",
        &["convert", "-f", "qcow2", "-O", "raw", &disk, &raw],
    )
    .await?;
    Ok(std::fs::read(raw)?)
}

#[tokio::test]
async fn disks_match_their_architecture() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let folder = tempfile::tempdir()?;
    let url = fixture.url("centos-stream:9");
    for architecture in Architecture::ALL {
        let disk = disk(folder.path(), &url, architecture.name()).await?;
        let text = format!("This stands for a system: centos-stream9 1, {architecture}\n");
        let found = disk.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(found, "{architecture}");
    }
    Ok(())
}

#[tokio::test]
async fn only_published_images_change() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let client = fixture.cluster.client();
    let mut before = Vec::new();
    for it in Architecture::ALL {
        before.push(fixture.digest("fedora:latest", it.name()).await?);
    }
    let revision =
        registry::publish(&client, "fedora", Publication::One(Architecture::Arm64)).await?;
    assert_eq!(revision.to_string(), "2: amd64=1 arm64=2 s390x=1");
    wait_until("the new revision is served", WAIT_TIMEOUT, || async {
        let now = fixture.digest("fedora:latest", "arm64").await?;
        Ok((now != before[1]).then_some(()))
    })
    .await?;
    for (it, before) in Architecture::ALL.into_iter().zip(&before) {
        let now = fixture.digest("fedora:latest", it.name()).await?;
        assert_eq!(now == *before, it != Architecture::Arm64, "{it}");
        // The previous revision is still available.
        assert_eq!(fixture.digest("fedora:latest-1", it.name()).await?, *before);
        let pinned = fixture.raw(&format!("fedora@{before}")).await?;
        assert_eq!(pinned["schemaVersion"], 2);
    }
    let error = registry::publish(&client, "vista", Publication::All).await;
    let error = error.map_err(|error| error.to_string()).unwrap_err();
    assert!(error.contains("image \"vista\" not found"), "{error}");
    Ok(())
}

#[tokio::test]
async fn restart_keeps_address_and_digests() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let client = fixture.cluster.client();
    registry::publish(&client, "fedora", Publication::All).await?;
    wait_until("the new revision is served", WAIT_TIMEOUT, || async {
        Ok(fixture.raw("fedora:latest-2").await.ok().map(drop))
    })
    .await?;
    let before = fixture.raw("fedora:latest").await?;
    fixture.manager.stop().await;
    let refused = fixture.raw("fedora:latest").await;
    assert!(refused.is_err(), "{refused:?}");

    let manager = Manager::new(client.clone());
    let address = registry::start(&manager, &client).await?;
    assert_eq!(address, fixture.address);
    assert_eq!(fixture.raw("fedora:latest").await?, before);

    // While the port is taken by another process, the registry uses another one and publishes it in
    // the cluster.
    let other = Manager::new(client.clone());
    let moved = registry::start(&other, &client).await?;
    assert_ne!(moved, address);
    let importers: Api<DynamicObject> = Api::all_with(client.clone(), &importer("CDI"));
    let object = importers.get(names::IMPORTER).await?;
    let trusted = object.data.pointer("/spec/config/insecureRegistries");
    assert_eq!(trusted, Some(&json!([moved])));
    Ok(())
}

#[tokio::test]
async fn boot_image_templates_are_published() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let client = fixture.cluster.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), names::VIRTUALIZATION_NAMESPACE);
    let map = maps.get(hco::TEMPLATES).await?;
    let data = map.data.unwrap_or_default();
    let templates: Vec<Value> = serde_saphyr::from_str(&data[hco::TEMPLATES_KEY])?;
    assert_eq!(templates, registry::templates(fixture.address));
    let machines: Vec<Value> = serde_saphyr::from_str(&data[hco::MACHINES_KEY])?;
    let api: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        names::TEMPLATE_NAMESPACE,
        &operators::template(),
    );
    for machine in machines {
        let object: DynamicObject = serde_json::from_value(machine.clone())?;
        let made = api.create(&PostParams::default(), &object).await?;
        assert_eq!(made.data["objects"], machine["objects"]);
    }

    // The templates as in the status of the virtualization operator, and a cron created from one.
    let kind = operators::hyperconverged(operators::HyperConvergedVersion::V1);
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), names::VIRTUALIZATION_NAMESPACE, &kind);
    let status = json!({ "status": { "dataImportCronTemplates": templates } });
    let written = api
        .patch_status(
            names::HYPERCONVERGED,
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await?;
    assert_eq!(
        written.data["status"]["dataImportCronTemplates"],
        json!(templates)
    );
    Ok(())
}

#[tokio::test]
async fn malformed_revisions_change_nothing() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let client = fixture.cluster.client();
    let before = fixture.raw("debian:13").await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), registry::NAMESPACE);
    let patch = |text: &str| Patch::Merge(json!({ "data": { "debian": text } }));
    let params = PatchParams::default();
    maps.patch(registry::CONFIG_MAP, &params, &patch("1: vax=1"))
        .await?;
    maps.patch(
        registry::CONFIG_MAP,
        &params,
        &Patch::Merge(json!({ "data": { "fedora": "7: amd64=1 arm64=1 s390x=1" } })),
    )
    .await?;
    // Changes arrive in order: once the second is visible, the first has been processed.
    wait_until("the second change is seen", WAIT_TIMEOUT, || async {
        Ok(fixture.raw("fedora:latest-7").await.ok().map(drop))
    })
    .await?;
    assert_eq!(fixture.raw("debian:13").await?, before);
    let refused = registry::publish(&client, "debian", Publication::All).await;
    let refused = refused.map_err(|error| error.to_string()).unwrap_err();
    assert!(
        refused.contains("unknown architecture \"vax\""),
        "{refused}"
    );
    Ok(())
}
