//! Third-party operators on an API server: configurations are rolled out, and invalid ones
//! rejected.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fleet::operators::{
    self, HyperConvergedVersion, Installed, MachineConfig, MachineConfigPool,
    MachineConfigPoolStatus, hyperconverged, kube_descheduler, machine_configuration, names,
    node_health_check,
};
use fleet::{Fleet, commands};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use parking_lot::Mutex;
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
/// A reboot takes a tenth of a second.
const SPEED: f64 = 600.0;

/// A cluster with operators and nodes only.
struct Fixture {
    cluster: TestCluster,
    manager: Manager,
}

impl Fixture {
    async fn start(nodes: &[(&str, &[&str])]) -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        operators::install(&cluster.client(), &Installed::demo()).await?;
        let manager = Manager::new(cluster.client());
        operators::start(&manager, cluster.client(), SPEED).await;
        let fixture = Self { cluster, manager };
        for (name, roles) in nodes {
            fixture.node(name, roles).await?;
        }
        Ok(fixture)
    }

    async fn node(&self, name: &str, roles: &[&str]) -> anyhow::Result<()> {
        let labels: Value = roles
            .iter()
            .map(|role| (format!("node-role.kubernetes.io/{role}"), json!("")))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let node =
            serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } }))?;
        self.nodes().create(&PostParams::default(), &node).await?;
        Ok(())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client())
    }

    fn pools(&self) -> Api<MachineConfigPool> {
        Api::all(self.cluster.client())
    }

    fn configs(&self) -> Api<MachineConfig> {
        Api::all(self.cluster.client())
    }

    fn all(&self, kind: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.cluster.client(), kind)
    }

    fn deschedulers(&self) -> Api<DynamicObject> {
        let namespace = names::DESCHEDULER_NAMESPACE;
        Api::namespaced_with(self.cluster.client(), namespace, &kube_descheduler())
    }

    async fn configure(&self, name: &str, role: &str, spec: Value) -> anyhow::Result<()> {
        let config = serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": { "name": name, "labels": { names::ROLE_LABEL: role } },
            "spec": spec,
        }))?;
        self.configs()
            .create(&PostParams::default(), &config)
            .await?;
        Ok(())
    }

    async fn patch_pool(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.pools()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn patch_node(&self, name: &str, metadata: Value) -> anyhow::Result<Node> {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let patched = self
            .nodes()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(patched)
    }

    /// Waits until a pool satisfies the condition.
    async fn until(
        &self,
        pool: &str,
        what: &str,
        holds: impl Fn(&MachineConfigPool) -> bool,
    ) -> anyhow::Result<MachineConfigPool> {
        wait_until(&format!("pool {pool} {what}"), WAIT_TIMEOUT, async || {
            let found = self.pools().get_opt(pool).await?;
            Ok(found.filter(&holds))
        })
        .await
    }

    /// Waits until all nodes of a pool run a configuration rendered from these, and returns its
    /// name.
    async fn until_updated(
        &self,
        pool: &str,
        machines: i32,
        made_of: &[&str],
    ) -> anyhow::Result<String> {
        let what = format!("runs with {made_of:?} on {machines}");
        let pool = self
            .until(pool, &what, |pool| {
                sources(pool) == made_of && is_updated(pool, machines)
            })
            .await?;
        pool.spec.configuration.name.context("it has a target")
    }

    /// An annotation of all nodes, by node name.
    async fn annotations(&self, key: &str) -> anyhow::Result<Vec<(String, String)>> {
        let nodes = self.nodes().list(&ListParams::default()).await?;
        let values = nodes.items.into_iter().map(|node| {
            let annotations = node.metadata.annotations.unwrap_or_default();
            let name = node.metadata.name.unwrap_or_default();
            (name, annotations.get(key).cloned().unwrap_or_default())
        });
        Ok(values.collect())
    }

    /// Waits until the condition of the descheduler has this status, and returns its reason.
    async fn until_descheduler(&self, degraded: &str) -> anyhow::Result<String> {
        let what = format!("the descheduler is degraded: {degraded}");
        wait_until(&what, WAIT_TIMEOUT, async || {
            let object = json!(self.deschedulers().get("cluster").await?);
            let conditions = object["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let about = |it: &&Value| it["type"] == "TargetConfigControllerDegraded";
            let Some(condition) = conditions.find(about) else {
                return Ok(None);
            };
            let is = condition["status"] == degraded;
            let reason = condition["reason"].as_str().unwrap_or_default();
            Ok(is.then(|| reason.to_owned()))
        })
        .await
    }
}

fn sources(pool: &MachineConfigPool) -> Vec<&str> {
    let source = pool.spec.configuration.source.iter();
    source.filter_map(|it| it.name.as_deref()).collect()
}

fn status(pool: &MachineConfigPool) -> MachineConfigPoolStatus {
    pool.status.clone().unwrap_or_default()
}

/// The status and the message of a condition.
fn condition(pool: &MachineConfigPool, name: &str) -> (String, String) {
    let conditions = status(pool).conditions;
    let found = conditions.into_iter().find(|it| it.type_ == name);
    found.map_or_else(Default::default, |it| (it.status, it.message))
}

fn is(pool: &MachineConfigPool, name: &str) -> bool {
    condition(pool, name).0 == "True"
}

/// Whether the status of a pool shows all nodes as updated.
fn is_updated(pool: &MachineConfigPool, machines: i32) -> bool {
    let pool_status = status(pool);
    is(pool, "Updated")
        && !is(pool, "Updating")
        && !is(pool, "Degraded")
        && pool_status.configuration == pool.spec.configuration
        && Some(pool_status.observed_generation) == pool.metadata.generation
        && pool_status.machine_count == machines
        && pool_status.updated_machine_count == machines
        && pool_status.ready_machine_count == machines
        && pool_status.unavailable_machine_count == 0
}

fn psi() -> Value {
    json!({ "kernelArguments": ["psi=1"] })
}

const PSI: &str = "99-worker-psi-karg";
const WORKERS: [(&str, &[&str]); 3] = [
    ("w-1", &["worker"]),
    ("w-2", &["worker"]),
    ("w-3", &["worker"]),
];

#[tokio::test]
async fn configuration_rolls_out_one_node_at_a_time() -> anyhow::Result<()> {
    let fixture = Fixture::start(&WORKERS).await?;
    fixture.node("m-1", &["control-plane", "master"]).await?;
    let before = fixture.until_updated("worker", 3, &["00-worker"]).await?;
    let masters = fixture.until_updated("master", 1, &["00-master"]).await?;

    // Records all statuses of the pool from here on, and the number of cordoned nodes.
    let seen: Arc<Mutex<Vec<MachineConfigPoolStatus>>> = Arc::default();
    let most_away: Arc<Mutex<usize>> = Arc::default();
    let to = Arc::clone(&seen);
    let pools = fixture.manager.cache::<MachineConfigPool>();
    pools.on_change(move |change| {
        if let Some(pool) = &change.new
            && pool.metadata.name.as_deref() == Some("worker")
        {
            to.lock().push(status(pool));
        }
    });
    let away: Mutex<BTreeSet<String>> = Mutex::default();
    let most = Arc::clone(&most_away);
    fixture.manager.cache::<Node>().on_change(move |change| {
        if let Some(node) = &change.new {
            let name = node.metadata.name.clone().unwrap_or_default();
            let mut away = away.lock();
            if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
                away.insert(name);
            } else {
                away.remove(&name);
            }
            let mut most = most.lock();
            *most = away.len().max(*most);
        }
    });
    fixture.configure(PSI, "worker", psi()).await?;
    let after = fixture
        .until_updated("worker", 3, &["00-worker", PSI])
        .await?;
    assert_ne!(after, before);
    assert!(after.starts_with("rendered-worker-"), "{after}");
    let rendered = fixture.configs().get(&after).await?.spec;
    assert_eq!(rendered.kernel_arguments, Some(vec!["psi=1".to_owned()]));

    pools.saw(&fixture.pools().get("worker").await?).await;
    let seen = seen.lock().clone();
    let counts: BTreeSet<i32> = seen.iter().map(|it| it.updated_machine_count).collect();
    assert_eq!(counts, (0..=3).collect());
    assert!(seen.iter().all(|it| it.unavailable_machine_count <= 1));
    assert_eq!(*most_away.lock(), 1);
    // The pool's current configuration changes only once all nodes run it.
    let early = seen
        .iter()
        .find(|it| it.configuration.name.as_ref() == Some(&after) && it.updated_machine_count < 3);
    assert_eq!(early, None);

    let workers = |name: &str| {
        if name == "m-1" {
            masters.clone()
        } else {
            after.clone()
        }
    };
    for (name, current) in fixture.annotations(names::CURRENT_CONFIG).await? {
        assert_eq!(current, workers(&name), "{name}");
    }
    for (name, psi) in fixture.annotations(names::PSI).await? {
        assert_eq!(psi == "true", name != "m-1", "{name}");
    }

    // Without the configuration the previous state is restored by another rollout.
    let delete = DeleteParams::default();
    fixture.configs().delete(PSI, &delete).await?;
    let again = fixture.until_updated("worker", 3, &["00-worker"]).await?;
    assert_eq!(again, before);
    for (name, psi) in fixture.annotations(names::PSI).await? {
        assert_eq!(psi, "", "{name}");
    }
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn resumed_pool_rolls_out_all_changes_at_once() -> anyhow::Result<()> {
    let fixture = Fixture::start(&WORKERS).await?;
    let before = fixture.until_updated("worker", 3, &["00-worker"]).await?;
    fixture
        .patch_pool("worker", json!({ "paused": true }))
        .await?;
    fixture.configure(PSI, "worker", psi()).await?;
    let more = json!({ "kernelArguments": ["quiet"] });
    fixture.configure("98-worker-quiet", "worker", more).await?;
    let all = ["00-worker", "98-worker-quiet", PSI];
    let pool = fixture
        .until("worker", "is aimed at all", |pool| {
            let observed = Some(status(pool).observed_generation) == pool.metadata.generation;
            sources(pool) == all && !is(pool, "Updated") && observed
        })
        .await?;
    let target = pool.spec.configuration.name.clone().unwrap_or_default();
    assert_eq!(
        condition(&pool, "Updating"),
        (
            "False".to_owned(),
            format!("Pool is paused; will not update to MachineConfig {target}")
        )
    );
    assert_eq!(status(&pool).configuration.name.as_ref(), Some(&before));
    assert_eq!(status(&pool).updated_machine_count, 0);

    // A new node starts with the current configuration of the pool.
    fixture.node("w-4", &["worker"]).await?;
    fixture
        .until("worker", "has four machines", |pool| {
            status(pool).machine_count == 4 && status(pool).unavailable_machine_count == 0
        })
        .await?;
    for (name, desired) in fixture.annotations(names::DESIRED_CONFIG).await? {
        assert_eq!(desired, before, "{name}");
    }

    fixture
        .patch_pool("worker", json!({ "paused": false }))
        .await?;
    assert_eq!(fixture.until_updated("worker", 4, &all).await?, target);
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn degraded_node_blocks_the_rollout() -> anyhow::Result<()> {
    let fixture = Fixture::start(&WORKERS).await?;
    fixture.until_updated("worker", 3, &["00-worker"]).await?;
    let trouble = json!({ "annotations": { names::DEGRADE: "the disk is full" } });
    fixture.patch_node("w-1", trouble).await?;
    let degraded = fixture
        .until("worker", "is degraded", |pool| is(pool, "Degraded"))
        .await?;
    assert_eq!(status(&degraded).degraded_machine_count, 1);
    let (_, message) = condition(&degraded, "NodeDegraded");
    assert_eq!(message, "Node w-1 is reporting: \"the disk is full\"");

    fixture.configure(PSI, "worker", psi()).await?;
    fixture
        .until("worker", "has updated the failing node", |pool| {
            let target = pool.spec.configuration.name.as_deref();
            sources(pool).contains(&PSI) && target.is_some() && is(pool, "Updating")
        })
        .await?;
    let assigned = wait_until("w-1 is assigned the target", WAIT_TIMEOUT, async || {
        let desired = fixture.annotations(names::DESIRED_CONFIG).await?;
        let current = fixture.annotations(names::CURRENT_CONFIG).await?;
        Ok((desired[0].1 != current[0].1).then_some((desired, current)))
    })
    .await?;
    // If the first node recovered, further ones would exceed the maximum of unavailable nodes.
    assert_eq!(assigned.0[1..], assigned.1[1..]);

    let gone = json!({ "annotations": { names::DEGRADE: null } });
    fixture.patch_node("w-1", gone).await?;
    fixture
        .until_updated("worker", 3, &["00-worker", PSI])
        .await?;
    let states = fixture.annotations(names::STATE).await?;
    assert!(
        states.iter().all(|(_, state)| state == "Done"),
        "{states:?}"
    );
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn custom_pool_inherits_worker_configurations() -> anyhow::Result<()> {
    let fixture = Fixture::start(&WORKERS).await?;
    fixture.node("i-1", &["worker", "infra"]).await?;
    fixture.until_updated("worker", 4, &["00-worker"]).await?;
    let infra = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": "infra" },
        "spec": {
            "machineConfigSelector": { "matchExpressions": [
                { "key": names::ROLE_LABEL, "operator": "In", "values": ["worker", "infra"] },
            ] },
            "nodeSelector": { "matchLabels": { "node-role.kubernetes.io/infra": "" } },
        },
    }))?;
    fixture
        .pools()
        .create(&PostParams::default(), &infra)
        .await?;
    fixture.until_updated("infra", 1, &["00-worker"]).await?;
    fixture.until_updated("worker", 3, &["00-worker"]).await?;
    fixture
        .configure("50-infra", "infra", json!({ "kernelArguments": ["quiet"] }))
        .await?;
    fixture.configure(PSI, "worker", psi()).await?;
    fixture
        .until_updated("worker", 3, &["00-worker", PSI])
        .await?;
    let name = fixture
        .until_updated("infra", 1, &["00-worker", PSI, "50-infra"])
        .await?;
    let arguments = fixture.configs().get(&name).await?.spec.kernel_arguments;
    assert_eq!(
        arguments,
        Some(vec!["psi=1".to_owned(), "quiet".to_owned()])
    );

    // An empty pool counts as updated.
    let label = json!({ "labels": { "node-role.kubernetes.io/infra": null } });
    fixture.patch_node("i-1", label).await?;
    fixture
        .until_updated("infra", 0, &["00-worker", PSI, "50-infra"])
        .await?;
    fixture
        .until_updated("worker", 4, &["00-worker", PSI])
        .await?;
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn render_failure_is_reported_and_changes_nothing() -> anyhow::Result<()> {
    let fixture = Fixture::start(&WORKERS[..1]).await?;
    let before = fixture.until_updated("worker", 1, &["00-worker"]).await?;
    let wrong = json!({ "config": { "storage": { "files": [] } } });
    fixture
        .configure("99-worker-wrong", "worker", wrong)
        .await?;
    let pool = fixture
        .until("worker", "cannot render", |pool| is(pool, "RenderDegraded"))
        .await?;
    let (_, message) = condition(&pool, "RenderDegraded");
    assert!(
        message.starts_with("Failed to render configuration for pool worker: ")
            && message.contains("99-worker-wrong"),
        "{message}"
    );
    assert!(is(&pool, "Degraded") && is(&pool, "Updated"));
    assert_eq!(pool.spec.configuration.name.as_ref(), Some(&before));
    let right = json!({ "spec": { "config": { "ignition": { "version": "3.2.0" } } } });
    fixture
        .configs()
        .patch(
            "99-worker-wrong",
            &PatchParams::default(),
            &Patch::Merge(right),
        )
        .await?;
    fixture
        .until_updated("worker", 1, &["00-worker", "99-worker-wrong"])
        .await?;
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn descheduler_requires_psi_on_all_workers() -> anyhow::Result<()> {
    let fixture = Fixture::start(&WORKERS[..2]).await?;
    // The operator looks for KubeVirt before it looks for PSI.
    for (name, _) in &WORKERS[..2] {
        let labels = json!({ "labels": { "kubevirt.io/schedulable": "true" } });
        fixture.patch_node(name, labels).await?;
    }
    let create = json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": "KubeDescheduler",
        "metadata": { "name": "cluster" },
        "spec": {
            "managementState": "Managed",
            "deschedulingIntervalSeconds": 60,
            "profiles": ["KubeVirtRelieveAndMigrate"],
        },
    });
    let create = serde_json::from_value(create)?;
    fixture
        .deschedulers()
        .create(&PostParams::default(), &create)
        .await?;
    let refused = "profile KubeVirtRelieveAndMigrate can only be used when PSI metrics are enabled for the worker nodes";
    let reason = wait_until("the descheduler wants PSI", WAIT_TIMEOUT, async || {
        let reason = fixture.until_descheduler("True").await?;
        Ok(reason.contains("PSI").then_some(reason))
    })
    .await?;
    assert_eq!(reason, refused);

    fixture.configure(PSI, "worker", psi()).await?;
    fixture.until_descheduler("False").await?;
    // It was degraded until the last worker was updated.
    fixture
        .until_updated("worker", 2, &["00-worker", PSI])
        .await?;
    let delete = DeleteParams::default();
    fixture.configs().delete(PSI, &delete).await?;
    assert_eq!(fixture.until_descheduler("True").await?, refused);
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn operators_start_with_their_crds_and_become_idle() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    // No CRD is installed yet.
    operators::start(&manager, client.clone(), SPEED).await;
    operators::install(&client, &Installed::demo()).await?;
    let mut fixture = Fixture { cluster, manager };
    fixture.node("w-1", &["worker"]).await?;
    fixture.until_updated("worker", 1, &["00-worker"]).await?;
    fixture.until_updated("master", 0, &["00-master"]).await?;

    let health = fixture.all(&node_health_check());
    let check = json!({
        "apiVersion": "remediation.medik8s.io/v1alpha1",
        "kind": "NodeHealthCheck",
        "metadata": { "name": "workers" },
        "spec": {
            "selector": { "matchLabels": { "node-role.kubernetes.io/worker": "" } },
            "minHealthy": "51%",
            "remediationTemplate": { "kind": "FenceAgentsRemediationTemplate", "name": "any" },
        },
    });
    let check = serde_json::from_value(check)?;
    health.create(&PostParams::default(), &check).await?;
    let converged: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        names::VIRTUALIZATION_NAMESPACE,
        &hyperconverged(HyperConvergedVersion::V1),
    );
    let configuration = fixture.all(&machine_configuration());
    let objects = async || {
        anyhow::Ok([
            json!(health.get("workers").await?),
            json!(converged.get(names::HYPERCONVERGED).await?),
            json!(configuration.get("cluster").await?),
            json!(fixture.pools().get("worker").await?),
            json!(fixture.nodes().get("w-1").await?),
        ])
    };
    let settled = wait_until("all have reported", WAIT_TIMEOUT, async || {
        let all = objects().await?;
        let done = all[..3].iter().all(|it| it["status"].is_object());
        Ok(done.then_some(all))
    })
    .await?;
    assert_eq!(settled[0]["status"]["phase"], "Enabled");
    assert_eq!(settled[0]["status"]["observedNodes"], 1);
    assert_eq!(settled[0]["status"]["healthyNodes"], 1);
    let conditions = settled[1]["status"]["conditions"].as_array();
    let available = conditions.and_then(|all| all.iter().find(|it| it["type"] == "Available"));
    assert_eq!(available.map(|it| &it["status"]), Some(&json!("True")));
    let policies = &settled[2]["status"]["nodeDisruptionPolicyStatus"]["clusterPolicies"];
    assert_eq!(policies["sshkey"]["actions"][0]["type"], "None");

    // A restart has no changes to write.
    let before = settled.map(|it| it["metadata"]["resourceVersion"].clone());
    fixture.manager.stop().await;
    fixture.manager = Manager::new(client.clone());
    operators::start(&fixture.manager, client, SPEED).await;
    fixture.configure("99-master", "master", psi()).await?;
    fixture
        .until_updated("master", 0, &["00-master", "99-master"])
        .await?;
    let objects = [
        json!(health.get("workers").await?),
        json!(converged.get(names::HYPERCONVERGED).await?),
        json!(configuration.get("cluster").await?),
        json!(fixture.pools().get("worker").await?),
        json!(fixture.nodes().get("w-1").await?),
    ];
    let after = objects.map(|it| it["metadata"]["resourceVersion"].clone());
    assert_eq!(after, before);

    // A pause is requested.
    let pause = Patch::Merge(json!({ "spec": { "pauseRequests": ["rolling out"] } }));
    health
        .patch("workers", &PatchParams::default(), &pause)
        .await?;
    wait_until("the check is paused", WAIT_TIMEOUT, async || {
        let check = json!(health.get("workers").await?);
        Ok((check["status"]["phase"] == "Paused").then_some(()))
    })
    .await?;
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn fleet_follows_its_machine_configuration() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    let manager = Manager::new(client.clone());
    let fleet = "
