//! Governance beside the genuine cluster-kube-descheduler-operator.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like tests")]

#[path = "beside/fixture.rs"]
mod fixture;
#[path = "../crates/lab/fleet/recordings/descheduler/story.rs"]
mod story;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use fleet::operators::{self, HyperConvergedVersion, Installed};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch};
use serde_json::{Value, json};
use testkit::recording::recording;
use testkit::{Process, by, free_port, install_peer_crds, peer, peer_version, until};
use tokio::task::JoinHandle;

use fixture::{GenuineCluster, WAIT_TIMEOUT};

const OPERATOR: &str = "cluster-kube-descheduler-operator";
const OPERATOR_NAMESPACE: &str = "openshift-kube-descheduler-operator";
const IGNORES_PSI: &str = "EXPERIMENTAL_DISABLE_PSI_CHECK";
const CONFIG: &str = "load-aware-rebalancing";
/// The generation that the operator made a Deployment from; it sets no `observedGeneration`
/// (`pkg/operator/target_config_reconciler.go`).
const GENERATION: &str = "kubedeschedulers.operator.openshift.io/cluster";

/// A cluster in which the operator can run; `medley run` and the operator run.
struct Story {
    // Dropped in order: the programs before the cluster.
    _medley: Process,
    operator: Process,
    _deployments: AbortOnDrop,
    beside: GenuineCluster,
}

/// A task that ends with its test.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reports Deployments as kube-controller-manager does when their pods are ready: no kubelet would start these.
async fn report_deployments(deployments: Api<Deployment>) {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Errors are transient, or make the test wait in vain.
        let all = deployments.list(&ListParams::default()).await;
        for deployment in all.into_iter().flatten() {
            let generation = deployment.metadata.generation;
            let status = deployment.status.unwrap_or_default();
            if status.observed_generation == generation {
                continue;
            }
            let replicas = deployment.spec.and_then(|spec| spec.replicas);
            let now = Timestamp::now();
            let status = json!({ "status": {
                "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas,
                "conditions": [{
                    "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                    "message": "Deployment has minimum availability.",
                    "lastUpdateTime": now.to_string(), "lastTransitionTime": now.to_string(),
                }],
            } });
            let name = deployment.metadata.name.unwrap_or_default();
            let params = by("kube-controller-manager");
            let _ = deployments
                .patch_status(&name, &params, &Patch::Merge(status))
                .await;
        }
    }
}

impl Story {
    async fn start() -> anyhow::Result<Self> {
        let beside = GenuineCluster::start().await?;
        // HyperConverged is a prerequisite of the profile, and the descheduler is the genuine one.
        let installed = Installed {
            hyperconverged: Some(HyperConvergedVersion::V1Beta1),
            ..Installed::default()
        };
        operators::install(&beside.cluster.client(), &installed).await?;
        define_kinds(&beside).await?;
        for (name, labels) in [
            (
                OPERATOR_NAMESPACE,
                json!({ "openshift.io/cluster-monitoring": "true" }),
            ),
            ("openshift-monitoring", json!({})),
        ] {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": name, "labels": labels } });
            beside.apply(namespace).await?;
        }
        beside.cluster.node("worker-1", "amd64", "worker").await?;
        beside
            .apply(json!({ "apiVersion": "v1", "kind": "Node", "metadata": {
                "name": "worker-1", "labels": { "kubevirt.io/schedulable": "true" } } }))
            .await?;
        let operator = beside.run_peer(OPERATOR, configure_operator)?;
        let medley = beside.run_medley("governance").await?;
        let deployments = Api::namespaced(beside.cluster.client(), OPERATOR_NAMESPACE);
        let deployments = AbortOnDrop(tokio::spawn(report_deployments(deployments)));
        Ok(Self {
            _medley: medley,
            operator,
            _deployments: deployments,
            beside,
        })
    }

