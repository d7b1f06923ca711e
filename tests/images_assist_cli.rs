//! Golden images beside a running CDI, as users see them: histories, verification and pins.

use std::process::Stdio;

use anyhow::Context as _;
use api::cdi::{DataImportCron, DataSource, annotations, labels};
use api::hco::v1::HyperConverged;
use api::ssp::SSP;
use fleet::operators::{self, HyperConvergedVersion, Installed};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{CommandOutput, ContainerDisk, Layout, Registry, ServedCluster, TestCluster};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
/// The namespace of genuine operators.
const GENUINE: &str = "cdi";
const IMAGES: &str = "kubevirt-os-images";
/// An image that no registry has.
const URL: &str = "docker://registry.invalid/disks/fedora:41";
const POLLED: (&str, &str) = (URL, "0 */12 * * *");

struct Fixture {
    served: ServedCluster,
    cluster: TestCluster,
}

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn by() -> PatchParams {
    PatchParams::apply("admin").force()
}

impl Fixture {
    /// A cluster with a HyperConverged, and a Deployment of CDI whose program does not run.
    async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let installed = Installed {
            hyperconverged: Some(HyperConvergedVersion::V1),
            cdi: true,
            ssp: true,
            ..Installed::default()
        };
        operators::install(&client, &installed).await?;
        controllers::install(&client, "medley-system").await?;
        for name in [GENUINE, IMAGES] {
            let object = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            });
            let namespaces: Api<Namespace> = Api::all(client.clone());
            namespaces
                .patch(name, &by(), &Patch::Apply(&object))
                .await?;
        }
        for architecture in ["amd64", "arm64"] {
            let name = format!("node-{architecture}");
            cluster.node(&name, architecture, "worker").await?;
        }
        // Tests create their own.
        let all: Api<HyperConverged> = Api::all(client.clone());
        for found in all.list(&ListParams::default()).await? {
            let namespace = found.namespace().unwrap_or_default();
            let api: Api<HyperConverged> = Api::namespaced(client.clone(), &namespace);
            api.delete(&found.name_any(), &DeleteParams::default())
                .await?;
        }
        let labels = json!({ "name": "cdi-deployment" });
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "cdi-deployment" },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "c", "image": "registry.example/c:1" }] },
                },
            },
        });
        let deployments: Api<Deployment> = Api::namespaced(client, GENUINE);
        deployments
            .patch("cdi-deployment", &by(), &Patch::Apply(&object))
            .await?;
        Ok(Self {
            served: cluster.serve().await?,
            cluster,
        })
    }

    async fn run(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        let output = tokio::process::Command::new(MEDLEY)
            .args(line)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(CommandOutput::of(&output))
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), IMAGES)
    }

    /// Creates a DataImportCron for arm64, and what CDI leaves after it has imported versions; the last one is in use.
    async fn imported(
        &self,
        image: &str,
        (url, schedule): (&str, &str),
        versions: &[String],
        annotations: Value,
    ) -> anyhow::Result<String> {
        let (cron, source) = (
            format!("{image}-image-cron-arm64"),
            format!("{image}-arm64"),
        );
        let mut metadata = json!({
            "name": cron, "annotations": annotations,
            "labels": { labels::ARCHITECTURE: "arm64", labels::DATA_SOURCE_NAME: image },
        });
        let name = |digest: &str| golden_images::names::volume(&source, digest);
        for (index, version) in versions.iter().enumerate() {
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name(version)?, "labels": { labels::DATA_IMPORT_CRON: cron },
                    "annotations": { annotations::LAST_USE_TIME: format!("2026-11-0{}T00:00:00Z", index + 1) },
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                },
            });
            let claims: Api<PersistentVolumeClaim> = self.api();
            let name = name(version)?;
            claims.patch(&name, &by(), &Patch::Apply(&claim)).await?;
        }
        let newest = versions.last().context("a version")?;
        if metadata["annotations"][annotations::DESIRED_DIGEST].is_null() {
            metadata["annotations"][annotations::DESIRED_DIGEST] = json!(newest);
        }
        let object = json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron", "metadata": metadata,
            "spec": {
                "schedule": schedule, "managedDataSource": source,
                "template": { "spec": {
                    "source": { "registry": {
                        "url": url, "platform": { "architecture": "arm64" },
                    } },
                    "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                } },
            },
        });
        let crons: Api<DataImportCron> = self.api();
        crons.patch(&cron, &by(), &Patch::Apply(&object)).await?;
        let object = json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
            "metadata": {
                "name": source,
                "labels": {
                    labels::ARCHITECTURE: "arm64", labels::DATA_SOURCE_NAME: image, labels::DATA_IMPORT_CRON: cron,
                },
            },
            "spec": { "source": { "pvc": { "namespace": IMAGES, "name": name(newest)? } } },
        });
        let sources: Api<DataSource> = self.api();
        sources
            .patch(&source, &by(), &Patch::Apply(&object))
            .await?;
        Ok(cron)
    }

    /// Digest, and pin, of a DataImportCron.
    async fn pinned(&self, cron: &str) -> anyhow::Result<(Option<String>, Option<String>)> {
        let crons: Api<DataImportCron> = self.api();
        let found = crons.get(cron).await?;
        let of = |name: &str| found.annotations().get(name).cloned();
        Ok((
            of(annotations::DESIRED_DIGEST),
            of("medley.dev/pinned-digest"),
        ))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_and_verification_work_beside_cdi() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .imported("fedora", POLLED, &[digest('a'), digest('b')], json!({}))
        .await?;
    let explained = fixture.run(&["images", "explain", "fedora"]).await?;
    assert_eq!(explained.code, Some(0), "{explained:?}");
    for expected in [
        format!(
            "refers to pvc/fedora-arm64-bbbbbbbbbbbb, version {}",
            digest('b')
        ),
        "CDI keeps version sha256:aaaaaaaaaaaa as pvc/fedora-arm64-aaaaaaaaaaaa".to_owned(),
    ] {
        assert!(explained.out.contains(&expected), "{explained:?}");
    }
    let listed = fixture.run(&["images", "-o", "json"]).await?;
    let value: Value = serde_json::from_str(&listed.out)?;
    let history = &value["items"][0]["architectures"][0]["history"];
    assert_eq!(history[0]["digest"], digest('b').as_str());
    assert_eq!(history[1]["digest"], "sha256:aaaaaaaaaaaa");
    assert_eq!(history[1]["derived"], true);

    // The registry does not exist.
    let verified = fixture.run(&["images", "verify", "-o", "json"]).await?;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let value: Value = serde_json::from_str(&verified.out)?;
    assert_eq!(value["items"][0]["dataSource"], "fedora-arm64");
    assert_eq!(value["items"][0]["result"], "NotVerifiable");
    assert_eq!(value["items"][0]["reason"], "RegistryUnavailable");

    // The importer of CDI selected another architecture: that needs no registry.
    let claims: Api<PersistentVolumeClaim> = fixture.api();
    let patch = json!({ "metadata": { "annotations": {
        "cdi.kubevirt.io/storage.import.endpoint": "docker://registry.invalid/disks/fedora",
        "cdi.kubevirt.io/storage.import.registryImageArchitecture": "amd64",
    } } });
    claims
        .patch(
            "fedora-arm64-bbbbbbbbbbbb",
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await?;
    let verified = fixture.run(&["images", "verify", "fedora"]).await?;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    for expected in [
        "fedora   arm64          Mismatch",
        "fedora-arm64: the import into fedora-arm64-bbbbbbbbbbbb selected amd64",
    ] {
        assert!(verified.out.contains(expected), "{verified:?}");
    }
    assert!(
        verified
            .err
            .contains("1 of 1 disks is for another architecture"),
        "{verified:?}"
    );
    let unknown = fixture.run(&["images", "verify", "debian"]).await?;
    assert!(
        unknown.err.contains("there is no image debian"),
        "{unknown:?}"
    );
    Ok(())
}

/// Against a registry: an image as it should be, and one whose config contradicts its index.
#[tokio::test(flavor = "multi_thread")]
async fn manifests_and_disks_of_a_registry_are_verified() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut layout = Layout::new(&folder.path().join("layout"))?;
    let mut images = Vec::new();
    for (seed, architecture) in [(1, "amd64"), (2, "arm64")] {
        let disk = ContainerDisk::make(folder.path(), architecture, seed)?;
        images.push(layout.image(architecture, &[&disk.layer], &json!({}))?);
    }
    let good = layout.index(&images)?;
    layout.name("good", &good)?;
    let mut lie = images[0].clone();
    lie["platform"]["architecture"] = json!("arm64");
    let liar = layout.index(&[lie])?;
    layout.name("liar", &liar)?;
    let registry = Registry::start().await?;
    let fixture = Fixture::start().await?;
    for (name, index) in [("good", good), ("liar", liar)] {
        registry.push(&layout.source(name), &format!("disks/{name}:1"))?;
        let url = format!("docker://{}/disks/{name}:1", registry.host());
        let digest = index["digest"].as_str().unwrap().to_owned();
        fixture
            .imported(name, (&url, POLLED.1), &[digest], json!({}))
            .await?;
    }
    let host = registry.host();
    let line = ["images", "verify", "--insecure", &host, "-o", "json"];
    let verified = fixture.run(&[&line[..], &["--contents"]].concat()).await?;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    let value: Value = serde_json::from_str(&verified.out)?;
    let (good, liar) = (&value["items"][0], &value["items"][1]);
    assert_eq!(good["result"], "Verified", "{verified:?}");
    // Its disk is random.
    let message = good["message"].as_str().unwrap();
    assert!(
        message.ends_with("; no boot loader is recognised on the disk"),
        "{message}"
    );
    assert_eq!(liar["result"], "Mismatch", "{verified:?}");
    assert_eq!(liar["reason"], "ArchitectureMismatch");
    // Too large to download.
    let more = ["--contents", "--max-size", "4Ki", "good"];
    let verified = fixture.run(&[&line[..], &more].concat()).await?;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let value: Value = serde_json::from_str(&verified.out)?;
    let message = value["items"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("; the disk is not verified: "),
        "{message}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_of_a_user_is_pinned_by_its_annotation() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let polled = fixture
        .imported("fedora", POLLED, &[digest('b')], json!({}))
        .await?;
    let refused = fixture.run(&["images", "pin", "fedora"]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for expected in ["schedule \"0 */12 * * *\"", "overwrites the pin"] {
        assert!(refused.err.contains(expected), "{refused:?}");
    }
    assert_eq!(fixture.pinned(&polled).await?, (Some(digest('b')), None));

    let own = fixture
        .imported("debian", (URL, ""), &[digest('b')], json!({}))
        .await?;
    let line = ["images", "pin", "debian", "--digest", &digest('a')];
    let tried = fixture
        .run(&[&line[..], &["--dry-run=server"]].concat())
        .await?;
    assert_eq!(tried.code, Some(0), "{tried:?}");
    assert_eq!(fixture.pinned(&own).await?, (Some(digest('b')), None));
    let done = fixture.run(&line).await?;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("Acted on by CDI"), "{done:?}");
    let edited = "dataimportcron.cdi.kubevirt.io/debian-image-cron-arm64 edited: its annotations\n";
    assert!(done.out.starts_with(edited), "{done:?}");
    assert_eq!(
        fixture.pinned(&own).await?,
        (Some(digest('a')), Some(digest('a')))
    );
    let explained = fixture.run(&["images", "explain", "debian"]).await?;
    let pinned = format!("It is pinned to {}, which is not in use yet.", digest('a'));
    assert!(explained.out.contains(&pinned), "{explained:?}");
    let done = fixture.run(&["images", "unpin", "debian"]).await?;
    assert!(done.out.ends_with("debian-arm64 unpinned\n"), "{done:?}");
    assert_eq!(fixture.pinned(&own).await?, (Some(digest('b')), None));
    Ok(())
}

/// A built-in template of HCO, with an override of the user.
#[tokio::test(flavor = "multi_thread")]
async fn template_of_a_hyperconverged_is_pinned_and_restored() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let of_ssp = of_ssp();
    let (_, schedule) = POLLED;
    fixture
        .imported("fedora", POLLED, &[digest('b')], of_ssp.clone())
        .await?;
    let spec = json!({
        "managedDataSource": "fedora", "schedule": schedule, "retentionPolicy": "None",
        "template": { "spec": { "source": { "registry": { "url": "docker://registry.invalid/disks/fedora:41" } } } },
    });
    let templates = json!([{ "metadata": { "name": "fedora-image-cron" }, "spec": spec }]);
    let object = json!({
        "apiVersion": "hco.kubevirt.io/v1", "kind": "HyperConverged",
        "metadata": { "name": "kubevirt-hyperconverged" },
        "spec": { "workloadSources": { "dataImportCronTemplates": templates } },
    });
    let hyperconvergeds: Api<HyperConverged> = Api::namespaced(fixture.cluster.client(), GENUINE);
    let name = "kubevirt-hyperconverged";
    hyperconvergeds
        .patch(name, &by(), &Patch::Apply(&object))
        .await?;
    let status = json!({ "status": { "dataImportCronTemplates": [{
        "metadata": { "name": "fedora-image-cron", "annotations": { api::ssp::ARCHITECTURES: "arm64" } },
        "spec": spec,
        "status": { "commonTemplate": true, "modified": true, "originalSupportedArchitectures": "amd64,arm64" },
    }] } });
    hyperconvergeds
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await?;
    let names = async || -> anyhow::Result<Vec<String>> {
        let found = hyperconvergeds.get(name).await?;
        let all = found
            .spec
            .workload_sources
            .boot_images
            .data_import_cron_templates;
        Ok(all.iter().map(|it| it.name().to_owned()).collect())
    };
    let before = hyperconvergeds.get(name).await?.spec;

    // Volumes would be gone: only with consent.
    let line = ["images", "pin", "fedora", "--digest", &digest('a')];
    let refused = fixture.run(&line).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for expected in [
        "hyperconverged.hco.kubevirt.io/kubevirt-hyperconverged was not edited",
        "CDI deletes their volumes with them (retentionPolicy None)",
        "--reimport",
    ] {
        assert!(refused.err.contains(expected), "{refused:?}");
    }
    let tried = fixture
        .run(&[&line[..], &["--dry-run=server"]].concat())
        .await?;
    assert_eq!(tried.code, Some(0), "{tried:?}");
    assert_eq!(names().await?, ["fedora-image-cron"]);
    let done = fixture.run(&[&line[..], &["--reimport"]].concat()).await?;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        names().await?,
        ["fedora-image-cron", "fedora-image-cron-pinned"]
    );

    // What HCO and the SSP operator make of it.
    let status = json!({ "status": { "dataImportCronTemplates": [{
        "metadata": { "name": "fedora-image-cron-pinned" }, "spec": spec, "status": {},
    }] } });
    hyperconvergeds
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await?;
    let crons: Api<DataImportCron> = fixture.api();
    let params = DeleteParams::default();
    crons.delete("fedora-image-cron-arm64", &params).await?;
    let mut annotations = of_ssp;
    annotations["medley.dev/pinned-digest"] = json!(digest('a'));
    let object = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
        "metadata": {
            "name": "fedora-image-cron-pinned-arm64", "annotations": annotations,
            "labels": { labels::ARCHITECTURE: "arm64", labels::DATA_SOURCE_NAME: "fedora" },
        },
        "spec": { "schedule": "", "managedDataSource": "fedora-arm64", "template": spec["template"] },
    });
    let pinned = "fedora-image-cron-pinned-arm64";
    crons.patch(pinned, &by(), &Patch::Apply(&object)).await?;
    let done = fixture
        .run(&["images", "unpin", "fedora", "--reimport"])
        .await?;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(hyperconvergeds.get(name).await?.spec, before);
    Ok(())
}

