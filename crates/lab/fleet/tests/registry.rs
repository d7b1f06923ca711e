//! The registry of the demo as clients meet it: skopeo, and whoever publishes.

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

const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster with the registry.
struct World {
    cluster: TestCluster,
    manager: Manager,
    address: SocketAddr,
}

impl World {
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

    /// What stands under a name.
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
    let output = tokio::time::timeout(PATIENCE, command.output()).await??;
    ensure!(output.status.success(), "{arguments:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn skopeo_inspects_and_copies_every_image() -> anyhow::Result<()> {
    let world = World::start().await?;
    let folder = tempfile::tempdir()?;
    for image in &IMAGES {
        let name = format!("{}:{}", image.repository, image.tag);
        let url = format!("docker://{}/{name}", world.address);
        let to = format!("oci:{}", folder.path().join(image.name).display());
        // Every layer is fetched, and compared with its digest.
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
            let said: Value = serde_json::from_str(&run("skopeo", &arguments).await?)?;
            assert_eq!(said["Architecture"], architecture.name(), "{name}");
            assert!(said["Labels"]["shasum"].is_string(), "{said}");
            let tags = said["RepoTags"].as_array().map_or(0, Vec::len);
            let expected = IMAGES.iter().filter(|it| it.repository == image.repository);
            assert_eq!(tags, expected.count() * 2, "{said}");
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
async fn disks_are_those_of_their_architecture() -> anyhow::Result<()> {
    let world = World::start().await?;
    let folder = tempfile::tempdir()?;
    let url = world.url("centos-stream:9");
    for architecture in Architecture::ALL {
        let disk = disk(folder.path(), &url, architecture.name()).await?;
        let text = format!("This stands for a system: centos-stream9 1, {architecture}\n");
        let found = disk.windows(text.len()).any(|it| it == text.as_bytes());
        assert!(found, "{architecture}");
    }
    Ok(())
}

#[tokio::test]
async fn only_what_is_published_changes_and_the_rest_stays() -> anyhow::Result<()> {
    let world = World::start().await?;
    let client = world.cluster.client();
    let mut before = Vec::new();
    for it in Architecture::ALL {
        before.push(world.digest("fedora:latest", it.name()).await?);
    }
    let revision =
        registry::publish(&client, "fedora", Publication::One(Architecture::Arm64)).await?;
    assert_eq!(revision.to_string(), "2: amd64=1 arm64=2 s390x=1");
    wait_until("the new revision is served", PATIENCE, || async {
        let now = world.digest("fedora:latest", "arm64").await?;
        Ok((now != before[1]).then_some(()))
    })
    .await?;
    for (it, before) in Architecture::ALL.into_iter().zip(&before) {
        let now = world.digest("fedora:latest", it.name()).await?;
        assert_eq!(now == *before, it != Architecture::Arm64, "{it}");
        // What was there can still be had.
        assert_eq!(world.digest("fedora:latest-1", it.name()).await?, *before);
        let pinned = world.raw(&format!("fedora@{before}")).await?;
        assert_eq!(pinned["schemaVersion"], 2);
    }
    let error = registry::publish(&client, "vista", Publication::All).await;
    let error = error.map_err(|error| error.to_string()).unwrap_err();
    assert!(error.contains("no image \"vista\""), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_restart_changes_neither_place_nor_digests() -> anyhow::Result<()> {
    let world = World::start().await?;
    let client = world.cluster.client();
    registry::publish(&client, "fedora", Publication::All).await?;
    wait_until("the new revision is served", PATIENCE, || async {
        Ok(world.raw("fedora:latest-2").await.ok().map(drop))
    })
    .await?;
    let before = world.raw("fedora:latest").await?;
    world.manager.stop().await;
    let refused = world.raw("fedora:latest").await;
    assert!(refused.is_err(), "{refused:?}");

    let manager = Manager::new(client.clone());
    let address = registry::start(&manager, &client).await?;
    assert_eq!(address, world.address);
    assert_eq!(world.raw("fedora:latest").await?, before);

    // While somebody else has the place, another will do, and the cluster is told.
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
async fn the_cluster_knows_what_to_import() -> anyhow::Result<()> {
    let world = World::start().await?;
    let client = world.cluster.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), names::VIRTUALIZATION_NAMESPACE);
    let map = maps.get(hco::TEMPLATES).await?;
    let data = map.data.unwrap_or_default();
    let templates: Vec<Value> = serde_saphyr::from_str(&data[hco::TEMPLATES_KEY])?;
    assert_eq!(templates, registry::templates(world.address));
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

    // As the virtualization operator has them in its status, and a cron that is made of one.
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
async fn nonsense_that_somebody_writes_changes_nothing() -> anyhow::Result<()> {
    let world = World::start().await?;
    let client = world.cluster.client();
    let before = world.raw("debian:13").await?;
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
    // The second is seen, so the first has been.
    wait_until("the second change is seen", PATIENCE, || async {
        Ok(world.raw("fedora:latest-7").await.ok().map(drop))
    })
    .await?;
    assert_eq!(world.raw("debian:13").await?, before);
    let refused = registry::publish(&client, "debian", Publication::All).await;
    let refused = refused.map_err(|error| error.to_string()).unwrap_err();
    assert!(
        refused.contains("unknown architecture \"vax\""),
        "{refused}"
    );
    Ok(())
}