pools:
  - {name: control, roles: [control-plane], arch: amd64}
  - {name: plain, arch: arm64, count: 2}
  - {name: win, arch: amd64, os: windows, windowsBuild: 10.0.20348}
";
    let options = fleet::Options {
        fleet: Some(Fleet::parse(fleet)?),
        speed: SPEED,
        operators: Some(Installed::demo()),
        ..fleet::Options::new(client.clone())
    };
    fleet::start(&manager, options).await?;
    let fixture = Fixture { cluster, manager };
    // The Windows node is a worker, but is not configured.
    fixture.until_updated("worker", 2, &["00-worker"]).await?;
    fixture.until_updated("master", 1, &["00-master"]).await?;

    commands::pause(&client, "worker", true).await?;
    fixture.configure(PSI, "worker", psi()).await?;
    fixture
        .until("worker", "waits", |pool| {
            sources(pool).contains(&PSI) && condition(pool, "Updating").1.contains("paused")
        })
        .await?;
    commands::degrade(&client, "plain-1", "no").await?;
    commands::pause(&client, "worker", false).await?;
    fixture
        .until("worker", "is degraded", |pool| is(pool, "Degraded"))
        .await?;
    commands::recover(&client, "plain-1").await?;
    fixture
        .until_updated("worker", 2, &["00-worker", PSI])
        .await?;
    let nodes = fixture.nodes().list(&ListParams::default()).await?;
    let cordoned = nodes.iter().filter(|node| {
        let spec = node.spec.as_ref();
        spec.and_then(|spec| spec.unschedulable) == Some(true)
    });
    assert_eq!(cordoned.count(), 0);
    fixture.manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn copied_cluster_keeps_its_rendered_configurations() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let client = cluster.client();
    operators::install(&client, &Installed::demo()).await?;
    let manager = Manager::new(client.clone());
    let fixture = Fixture { cluster, manager };
    // A configuration rendered by another operator.
    let theirs = "rendered-worker-0123";
    fixture.configure(theirs, "", json!({})).await?;
    let source = json!([{
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "name": "00-worker",
    }]);
    let target = json!({ "configuration": { "name": theirs, "source": source } });
    fixture.patch_pool("worker", target).await?;
    fixture.node("w-1", &["worker"]).await?;
    let runs = json!({ "annotations": {
        names::CURRENT_CONFIG: theirs, names::DESIRED_CONFIG: theirs, names::STATE: "Done",
    } });
    fixture.patch_node("w-1", runs).await?;
    operators::start(&fixture.manager, client, SPEED).await;
    let kept = fixture.until_updated("worker", 1, &["00-worker"]).await?;
    assert_eq!(kept, theirs);
    // Later changes are rendered here.
    fixture.configure(PSI, "worker", psi()).await?;
    let ours = fixture
        .until_updated("worker", 1, &["00-worker", PSI])
        .await?;
    assert_ne!(ours, theirs);
    fixture.manager.stop().await;
    Ok(())
}