/// Without a HyperConverged. Nothing is deleted where the schedule is empty already.
#[tokio::test(flavor = "multi_thread")]
async fn template_of_an_ssp_is_pinned_for_all_architectures() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let image = (URL, "");
    let versions = [digest('b')];
    fixture
        .imported("fedora", image, &versions, of_ssp())
        .await?;
    let object = json!({
        "apiVersion": "ssp.kubevirt.io/v1beta3", "kind": "SSP", "metadata": { "name": "ssp" },
        "spec": { "commonTemplates": { "namespace": "openshift", "dataImportCronTemplates": [{
            "metadata": { "name": "fedora-image-cron" },
            "spec": {
                "managedDataSource": "fedora", "schedule": "",
                "template": { "spec": { "source": { "registry": { "url": URL } } } },
            },
        }] } },
    });
    let ssps: Api<SSP> = Api::namespaced(fixture.cluster.client(), GENUINE);
    ssps.patch("ssp", &by(), &Patch::Apply(&object)).await?;
    let line = ["images", "pin", "fedora", "--digest", &digest('a')];
    let done = fixture.run(&line).await?;
    assert_eq!(done.code, Some(0), "{done:?}");
    let edited = "ssp.ssp.kubevirt.io/ssp edited: template fedora-image-cron\n";
    assert!(done.out.starts_with(edited), "{done:?}");
    let desired = async || -> anyhow::Result<Option<String>> {
        let spec = ssps.get("ssp").await?.spec;
        let template = spec
            .common_templates
            .data_import_cron_templates
            .first()
            .cloned();
        let template = template.context("the template")?;
        Ok(template
            .annotation(annotations::DESIRED_DIGEST)
            .map(str::to_owned))
    };
    assert_eq!(desired().await?, Some(digest('a')));

    // The template has another architecture, whose version would change as well.
    let crons: Api<DataImportCron> = fixture.api();
    let object = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
        "metadata": {
            "name": "fedora-image-cron-amd64", "annotations": of_ssp(),
            "labels": { labels::ARCHITECTURE: "amd64", labels::DATA_SOURCE_NAME: "fedora" },
        },
        "spec": {
            "schedule": "", "managedDataSource": "fedora-amd64",
            "template": { "spec": { "source": { "registry": { "url": URL } } } },
        },
    });
    let name = "fedora-image-cron-amd64";
    crons.patch(name, &by(), &Patch::Apply(&object)).await?;
    let line = [
        "images",
        "pin",
        "fedora",
        "--arch",
        "arm64",
        "--digest",
        &digest('c'),
    ];
    let refused = fixture.run(&line).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let expected = "cannot pin arm64 of template fedora-image-cron alone beside CDI";
    assert!(refused.err.contains(expected), "{refused:?}");
    assert_eq!(desired().await?, Some(digest('a')));
    Ok(())
}

/// The annotations of objects of an SSP.
fn of_ssp() -> Value {
    json!({
        "operator-sdk/primary-resource": "cdi/ssp-kubevirt-hyperconverged",
        "operator-sdk/primary-resource-type": "SSP.ssp.kubevirt.io",
    })
}
