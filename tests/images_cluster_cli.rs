//! `medley images` and its subcommands on a cluster whose objects are as CDI and the operator write
//! them.

mod images_cluster_changes;

use std::process::Stdio;

use api::cdi::{DataImportCron, DataVolume, annotations};
use api::golden::{GROUP, GoldenImagePolicy, PLURAL, names};
use api::published::{LEASE, PublishedOperator};
use fleet::operators::{self, Installed};
use golden_images::cdi::data_volume;
use golden_images::policy::Policy;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use runtime::wait_until_served;
use serde_json::{Value, json};
use testkit::{CommandOutput, ServedCluster, TestCluster, has};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const HOME: &str = "kubevirt-os-images";
const OPERATOR: &str = "medley-system";
const WAIT_TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

struct ImagesFixture {
    served: ServedCluster,
    client: Client,
    /// Kept alive with the fixture.
    _cluster: TestCluster,
}

impl ImagesFixture {
    /// A cluster with CDI's CRDs, with or without the GoldenImagePolicy CRD.
    async fn start(policy: bool) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let client = cluster.client();
        let installed = Installed {
            cdi: true,
            ..Installed::default()
        };
        operators::install(&client, &installed).await?;
        if policy {
            let api: Api<CustomResourceDefinition> = Api::all(client.clone());
            let definition = api::golden::definition();
            api.create(&PostParams::default(), &definition).await?;
            wait_until_served(&client, &format!("{PLURAL}.{GROUP}")).await?;
        }
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for name in [HOME, OPERATOR] {
            let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
            namespaces
                .create(&PostParams::default(), &namespace)
                .await?;
        }
        Ok(Self {
            served: cluster.serve().await?,
            client,
            _cluster: cluster,
        })
    }

    /// Runs a command beside an operator with this controller.
    async fn run(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        self.operator(&["images-cdi"]).await?;
        self.run_alone(line).await
    }

    /// Publishes the controllers of an operator, as it does itself.
    async fn operator(&self, controllers: &[&str]) -> anyhow::Result<()> {
        let operator = PublishedOperator {
            namespace: OPERATOR.to_owned(),
            version: "v0.0.1".to_owned(),
            controllers: controllers.iter().map(|&it| it.to_owned()).collect(),
            renewed: None,
        };
        let api: Api<Lease> = Api::namespaced(self.client.clone(), OPERATOR);
        let lease = Patch::Apply(operator.lease(Timestamp::now()));
        let params = PatchParams::apply("test").force();
        api.patch(LEASE, &params, &lease).await?;
        Ok(())
    }

    async fn run_alone(&self, line: &[&str]) -> anyhow::Result<CommandOutput> {
        let output = tokio::process::Command::new(MEDLEY)
            .arg("images")
            .args(line)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(CommandOutput::of(&output))
    }

    async fn create(&self, kind: &str, object: Value) -> anyhow::Result<()> {
        let kind = GroupVersionKind::gvk("cdi.kubevirt.io", "v1beta1", kind);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), HOME, &resource);
        let mut object = object;
        object["apiVersion"] = json!("cdi.kubevirt.io/v1beta1");
        object["kind"] = json!(kind.kind);
        let status = object.get("status").cloned();
        let new: DynamicObject = serde_json::from_value(object)?;
        let made = api.create(&PostParams::default(), &new).await?;
        // DataVolumes have a status subresource.
        if let (Some(status), "DataVolume") = (status, kind.kind.as_str()) {
            let name = made.metadata.name.unwrap_or_default();
            let patch = Patch::Merge(json!({ "status": status }));
            api.patch_status(&name, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    async fn claim(&self, name: &str, cron: &str, digest: &str) -> anyhow::Result<()> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), HOME);
        let claim = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": { "cdi.kubevirt.io/dataImportCron": cron },
                "annotations": { names::DIGEST: digest },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "5Gi" } },
            },
        }))?;
        api.create(&PostParams::default(), &claim).await?;
        let status =
            json!({ "status": { "phase": "Bound", "capacity": { "storage": "5690831668" } } });
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// Fedora: amd64 was imported twice and is the default; the image has no arm64.
    async fn fedora(&self) -> anyhow::Result<()> {
        let (now, before) = ("fedora-amd64-aaaaaaaaaaaa", "fedora-amd64-bbbbbbbbbbbb");
        let labels = |architecture: &str| {
            json!({
                "template.kubevirt.io/architecture": architecture,
                "cdi.kubevirt.io/storage.import.datasource-name": "fedora",
            })
        };
        let cron = |architecture: &str, notes: Value, status: Value| {
            json!({
                "metadata": {
                    "name": format!("fedora-image-cron-{architecture}"),
                    "labels": labels(architecture), "annotations": notes,
                },
                "spec": {
                    "managedDataSource": format!("fedora-{architecture}"),
                    "schedule": "0 */12 * * *",
                    "template": { "spec": {
                        "source": { "registry": {
                            "url": "docker://quay.io/containerdisks/fedora:latest",
                            "platform": { "architecture": architecture },
                        } },
                        "storage": { "resources": { "requests": { "storage": "5Gi" } } },
                    } },
                },
                "status": status,
            })
        };
        let up_to_date = |status: &str, reason: &str, message: &str| json!([{ "type": "UpToDate", "status": status, "reason": reason, "message": message }]);
        let good = cron(
            "amd64",
            json!({
                annotations::DESIRED_DIGEST: digest('a'),
                annotations::LAST_CRON_TIME: "2026-11-16T00:00:00Z",
            }),
            json!({
                "currentImports": [{ "DataVolumeName": now, "Digest": digest('a') }],
                "conditions": up_to_date("True", "UpToDate", "Latest import is up to date"),
            }),
        );
        let bad = cron(
            "arm64",
            json!({
                annotations::LAST_CRON_TIME: "2026-11-16T00:00:00Z",
                names::FAILURES: "2",
                names::NEXT_RETRY: "2099-01-01T00:00:00Z",
                names::FAILURE_REASON: "ArchitectureNotFound",
            }),
            json!({ "conditions": up_to_date(
                "False", "ArchitectureNotFound", "the image has no arm64; it has amd64",
            ) }),
        );
        self.create("DataImportCron", good).await?;
        self.create("DataImportCron", bad).await?;
        let entry = |letter: char, name: &str, since: &str| json!({ "digest": digest(letter), "name": name, "format": "pvc", "since": since });
        let history = json!([
            entry('a', now, "2026-11-10T00:00:00Z"),
            entry('b', before, "2026-11-01T00:00:00Z"),
            entry('c', "fedora-amd64-cccccccccccc", "2026-10-01T00:00:00Z"),
        ]);
        let ready = json!([{ "type": "Ready", "status": "True", "reason": "Ready" }]);
        let mut own = labels("amd64");
        own["cdi.kubevirt.io/dataImportCron"] = json!("fedora-image-cron-amd64");
        let volume = json!({ "pvc": { "namespace": HOME, "name": now } });
        self.create(
            "DataSource",
            json!({
                "metadata": {
                    "name": "fedora-amd64", "labels": own,
                    "annotations": { names::HISTORY: history.to_string() },
                },
                "spec": { "source": volume },
                "status": { "source": volume, "conditions": ready },
            }),
        )
        .await?;
        self.create(
            "DataSource",
            json!({
                "metadata": {
                    "name": "fedora",
                    "annotations": { names::DEFAULT_REASON: "amd64 (MostNodes)" },
                },
                "spec": { "source": { "dataSource": { "namespace": HOME, "name": "fedora-amd64" } } },
                "status": { "source": volume, "conditions": ready },
            }),
        )
        .await?;
        self.claim(now, "fedora-image-cron-amd64", &digest('a'))
            .await?;
        self.claim(before, "fedora-image-cron-amd64", &digest('b'))
            .await
    }

    /// The version that the policy pins.
    async fn pinned_digest(
        &self,
        name: &str,
        architecture: &str,
    ) -> anyhow::Result<Option<String>> {
        let api: Api<GoldenImagePolicy> = Api::all(self.client.clone());
        let spec = api.get_opt("default").await?.map(|it| it.spec);
        let (policy, wrong) = Policy::read(&spec.unwrap_or_default());
        assert_eq!(wrong, []);
        let pin = policy.pin_for(HOME, name, architecture);
        Ok(pin.map(str::to_owned))
    }

    async fn cron(&self, name: &str) -> anyhow::Result<DataImportCron> {
        let api: Api<DataImportCron> = Api::namespaced(self.client.clone(), HOME);
        Ok(api.get(name).await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_listed() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(false).await?;
    let result = fixture.run(&[]).await?;
    has(&result.err, &["No images in namespace kubevirt-os-images"]);
    assert_eq!(result.ok()?, "");
    fixture.fedora().await?;
    let text = fixture.run(&[]).await?.ok()?;
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["IMAGE", "ARCHITECTURE", "STATE", "DIGEST", "AGE", "SIZE"]
    );
    assert_eq!(
        lines[1][..4],
        ["fedora", "amd64,default", "Ready", "aaaaaaaaaaaa"]
    );
    assert_eq!(lines[1][5..], ["5.30", "GiB"]);
    assert_eq!(
        lines[2],
        [
            "fedora",
            "arm64",
            "Failed:ArchitectureNotFound",
            "<none>",
            "<none>",
            "<none>"
        ]
    );
    assert_eq!(lines.len(), 3);
    let wide = fixture.run(&["-A", "-o", "wide"]).await?.ok()?;
    has(
        &wide,
        &[
            "NAMESPACE",
            "PINNED",
            "kubevirt-os-images",
            "pvc/fedora-amd64-aaaaaaaaaaaa",
            "docker://quay.io/containerdisks/fedora:latest",
        ],
    );
    assert_eq!(
        fixture.run(&["-o", "name"]).await?.ok()?,
        "datasource.cdi.kubevirt.io/fedora-amd64\ndatasource.cdi.kubevirt.io/fedora-arm64\n"
    );
    let list = fixture.run(&["-o", "json"]).await?.json()?;
    assert_eq!(list["kind"], "List");
    let image = &list["items"][0];
    assert_eq!(image["name"], "fedora");
    assert_eq!(image["pointer"]["dataSource"], "fedora-amd64");
    assert_eq!(image["architectures"][0]["digest"], digest('a'));
    assert_eq!(image["architectures"][0]["state"], "Ready");
    assert_eq!(image["architectures"][1]["reason"], "ArchitectureNotFound");
    let yaml = fixture.run(&["-o", "yaml", "-n", HOME]).await?.ok()?;
    has(&yaml, &["kind: List", "isDefault: true"]);
    let elsewhere = fixture.run(&["-n", "default"]).await?;
    has(&elsewhere.err, &["No images in namespace default"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn image_is_explained() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(true).await?;
    fixture.fedora().await?;
    let text = fixture.run(&["explain", "fedora"]).await?.ok()?;
    has(
        &text,
        &[
            "fedora points to fedora-amd64 and can be cloned.",
            "most nodes that run virtual machines have it",
            "fedora-amd64 for amd64 is Ready.",
            "fedora-arm64 for arm64 is Failed (ArchitectureNotFound).",
            "the image has no arm64; it has amd64",
            "It failed 2 times in a row; the next try is at 2099-01-01T00:00:00Z.",
            "medley images refresh fedora --arch arm64",
        ],
    );
    // By the name of a DataSource, or by its architecture.
    let one = fixture.run(&["explain", "fedora-arm64"]).await?.ok()?;
    assert_eq!(
        one,
        fixture
            .run(&["explain", "fedora", "--arch", "aarch64"])
            .await?
            .ok()?
    );
    assert!(!one.contains("fedora-amd64 for"), "{one}");
    let line = ["explain", "fedora", "-o", "json"];
    let all = fixture.run(&line).await?.json()?;
    assert_eq!(all["dataSources"].as_array().map(Vec::len), Some(3));

    let result = fixture.run(&["explain", "nonsense"]).await?.refused()?;
    has(
        &result,
        &["no image nonsense", "there are: fedora", "--namespace"],
    );
    let line = ["explain", "fedora", "--arch", "s390x"];
    let result = fixture.run(&line).await?.refused()?;
    has(&result, &["--arch s390x", "there are: amd64, arm64"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn version_is_pinned_and_unpinned() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(true).await?;
    fixture.fedora().await?;
    let amd64_pin = async || fixture.pinned_digest("fedora", "amd64").await;

    // A dry run changes nothing.
    for dry in ["--dry-run", "--dry-run=client", "--dry-run=server"] {
        let line = ["rollback", "fedora", "--arch", "amd64", dry];
        let result = fixture.run(&line).await?.ok()?;
        has(&result, &[&digest('b'), "dry run)", "it is still kept"]);
        assert_eq!(amd64_pin().await?, None);
    }
    let result = fixture.run(&["rollback", "fedora"]).await?;
    has(
        &result.err,
        &["fedora-arm64 has 0 earlier versions in its history"],
    );
    let text = result.ok()?;
    has(&text, &["fedora-amd64 rolled back to", &digest('b')]);
    assert_eq!(amd64_pin().await?, Some(digest('b')));
    assert_eq!(fixture.pinned_digest("fedora", "arm64").await?, None);

    // The pin is shown, and can be changed.
    let list = fixture.run(&["-o", "json"]).await?.json()?;
    let shown = &list["items"][0]["architectures"][0];
    assert_eq!(shown["pinned"], digest('b'));
    let line = [
        "rollback",
        "fedora-amd64",
        "--steps",
        "2",
        "--reason",
        "it hangs",
    ];
    let text = fixture.run(&line).await?.ok()?;
    has(&text, &[&digest('c'), "it is imported again"]);
    assert_eq!(amd64_pin().await?, Some(digest('c')));
    let api: Api<GoldenImagePolicy> = Api::all(fixture.client.clone());
    let policy = api.get("default").await?;
    assert_eq!(policy.spec.images.len(), 1);
    let pins = &policy.spec.images[0].pins;
    assert_eq!(pins.len(), 1);
    assert_eq!(pins[0].reason.as_deref(), Some("it hangs"));
    fixture.run(&["pin", "fedora-amd64"]).await?.ok()?;
    assert_eq!(amd64_pin().await?, Some(digest('a')));
    let line = ["pin", "fedora", "--arch", "amd64", "--to", "bbbb"];
    fixture.run(&line).await?.ok()?;
    assert_eq!(amd64_pin().await?, Some(digest('b')));
    // A digest that was never in use, for an architecture without one.
    let new = digest('d');
    let line = ["pin", "fedora", "--arch", "arm64", "--digest", &new];
    fixture.run(&line).await?.ok()?;
    assert_eq!(
        fixture.pinned_digest("fedora", "arm64").await?,
        Some(digest('d'))
    );
    assert_eq!(amd64_pin().await?, Some(digest('b')));

    for (line, parts) in [
        (
            &["rollback", "fedora-amd64", "--steps", "9"][..],
            &["has 2 earlier versions in its history, cannot roll back 9"][..],
        ),
        (
            &["pin", "fedora", "--digest", &new],
            &["use --arch with one of amd64, arm64"],
        ),
        (
            &["pin", "fedora-amd64", "--digest", "sha256:12"],
            &["\"sha256:12\"", "64 hexadecimal digits"],
        ),
        (
            &["pin", "fedora-amd64", "--to", "ffff"],
            &["no version \"ffff\"", "known versions: sha256:aaaa"],
        ),
        (
            &["pin", "fedora"],
            &["fedora-arm64 has no version yet", "--digest"],
        ),
    ] {
        has(&fixture.run(line).await?.refused()?, parts);
        assert_eq!(amd64_pin().await?, Some(digest('b')));
    }

    fixture.run(&["unpin", "fedora", "--dry-run"]).await?.ok()?;
    assert_eq!(amd64_pin().await?, Some(digest('b')));
    let text = fixture.run(&["unpin", "fedora"]).await?.ok()?;
    has(&text, &["fedora-amd64 unpinned", "fedora-arm64 unpinned"]);
    assert_eq!(amd64_pin().await?, None);
    assert_eq!(fixture.pinned_digest("fedora", "arm64").await?, None);
    let result = fixture.run(&["unpin", "fedora"]).await?.refused()?;
    has(&result, &["nothing of fedora is pinned"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_fields_of_the_policy_are_kept() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(true).await?;
    fixture.fedora().await?;
    let api: Api<GoldenImagePolicy> = Api::all(fixture.client.clone());
    let policy = serde_json::from_value(json!({
        "apiVersion": "medley.dev/v1alpha1", "kind": "GoldenImagePolicy",
        "metadata": { "name": "default" },
        "spec": { "gracePeriod": "2h", "images": [
            { "name": "fedora", "namespace": HOME, "defaultArchitecture": "amd64" },
            { "name": "other", "namespace": "elsewhere", "defaultArchitecture": "arm64" },
        ] },
    }))?;
    api.create(&PostParams::default(), &policy).await?;
    fixture.run(&["pin", "fedora-amd64"]).await?.ok()?;
    assert_eq!(
        fixture.pinned_digest("fedora", "amd64").await?,
        Some(digest('a'))
    );
    fixture.run(&["unpin", "fedora-amd64"]).await?.ok()?;
    let left = api.get("default").await?;
    assert_eq!(left.spec.grace_period.as_deref(), Some("2h"));
    let result: Vec<(&str, Option<&str>)> = left
        .spec
        .images
        .iter()
        .map(|it| (it.name.as_str(), it.default_architecture.as_deref()))
        .collect();
    assert_eq!(
        result,
        [("fedora", Some("amd64")), ("other", Some("arm64"))]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pin_fails_without_the_policy_crd() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(false).await?;
    fixture.fedora().await?;
    let result = fixture.run(&["pin", "fedora-amd64"]).await?.refused()?;
    has(
        &result,
        &["goldenimagepolicies.medley.dev", "comes with the operator"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_polls_the_source() -> anyhow::Result<()> {
    let fixture = ImagesFixture::start(false).await?;
    fixture.fedora().await?;
    let asked = async |name: &str| {
        let cron = fixture.cron(name).await?;
        let notes = cron.metadata.annotations.unwrap_or_default();
        anyhow::Ok(notes.get(annotations::NEXT_CRON_TIME).cloned())
    };
    let result = fixture
        .run(&["refresh", "fedora", "--dry-run"])
        .await?
        .ok()?;
    has(
        &result,
        &["fedora-image-cron-arm64 will be polled (dry run)"],
    );
    assert_eq!(asked("fedora-image-cron-arm64").await?, None);
    let line = ["refresh", "fedora", "--arch", "arm64"];
    let result = fixture.run(&line).await?.ok()?;
    assert_eq!(
        result,
        "dataimportcron.cdi.kubevirt.io/fedora-image-cron-arm64 will be polled\n"
    );
    assert!(asked("fedora-image-cron-arm64").await?.is_some());
    assert_eq!(asked("fedora-image-cron-amd64").await?, None);

    // A failed import is retried at once.
    let name = "fedora-amd64-dddddddddddd";
    fixture
        .create(
            "DataVolume",
            json!({
                "metadata": { "name": name, "annotations": {
                    names::FAILURES: "4",
                    names::NEXT_RETRY: "2099-01-01T00:00:00Z",
                    names::FAILURE_REASON: "TooSmall",
                } },
                "spec": { "source": { "registry": { "url": "docker://x/y" } },
                    "storage": { "resources": { "requests": { "storage": "5Gi" } } } },
                "status": { "phase": "ImportScheduled" },
            }),
        )
        .await?;
    let crons: Api<DataImportCron> = Api::namespaced(fixture.client.clone(), HOME);
    let current = json!([{ "DataVolumeName": name, "Digest": digest('d') }]);
    let patch = Patch::Merge(json!({ "status": { "currentImports": current } }));
    let params = PatchParams::default();
    crons
        .patch("fedora-image-cron-amd64", &params, &patch)
        .await?;
    let result = fixture.run(&["refresh", "fedora-amd64"]).await?.ok()?;
    has(&result, &[&format!("{name} will be retried")]);
    let volumes: Api<DataVolume> = Api::namespaced(fixture.client.clone(), HOME);
    let decision = data_volume::decide(&data_volume::ImportInputs {
        volume: &volumes.get(name).await?,
        claim: data_volume::Claim::Bound,
        importer: None,
        nodes: &std::collections::BTreeSet::new(),
        policy: &Policy::default(),
        now: Timestamp::now(),
    });
    assert!(
        matches!(
            decision.run,
            data_volume::ImporterAction::Start { attempt: 5, .. }
        ),
        "{:?}",
        decision.run
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn images_fail_without_cdi_crds() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    for line in [&["images"][..], &["images", "explain", "x"]] {
        let output = tokio::process::Command::new(MEDLEY)
            .args(line)
            .env("KUBECONFIG", &served.kubeconfig)
            .output()
            .await?;
        let result = CommandOutput::of(&output).refused()?;
        has(
            &result,
            &["dataimportcrons.cdi.kubevirt.io", "they come with CDI"],
        );
    }
    Ok(())
}
