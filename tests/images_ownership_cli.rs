//! Who manages golden images, as users see and change it: `medley images coverage`, `take-over` and `hand-back`, `medley
//! status` and `medley check`, beside the Deployments of genuine operators.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use api::golden::GoldenImagePolicy;
use fleet::operators::{self, HyperConvergedVersion, Installed};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::{CommandOutput, Process, ServedCluster, TestCluster, free_port, until};

const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const NAMESPACE: &str = "medley-system";
/// The namespace of genuine operators.
const GENUINE: &str = "cdi";
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
const BEFORE: &str = "medley.dev/replicas-before-take-over";

/// The program is dropped before the cluster.
struct Fixture {
    medley: Option<Process>,
    served: ServedCluster,
    cluster: TestCluster,
}

impl Fixture {
    /// A cluster with the CRDs of HCO, SSP and CDI, and a GoldenImagePolicy.
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
        controllers::install(&client, NAMESPACE).await?;
        for name in [GENUINE, NAMESPACE] {
            let object = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            });
            let namespaces: Api<Namespace> = Api::all(client.clone());
            namespaces
                .patch(name, &by(), &Patch::Apply(&object))
                .await?;
        }
        for (name, role) in [
            ("amd64", "control-plane"),
            ("arm64", "worker"),
            ("s390x", "worker"),
        ] {
            cluster.node(&format!("node-{name}"), name, role).await?;
        }
        let policy = json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": "GoldenImagePolicy",
            "metadata": { "name": "default" }, "spec": {},
        });
        let policies: Api<GoldenImagePolicy> = Api::all(client);
        policies
            .patch("default", &by(), &Patch::Apply(&policy))
            .await?;
        Ok(Self {
            medley: None,
            served: cluster.serve().await?,
            cluster,
        })
    }

    /// Starts the operator with these controllers.
    fn run_operator(&mut self, controllers: &str) -> anyhow::Result<()> {
        let folder = self.served.folder().join("medley");
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new(MEDLEY);
        command
            .args(["run", "--leader-elect=false", "--controllers", controllers])
            .args(["--health-address", &format!("127.0.0.1:{}", free_port()?)])
            .env("KUBECONFIG", &self.served.kubeconfig);
        self.medley = Some(Process::spawn(&mut command, &folder)?);
        Ok(())
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

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.cluster.client(), GENUINE)
    }

    /// Creates the Deployment of a genuine operator, whose program does not run.
    async fn deploy(&self, name: &str, replicas: u32, owners: Value) -> anyhow::Result<()> {
        let labels = json!({ "name": name });
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "ownerReferences": owners },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "c", "image": "registry.example/c:1" }] },
                },
            },
        });
        let api = self.deployments();
        api.patch(name, &by(), &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// Holds the Lease of CDI for this long, as its leader does until it ends.
    async fn hold(&self, seconds: u32) -> anyhow::Result<()> {
        let name = "cdi-controller-leader-election-helper";
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name },
            "spec": {
                "holderIdentity": "cdi_1", "leaseDurationSeconds": seconds, "renewTime": now.to_string(),
            },
        });
        let api: Api<Lease> = Api::namespaced(self.cluster.client(), GENUINE);
        api.patch(name, &by(), &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// The replicas of a Deployment, and those that it had before a take-over.
    async fn replicas(&self, name: &str) -> anyhow::Result<(Option<i32>, Option<String>)> {
        let found = self.deployments().get(name).await?;
        let before = found.annotations().get(BEFORE).cloned();
        Ok((found.spec.and_then(|it| it.replicas), before))
    }

    /// Waits until the policy has this condition.
    async fn reported(&self, kind: &str, reason: &str) -> anyhow::Result<()> {
        let api: Api<GoldenImagePolicy> = Api::all(self.cluster.client());
        let what = format!("{kind}: {reason}");
        until(&api, "default", &what, WAIT_TIMEOUT, |policy| {
            let mut conditions = policy.status.iter().flat_map(|it| &it.conditions);
            conditions.any(|it| it.type_ == kind && it.reason == reason)
        })
        .await
        .with_context(|| {
            self.medley
                .as_ref()
                .map(Process::output)
                .unwrap_or_default()
        })?;
        Ok(())
    }
}

