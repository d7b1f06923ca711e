//! `medley images` and its commands against a cluster, whose objects are as CDI and the operator leave
//! them.

use std::process::Stdio;

use api::cdi::{DataImportCron, DataVolume, annotations};
use api::golden::{GROUP, GoldenImagePolicy, PLURAL, names};
use fleet::operators::{self, Installed};
use golden_images::cdi::data_volume;
use golden_images::policy::Policy;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use runtime::until_served;
use serde_json::{Value, json};
use testkit::{Said, ServedCluster, TestCluster, has};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const HOME: &str = "kubevirt-os-images";

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

struct World {
    served: ServedCluster,
    client: Client,
    /// Lives as long as this.
    _cluster: TestCluster,
}

impl World {
    /// A cluster with the kinds of CDI, and that of the policy if it is wanted.
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
            until_served(&client, &format!("{PLURAL}.{GROUP}")).await?;
        }
        let home = json!({ "metadata": { "name": HOME } });
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let home = serde_json::from_value(home)?;
        namespaces.create(&PostParams::default(), &home).await?;
        Ok(Self {
            served: cluster.serve().await?,
            client,
            _cluster: cluster,
        })
    }

    async fn run(&self, line: &[&str]) -> anyhow::Result<Said> {
        let output = tokio::process::Command::new(MEDLEY)
            .arg("images")
            .args(line)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .stdin(Stdio::null())
            .output()
            .await?;
        Ok(Said::of(&output))
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
        // DataVolumes have a status of their own.
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

    /// Fedora: amd64 was imported twice and is the default; arm64 is not in the image.
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

    /// What the operator makes of the policy: the version that is held on to.
    async fn held(&self, name: &str, architecture: &str) -> anyhow::Result<Option<String>> {
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
    let world = World::start(false).await?;
    let said = world.run(&[]).await?;
    has(
        &said.err,
        &["No images are in namespace kubevirt-os-images"],
    );
    assert_eq!(said.ok()?, "");
    world.fedora().await?;
    let text = world.run(&[]).await?.ok()?;
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
    let wide = world.run(&["-A", "-o", "wide"]).await?.ok()?;
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
        world.run(&["-o", "name"]).await?.ok()?,
        "datasource.cdi.kubevirt.io/fedora-amd64\ndatasource.cdi.kubevirt.io/fedora-arm64\n"
    );
    let list = world.run(&["-o", "json"]).await?.json()?;
    assert_eq!(list["kind"], "List");
    let image = &list["items"][0];
    assert_eq!(image["name"], "fedora");
    assert_eq!(image["pointer"]["dataSource"], "fedora-amd64");
    assert_eq!(image["architectures"][0]["digest"], digest('a'));
    assert_eq!(image["architectures"][0]["state"], "Ready");
    assert_eq!(image["architectures"][1]["reason"], "ArchitectureNotFound");
    let yaml = world.run(&["-o", "yaml", "-n", HOME]).await?.ok()?;
    has(&yaml, &["kind: List", "isDefault: true"]);
    let elsewhere = world.run(&["-n", "default"]).await?;
    has(&elsewhere.err, &["No images are in namespace default"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_explained() -> anyhow::Result<()> {
    let world = World::start(true).await?;
    world.fedora().await?;
    let text = world.run(&["explain", "fedora"]).await?.ok()?;
    has(
        &text,
        &[
            "fedora stands for fedora-amd64 and can be cloned.",
            "most nodes that run virtual machines have it",
            "fedora-amd64 for amd64 is Ready.",
            "fedora-arm64 for arm64 is Failed (ArchitectureNotFound).",
            "the image has no arm64; it has amd64",
            "It failed 2 times in a row; the next try is at 2099-01-01T00:00:00Z.",
            "medley images refresh fedora --arch arm64",
        ],
    );
    // By the name of one, or by its architecture.
    let one = world.run(&["explain", "fedora-arm64"]).await?.ok()?;
    assert_eq!(
        one,
        world
            .run(&["explain", "fedora", "--arch", "aarch64"])
            .await?
            .ok()?
    );
    assert!(!one.contains("fedora-amd64 for"), "{one}");
    let line = ["explain", "fedora", "-o", "json"];
    let all = world.run(&line).await?.json()?;
    assert_eq!(all["dataSources"].as_array().map(Vec::len), Some(3));

    let said = world.run(&["explain", "nonsense"]).await?.refused()?;
    has(
        &said,
        &["no image nonsense", "there are: fedora", "--namespace"],
    );
    let line = ["explain", "fedora", "--arch", "s390x"];
    let said = world.run(&line).await?.refused()?;
    has(&said, &["--arch s390x", "there are: amd64, arm64"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_held_and_let_go() -> anyhow::Result<()> {
    let world = World::start(true).await?;
    world.fedora().await?;
    let held = async || world.held("fedora", "amd64").await;

    // Saying what would be done does nothing.
    for dry in ["--dry-run", "--dry-run=client", "--dry-run=server"] {
        let line = ["rollback", "fedora", "--arch", "amd64", dry];
        let said = world.run(&line).await?.ok()?;
        has(&said, &[&digest('b'), "dry run)", "it is there still"]);
        assert_eq!(held().await?, None);
    }
    let said = world.run(&["rollback", "fedora"]).await?;
    has(&said.err, &["fedora-arm64 remembers 0 earlier versions"]);
    let text = said.ok()?;
    has(&text, &["fedora-amd64 rolled back to", &digest('b')]);
    assert_eq!(held().await?, Some(digest('b')));
    assert_eq!(world.held("fedora", "arm64").await?, None);

    // What is held on to shows, and can be something else.
    let list = world.run(&["-o", "json"]).await?.json()?;
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
    let text = world.run(&line).await?.ok()?;
    has(&text, &[&digest('c'), "it is imported again"]);
    assert_eq!(held().await?, Some(digest('c')));
    let api: Api<GoldenImagePolicy> = Api::all(world.client.clone());
    let policy = api.get("default").await?;
    assert_eq!(policy.spec.images.len(), 1);
    let pins = &policy.spec.images[0].pins;
    assert_eq!(pins.len(), 1);
    assert_eq!(pins[0].reason.as_deref(), Some("it hangs"));
    world.run(&["pin", "fedora-amd64"]).await?.ok()?;
    assert_eq!(held().await?, Some(digest('a')));
    let line = ["pin", "fedora", "--arch", "amd64", "--to", "bbbb"];
    world.run(&line).await?.ok()?;
    assert_eq!(held().await?, Some(digest('b')));
    // One that never was in use, for an architecture that has none yet.
    let new = digest('d');
    let line = ["pin", "fedora", "--arch", "arm64", "--digest", &new];
    world.run(&line).await?.ok()?;
    assert_eq!(world.held("fedora", "arm64").await?, Some(digest('d')));
    assert_eq!(held().await?, Some(digest('b')));

    for (line, parts) in [
        (
            &["rollback", "fedora-amd64", "--steps", "9"][..],
            &["remembers 2 earlier versions, 9 were asked"][..],
        ),
        (
            &["pin", "fedora", "--digest", &new],
            &["say --arch, one of amd64, arm64"],
        ),
        (
            &["pin", "fedora-amd64", "--digest", "sha256:12"],
            &["\"sha256:12\"", "64 hexadecimal digits"],
        ),
        (
            &["pin", "fedora-amd64", "--to", "ffff"],
            &["no version \"ffff\"", "it remembers: sha256:aaaa"],
        ),
        (
            &["pin", "fedora"],
            &["fedora-arm64 stands for no version yet", "--digest"],
        ),
    ] {
        has(&world.run(line).await?.refused()?, parts);
        assert_eq!(held().await?, Some(digest('b')));
    }

    world.run(&["unpin", "fedora", "--dry-run"]).await?.ok()?;
    assert_eq!(held().await?, Some(digest('b')));
    let text = world.run(&["unpin", "fedora"]).await?.ok()?;
    has(&text, &["fedora-amd64 unpinned", "fedora-arm64 unpinned"]);
    assert_eq!(held().await?, None);
    assert_eq!(world.held("fedora", "arm64").await?, None);
    let said = world.run(&["unpin", "fedora"]).await?.refused()?;
    has(&said, &["nothing of fedora is pinned"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_say_in_the_policy_stays() -> anyhow::Result<()> {
    let world = World::start(true).await?;
    world.fedora().await?;
    let api: Api<GoldenImagePolicy> = Api::all(world.client.clone());
    let policy = serde_json::from_value(json!({
        "apiVersion": "medley.dev/v1alpha1", "kind": "GoldenImagePolicy",
        "metadata": { "name": "default" },
        "spec": { "gracePeriod": "2h", "images": [
            { "name": "fedora", "namespace": HOME, "defaultArchitecture": "amd64" },
            { "name": "other", "namespace": "elsewhere", "defaultArchitecture": "arm64" },
        ] },
    }))?;
    api.create(&PostParams::default(), &policy).await?;
    world.run(&["pin", "fedora-amd64"]).await?.ok()?;
    assert_eq!(world.held("fedora", "amd64").await?, Some(digest('a')));
    world.run(&["unpin", "fedora-amd64"]).await?.ok()?;
    let left = api.get("default").await?;
    assert_eq!(left.spec.grace_period.as_deref(), Some("2h"));
    let said: Vec<(&str, Option<&str>)> = left
        .spec
        .images
        .iter()
        .map(|it| (it.name.as_str(), it.default_architecture.as_deref()))
        .collect();
    assert_eq!(said, [("fedora", Some("amd64")), ("other", Some("arm64"))]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_policys_kind_nothing_can_be_held() -> anyhow::Result<()> {
    let world = World::start(false).await?;
    world.fedora().await?;
    let said = world.run(&["pin", "fedora-amd64"]).await?.refused()?;
    has(
        &said,
        &["goldenimagepolicies.medley.dev", "comes with the operator"],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_asked_at_once() -> anyhow::Result<()> {
    let world = World::start(false).await?;
    world.fedora().await?;
    let asked = async |name: &str| {
        let cron = world.cron(name).await?;
        let notes = cron.metadata.annotations.unwrap_or_default();
        anyhow::Ok(notes.get(annotations::NEXT_CRON_TIME).cloned())
    };
    let said = world.run(&["refresh", "fedora", "--dry-run"]).await?.ok()?;
    has(
        &said,
        &["fedora-image-cron-arm64 is to be polled (dry run)"],
    );
    assert_eq!(asked("fedora-image-cron-arm64").await?, None);
    let line = ["refresh", "fedora", "--arch", "arm64"];
    let said = world.run(&line).await?.ok()?;
    assert_eq!(
        said,
        "dataimportcron.cdi.kubevirt.io/fedora-image-cron-arm64 is to be polled\n"
    );
    assert!(asked("fedora-image-cron-arm64").await?.is_some());
    assert_eq!(asked("fedora-image-cron-amd64").await?, None);

    // An import that waits to be tried again need not wait.
    let name = "fedora-amd64-dddddddddddd";
    world
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
    let crons: Api<DataImportCron> = Api::namespaced(world.client.clone(), HOME);
    let current = json!([{ "DataVolumeName": name, "Digest": digest('d') }]);
    let patch = Patch::Merge(json!({ "status": { "currentImports": current } }));
    let params = PatchParams::default();
    crons
        .patch("fedora-image-cron-amd64", &params, &patch)
        .await?;
    let said = world.run(&["refresh", "fedora-amd64"]).await?.ok()?;
    has(&said, &[&format!("{name} is to be tried again")]);
    let volumes: Api<DataVolume> = Api::namespaced(world.client.clone(), HOME);
    let decision = data_volume::decide(&data_volume::Facts {
        volume: &volumes.get(name).await?,
        claim: data_volume::Claim::Bound,
        importer: None,
        nodes: &std::collections::BTreeSet::new(),
        policy: &Policy::default(),
        now: jiff::Timestamp::now(),
    });
    assert!(
        matches!(decision.run, data_volume::Run::Start { attempt: 5, .. }),
        "{:?}",
        decision.run
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_kinds_of_cdi_there_are_no_images() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let served = cluster.serve().await?;
    for line in [&["images"][..], &["images", "explain", "x"]] {
        let output = tokio::process::Command::new(MEDLEY)
            .args(line)
            .env("KUBECONFIG", &served.kubeconfig)
            .output()
            .await?;
        let said = Said::of(&output).refused()?;
        has(
            &said,
            &["dataimportcrons.cdi.kubevirt.io", "they come with CDI"],
        );
    }
    Ok(())
}