    /// The route that the operator finds Prometheus by. Without it, it rejects profiles that use Prometheus metrics.
    async fn serve_prometheus(&self) -> anyhow::Result<()> {
        let route = json!({
            "apiVersion": "route.openshift.io/v1", "kind": "Route",
            "metadata": { "name": "prometheus-k8s", "namespace": "openshift-monitoring" },
            "spec": { "to": { "kind": "Service", "name": "prometheus-k8s" } },
        });
        self.beside.apply(route).await?;
        let routes = self.beside.objects(
            "route.openshift.io/v1",
            "Route",
            Some("openshift-monitoring"),
        );
        let status = json!({ "status": { "ingress": [{ "host": "prometheus.example" }] } });
        routes
            .patch_status("prometheus-k8s", &by("router"), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    fn deschedulers(&self) -> Api<DynamicObject> {
        self.beside.objects(
            "operator.openshift.io/v1",
            "KubeDescheduler",
            Some(OPERATOR_NAMESPACE),
        )
    }

    fn deployments(&self) -> Api<DynamicObject> {
        self.beside
            .objects("apps/v1", "Deployment", Some(OPERATOR_NAMESPACE))
    }

    fn configs(&self) -> Api<DynamicObject> {
        self.beside
            .objects("advisor.kubevirt.io/v1alpha1", "VirtPlatformConfig", None)
    }

    async fn patch_config(&self, spec: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.configs()
            .patch(CONFIG, &by("kubectl"), &patch)
            .await
            .context("patching the configuration")?;
        Ok(())
    }

    /// Waits for a phase of the current generation; the error has the object and the log of the operator.
    async fn phase(&mut self, phase: &str) -> anyhow::Result<DynamicObject> {
        self.operator.check()?;
        until(&self.configs(), CONFIG, phase, WAIT_TIMEOUT, |config| {
            let status = &config.data["status"];
            status["phase"] == phase
                && status["observedGeneration"] == json!(config.metadata.generation)
        })
        .await
        .with_context(|| format!("log of {OPERATOR}:\n{}", self.operator.output()))
    }

    /// Plans the profile, without PSI metrics: MachineConfigs are another operator's.
    async fn plan(&mut self) -> anyhow::Result<DynamicObject> {
        until(&self.configs(), CONFIG, "exists", WAIT_TIMEOUT, |_| true).await?;
        self.patch_config(json!({
            "action": "DryRun",
            "options": { "loadAware": { "enablePSIMetrics": false, "deschedulingIntervalSeconds": 60 } },
        }))
        .await?;
        self.phase("ReviewRequired").await
    }

    fn medley(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.beside.medley(arguments)?;
        output.ok().with_context(|| format!("medley {arguments:?}"))
    }

    /// Waits until the operator made its Deployment from the current generation of its configuration.
    async fn taken_up(&self) -> anyhow::Result<DynamicObject> {
        let live = self.deschedulers().get("cluster").await?;
        let generation = live.metadata.generation.unwrap_or_default().to_string();
        let what = format!("is made from generation {generation}");
        until(
            &self.deployments(),
            "descheduler",
            &what,
            WAIT_TIMEOUT,
            |deployment| {
                deployment.data["spec"]["template"]["metadata"]["annotations"][GENERATION]
                    == *generation
            },
        )
        .await
    }
}

/// The operator's CRD, and what its informers and assets need of OpenShift and of the Prometheus operator.
async fn define_kinds(beside: &GenuineCluster) -> anyhow::Result<()> {
    install_peer_crds(&beside.cluster, OPERATOR).await?;
    for (version, kind, namespaced) in [
        ("config.openshift.io/v1", "Scheduler", false),
        ("config.openshift.io/v1", "APIServer", false),
        ("route.openshift.io/v1", "Route", true),
        ("monitoring.coreos.com/v1", "PrometheusRule", true),
        ("monitoring.coreos.com/v1", "ServiceMonitor", true),
    ] {
        beside.define(version, kind, namespaced).await?;
    }
    for kind in ["Scheduler", "APIServer"] {
        beside
            .apply(json!({
                "apiVersion": "config.openshift.io/v1", "kind": kind,
                "metadata": { "name": "cluster" },
            }))
            .await?;
    }
    Ok(())
}

fn configure_operator(command: &mut Command, kubeconfig: &Path) {
    let port = free_port().unwrap();
    command
        .args(["operator", "--namespace", OPERATOR_NAMESPACE])
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env("OPERATOR_POD_NAMESPACE", OPERATOR_NAMESPACE)
        .env("POD_NAME", "operator")
        .env(
            "RELATED_IMAGE_OPERAND_IMAGE",
            "registry.example/descheduler:1",
        )
        .env(
            "RELATED_IMAGE_SOFTTAINTER_IMAGE",
            "registry.example/softtainter:1",
        )
        // Nodes of this cluster have no kernel.
        .env(IGNORES_PSI, "true");
}

/// The status of the condition Healthy of a configuration.
fn healthy(config: &DynamicObject) -> &str {
    let conditions = config.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == "Healthy");
    found.map_or("", |found| found["status"].as_str().unwrap_or_default())
}

/// The operator alone, for the recording.
struct Alone {
    operator: Option<Process>,
    beside: GenuineCluster,
    starts: u32,
}

impl story::Stage for Alone {
    /// The operator looks for PSI metrics where it runs; it starts anew, without them in a mount namespace of its own.
    async fn set_psi(&mut self, enabled: bool) -> anyhow::Result<()> {
        self.operator = None;
        self.beside.delete_leases(OPERATOR_NAMESPACE).await?;
        self.starts += 1;
        let folder = self.beside.served.folder();
        let folder = folder.join(format!("{OPERATOR}-{}", self.starts));
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
            .arg("mount -t tmpfs tmpfs /proc && exec \"$0\" \"$@\"")
            .arg(peer(OPERATOR)?);
        configure_operator(&mut command, &self.beside.served.kubeconfig);
        if !enabled {
            command.env_remove(IGNORES_PSI);
        }
        self.operator = Some(Process::spawn(&mut command, &folder)?);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_writes_what_is_recorded() -> anyhow::Result<()> {
    let beside = GenuineCluster::start().await?;
    define_kinds(&beside).await?;
    let story = story::Story::prepare(beside.cluster.client()).await?;
    let mut stage = Alone {
        operator: None,
        beside,
        starts: 0,
    };
    let played = story.play(&mut stage).await;
    let played = played.with_context(|| {
        let output = stage.operator.as_ref().map(Process::output);
        format!("log of {OPERATOR}:\n{}", output.unwrap_or_default())
    });
    let trace = played?.finish();
    trace.assert_recorded(&recording(story::RECORDING), &peer_version(OPERATOR)?)
}

fn degraded(live: &DynamicObject) -> Option<&Value> {
    live.data["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == "TargetConfigControllerDegraded")
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_is_applied_drifts_and_is_rolled_back() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.serve_prometheus().await?;
    let plan = story.plan().await?;
    assert_eq!(
        plan.data["status"]["items"][0]["targetRef"]["kind"],
        "KubeDescheduler"
    );
    assert!(
        story.deschedulers().get_opt("cluster").await?.is_none(),
        "nothing is applied before approval"
    );

    story.medley(&["approve", CONFIG, "--yes"])?;
    story.phase("Completed").await?;
    let deployment = story.taken_up().await?;
    let container = &deployment.data["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/descheduler:1");
    let arguments = container["args"].to_string();
    assert!(
        arguments.contains("--descheduling-interval=60s"),
        "{arguments}"
    );
    // The status is written after the Deployment.
    let live = until(
        &story.deschedulers(),
        "cluster",
        "has a condition",
        WAIT_TIMEOUT,
        |live| degraded(live).is_some(),
    )
    .await?;
    let condition = degraded(&live).context("a condition")?;
    assert_eq!(condition["status"], "False", "{condition}");
    assert!(
        live.data["status"].get("observedGeneration").is_none(),
        "the stand-in of the lab must set what the operator sets, and nothing else: {}",
        live.data["status"]
    );

    // An administrator edits a governed field; the operator follows, and Medley does not overwrite.
    let edit = json!({ "spec": { "deschedulingIntervalSeconds": 180 } });
    story
        .deschedulers()
        .patch("cluster", &by("kubectl-edit"), &Patch::Merge(edit))
        .await?;
    story.phase("Drifted").await?;
    let deployment = story.taken_up().await?;
    let arguments =
        deployment.data["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(
        arguments.contains("--descheduling-interval=180s"),
        "{arguments}"
    );
    let explained = story.medley(&["explain", CONFIG])?;
    assert!(explained.contains("kubectl-edit"), "{explained}");

    // The object did not exist before, so rolling back deletes it.
    story.medley(&["rollback", CONFIG, "--yes"])?;
    story.phase("ReviewRequired").await?;
    story.medley(&["approve", CONFIG, "--yes"])?;
    story.phase("Completed").await?;
    assert!(story.deschedulers().get_opt("cluster").await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn degraded_operator_is_waited_for() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    // The operator rejects the profile while it cannot find Prometheus.
    story
        .beside
        .apply(json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
            "metadata": { "name": "cluster", "namespace": OPERATOR_NAMESPACE },
            "spec": { "managementState": "Managed", "deschedulingIntervalSeconds": 3600,
                "profiles": ["KubeVirtRelieveAndMigrate"] },
        }))
        .await?;
    let is_degraded = |live: &DynamicObject| {
        degraded(live).is_some_and(|condition| condition["status"] == "True")
    };
    until(
        &story.deschedulers(),
        "cluster",
        "is degraded",
        WAIT_TIMEOUT,
        is_degraded,
    )
    .await?;

    story.plan().await?;
    // The interval is the administrator's.
    story.medley(&["approve", CONFIG, "--yes", "--take-over"])?;
    until(
        &story.configs(),
        CONFIG,
        "waits for the operator",
        WAIT_TIMEOUT,
        |config| {
            let items = config.data["status"]["items"].as_array();
            items.into_iter().flatten().any(|item| {
                let message = item["message"].as_str().unwrap_or_default();
                message.contains("degraded") && message.contains("prometheus-k8s")
            })
        },
    )
    .await?;
    let config = story.configs().get(CONFIG).await?;
    assert_eq!(config.data["status"]["phase"], "InProgress");

    // Before the first item has taken effect, there is nothing in force to report on.
    assert_ne!(healthy(&config), "True", "the rollout is in progress");

    story.serve_prometheus().await?;
    let config = story.phase("Completed").await?;
    assert_eq!(healthy(&config), "True", "on the report of the operator");
    story.taken_up().await?;
    Ok(())
}