fn by() -> PatchParams {
    PatchParams::apply("admin").force()
}

/// Of CDI itself: its operator restores the Deployment.
fn of_cdi() -> Value {
    json!([{
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDI", "name": "cdi", "uid": "1", "controller": true,
    }])
}

fn of_olm() -> Value {
    json!([{
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "name": "kubevirt-hyperconverged-operator.v1.17.0", "uid": "2", "controller": true,
    }])
}

#[tokio::test(flavor = "multi_thread")]
async fn layer_is_taken_over_and_handed_back() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.deploy("cdi-operator", 1, json!([])).await?;
    fixture.deploy("cdi-deployment", 2, of_cdi()).await?;
    fixture.hold(3).await?;

    // Not before a controller of Medley would manage it.
    let refused = fixture
        .run(&["images", "take-over", "images-cdi", "--yes"])
        .await?;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .err
            .contains("images-cdi: no controller of Medley would manage its objects"),
        "{refused:?}"
    );
    fixture.run_operator("images-cdi")?;
    fixture
        .reported("ManagingImports", "UpstreamOperatorRuns")
        .await?;

    // The preview, without an answer.
    let preview = fixture.run(&["images", "take-over", "cdi"]).await?;
    assert_eq!(preview.code, Some(1), "{preview:?}");
    for expected in [
        "images-cdi   the CDI operator   cdi/cdi-operator     1 -> 0",
        "images-cdi   CDI                cdi/cdi-deployment   2 -> 0",
        "images-cdi is managed by images-cdi afterwards: 0 DataImportCrons",
        "nothing is imported again",
    ] {
        assert!(preview.out.contains(expected), "{preview:?}");
    }
    assert!(
        preview.err.contains("use --yes to skip the prompt"),
        "{preview:?}"
    );
    let tried = fixture
        .run(&["images", "take-over", "cdi", "--dry-run=server"])
        .await?;
    assert_eq!(tried.code, Some(0), "{tried:?}");
    assert_eq!(fixture.replicas("cdi-operator").await?, (Some(1), None));

    // An interrupted take-over: only the first change was made.
    let patch = json!({
        "metadata": { "annotations": { BEFORE: "1" } }, "spec": { "replicas": 0 },
    });
    let params = PatchParams::default();
    let api = fixture.deployments();
    api.patch("cdi-operator", &params, &Patch::Merge(&patch))
        .await?;
    let done = fixture
        .run(&["images", "take-over", "images-cdi", "--yes"])
        .await?;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.out.ends_with("images-cdi is managed by images-cdi\n"),
        "{done:?}"
    );
    let before = |count: &str| Some(count.to_owned());
    assert_eq!(
        fixture.replicas("cdi-operator").await?,
        (Some(0), before("1"))
    );
    assert_eq!(
        fixture.replicas("cdi-deployment").await?,
        (Some(0), before("2"))
    );
    // Repeated.
    let again = fixture.run(&["images", "take-over", "images-cdi"]).await?;
    assert_eq!(
        again.out, "images-cdi is managed by images-cdi\n",
        "{again:?}"
    );

    let back = fixture.run(&["images", "hand-back", "--yes"]).await?;
    assert_eq!(back.code, Some(0), "{back:?}");
    assert!(
        back.out.ends_with("images-cdi is managed by CDI\n"),
        "{back:?}"
    );
    assert_eq!(fixture.replicas("cdi-operator").await?, (Some(1), None));
    assert_eq!(fixture.replicas("cdi-deployment").await?, (Some(2), None));
    fixture
        .reported("ManagingImports", "UpstreamOperatorRuns")
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_operator_is_not_taken_over() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.deploy("ssp-operator", 1, of_olm()).await?;
    fixture.run_operator("images-ssp")?;
    fixture.reported("Managing", "UpstreamOperatorRuns").await?;
    let refused = fixture
        .run(&["images", "take-over", "images-ssp", "--yes"])
        .await?;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains(
            "cannot scale Deployment cdi/ssp-operator to 0: the Operator Lifecycle Manager, from ClusterServiceVersion \
             kubevirt-hyperconverged-operator.v1.17.0 restores it; set the replicas of the Deployment in"
        ),
        "{refused:?}"
    );
    assert_eq!(fixture.replicas("ssp-operator").await?, (Some(1), None));
    let refused = fixture.run(&["images", "take-over", "images-vm"]).await?;
    assert!(
        refused
            .err
            .contains("images-vm: no other operator writes its objects"),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rivals_are_shown_before_and_after_installation() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.deploy("hco-operator", 1, of_olm()).await?;
    fixture.deploy("ssp-operator", 1, of_olm()).await?;
    fixture.deploy("cdi-deployment", 1, of_cdi()).await?;
    let items = async |line: &[&str]| -> anyhow::Result<Vec<Value>> {
        let output = fixture.run(line).await?;
        let value: Value =
            serde_json::from_str(&output.out).with_context(|| format!("{output:?}"))?;
        Ok(value["items"].as_array().cloned().unwrap_or_default())
    };
    let found = items(&[
        "check",
        "--pre",
        "--controllers",
        "images-hco,images-cdi",
        "-o",
        "json",
    ])
    .await?;
    let rivals: Vec<(&str, &str)> = found
        .iter()
        .filter(|it| it["id"] == "install-rivals")
        .map(|it| {
            (
                it["message"].as_str().unwrap(),
                it["hint"].as_str().unwrap(),
            )
        })
        .collect();
    let [hco, ssp, cdi] = rivals.as_slice() else {
        panic!("{rivals:?}");
    };
    assert_eq!(
        hco.0,
        "the HyperConverged cluster operator runs (Deployment cdi/hco-operator)"
    );
    assert!(
        hco.1.contains("medley images take-over images-hco"),
        "{hco:?}"
    );
    assert!(
        ssp.1.contains("with images-ssp in --controllers"),
        "{ssp:?}"
    );
    assert_eq!(cdi.0, "CDI runs (Deployment cdi/cdi-deployment)");

    let found = items(&[
        "check",
        "--controllers",
        "images-cdi,images-vm",
        "-o",
        "json",
    ])
    .await?;
    let modes: Vec<(&str, &str)> = found
        .iter()
        .filter(|it| it["id"] == "ownership")
        .map(|it| (it["title"].as_str().unwrap(), it["state"].as_str().unwrap()))
        .collect();
    assert_eq!(
        modes,
        [
            ("images-cdi is in mode Assist", "Off"),
            // KubeVirt is not installed.
            ("images-vm is in mode Off", "Off"),
        ]
    );

    fixture.run_operator("images-hco,images-cdi")?;
    fixture
        .reported("ManagingTemplates", "UpstreamOperatorRuns")
        .await?;
    fixture
        .reported("ManagingImports", "UpstreamOperatorRuns")
        .await?;
    let status = fixture.run(&["status", "images"]).await?;
    assert!(status.out.contains("images-cdi assists CDI"), "{status:?}");
    let coverage = fixture.run(&["images", "coverage"]).await?;
    assert_eq!(coverage.code, Some(0), "{coverage:?}");
    for expected in [
        "LAYER        MODE     MANAGED BY",
        "images-hco   Assist   the HyperConverged cluster operator",
        // The operator does not run it.
        "images-ssp   Off      the SSP operator",
        "images-cdi   Assist   CDI",
        "Nothing is missing",
    ] {
        assert!(coverage.out.contains(expected), "{coverage:?}");
    }
    Ok(())
}
