//! A cluster with the CRDs of upstream operators, and our operator in a given version.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::advisor::{Item, ItemState, Phase, VirtPlatformConfig, VirtPlatformConfigStatus};
use controllers::Job;
use controllers::governance::Options;
use fleet::operators::{
    self, DeschedulerRelease, HyperConvergedVersion, Installed, MachineConfig, MachineConfigPool,
    hyperconverged, kube_descheduler, names,
};
use governance::Registry;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DynamicObject, Patch, PostParams};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use platform::{AddressPolicy, AddressRange};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{DeschedulerPlayer, TestCluster, by, wait_until};

pub(crate) use crate::ours::NAMESPACE;
use crate::ours::Ours;

/// Upper bound of every wait.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
/// Speed of the simulation: a reboot takes a tenth of a second.
const SIMULATION_SPEED: f64 = 600.0;

/// Profile of most tests.
pub(crate) const LOAD_AWARE: &str = "load-aware-rebalancing";
pub(crate) const DENSITY: &str = "virt-higher-density";

/// A client for receivers of notifications, which are on loopback here.
pub(crate) fn receivers() -> oci::Client {
    let addresses = AddressPolicy::allowing(AddressRange::LOOPBACK);
    let settings = oci::Settings::for_service(oci::Roots::of_system(), addresses);
    oci::Client::new(settings, oci::Routes::direct())
}

/// A cluster, with our operator or without.
pub(crate) struct Stage {
    pub(crate) cluster: TestCluster,
    others: Mutex<Option<Manager>>,
    /// In place of the descheduler's operator, or of the controllers that run its Deployment.
    player: Mutex<Option<DeschedulerPlayer>>,
    ours: Ours,
}

fn options(version: &str, registry: Registry) -> Options {
    Options {
        registry,
        version: version.to_owned(),
        namespace: NAMESPACE.to_owned(),
        client: receivers(),
        audit_entries: controllers::governance::AUDIT_ENTRIES,
    }
}

impl Stage {
    /// Current CRDs, with HCO v1beta1 and its flat paths; no upstream operators but the descheduler's, which accepts
    /// everything.
    pub(crate) async fn quiet() -> anyhow::Result<Arc<Self>> {
        let stage = Self::with(Installed {
            descheduler: Some(DeschedulerRelease::V5_32),
            hyperconverged: Some(HyperConvergedVersion::V1Beta1),
            ..Installed::demo()
        })
        .await?;
        let player = DeschedulerPlayer::accepting(stage.cluster.client());
        *stage.player.lock() = Some(player);
        stage.operator("v0.1.30").await?;
        Ok(stage)
    }

    /// Like [`Self::quiet`], with upstream operators and this number of workers.
    pub(crate) async fn lively(workers: usize) -> anyhow::Result<Arc<Self>> {
        let stage = Self::with(Installed::demo()).await?;
        for number in 0..workers {
            stage.worker(&format!("worker-{number}")).await?;
        }
        stage.others().await;
        stage.operator("v0.1.30").await?;
        Ok(stage)
    }

    /// These CRDs, without any operator.
    pub(crate) async fn with(installed: Installed) -> anyhow::Result<Arc<Self>> {
        let cluster = TestCluster::start().await?;
        operators::install(&cluster.client(), &installed).await?;
        controllers::install(&cluster.client(), NAMESPACE).await?;
        Ok(Arc::new(Self {
            cluster,
            others: Mutex::default(),
            player: Mutex::default(),
            ours: Ours::default(),
        }))
    }

    /// Starts the simulated upstream operators.
    pub(crate) async fn others(&self) {
        let manager = Manager::new(self.cluster.client());
        operators::start(&manager, self.cluster.client(), SIMULATION_SPEED).await;
        *self.others.lock() = Some(manager);
        let player = DeschedulerPlayer::running(self.cluster.client());
        *self.player.lock() = Some(player);
    }

    /// Starts our operator in a version, after stopping the previous one.
    pub(crate) async fn operator(&self, version: &str) -> anyhow::Result<()> {
        let none: [&str; 0] = [];
        self.operator_with(version, Registry::standard(&none)?)
            .await
    }

    /// Starts our operator with these profiles, after stopping the previous one.
    pub(crate) async fn operator_with(
        &self,
        version: &str,
        registry: Registry,
    ) -> anyhow::Result<()> {
        let jobs = [Job::Governance].into();
        let manager = self.ours.next(&self.cluster, &jobs, &registry).await?;
        controllers::governance::start(&manager, options(version, registry)).await?;
        Ok(())
    }

    /// Starts our operator with this client, after stopping the previous one.
    pub(crate) async fn operator_as(&self, client: kube::Client) -> anyhow::Result<()> {
        let none: [&str; 0] = [];
        let options = options("v0.1.30", Registry::standard(&none)?);
        let manager = self.ours.next_as(client).await;
        controllers::governance::start(&manager, options).await?;
        Ok(())
    }

    /// Stops our operator.
    pub(crate) async fn stop(&self) {
        self.ours.stop().await;
    }

    /// Metrics of our operator.
    pub(crate) fn metrics(&self) -> String {
        self.ours.metrics()
    }

    pub(crate) async fn worker(&self, name: &str) -> anyhow::Result<()> {
        self.cluster.node(name, "amd64", "worker").await?;
        // As KubeVirt labels it: without, the descheduler operator rejects profiles that move VMs.
        let labels = json!({ "metadata": { "labels": { "kubevirt.io/schedulable": "true" } } });
        let nodes: Api<Node> = Api::all(self.cluster.client());
        let patch = Patch::Merge(labels);
        nodes.patch(name, &by("virt-handler"), &patch).await?;
        Ok(())
    }

    pub(crate) fn configs(&self) -> Api<VirtPlatformConfig> {
        Api::all(self.cluster.client())
    }

    pub(crate) fn machine_configs(&self) -> Api<MachineConfig> {
        Api::all(self.cluster.client())
    }

    pub(crate) fn pools(&self) -> Api<MachineConfigPool> {
        Api::all(self.cluster.client())
    }

    pub(crate) fn deschedulers(&self) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.cluster.client(),
            names::DESCHEDULER_NAMESPACE,
            &kube_descheduler(),
        )
    }

    /// HyperConvergeds, in the flat version.
    pub(crate) fn hyperconvergeds(&self) -> Api<DynamicObject> {
        let kind = hyperconverged(HyperConvergedVersion::V1Beta1);
        Api::namespaced_with(
            self.cluster.client(),
            names::VIRTUALIZATION_NAMESPACE,
            &kind,
        )
    }

    /// Sets the migration limit, from which the eviction limits are derived.
    pub(crate) async fn migrations(&self, limit: i64) -> anyhow::Result<()> {
        let patch =
            json!({ "spec": { "liveMigrationConfig": { "parallelMigrationsPerCluster": limit } } });
        self.hyperconvergeds()
            .patch(
                names::HYPERCONVERGED,
                &by("hco-admin"),
                &Patch::Merge(&patch),
            )
            .await?;
        Ok(())
    }

    /// The spec of the KubeDescheduler, if there is one.
    pub(crate) async fn descheduler(&self) -> anyhow::Result<Option<Value>> {
        let found = self.deschedulers().get_opt("cluster").await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// Edits the KubeDescheduler as another field manager.
    pub(crate) async fn edit_descheduler(&self, manager: &str, spec: Value) -> anyhow::Result<()> {
        let patch = json!({ "spec": spec });
        self.deschedulers()
            .patch("cluster", &by(manager), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// Creates the KubeDescheduler as this field manager.
    pub(crate) async fn create_descheduler(
        &self,
        manager: &str,
        spec: Value,
    ) -> anyhow::Result<()> {
        let object = serde_json::from_value(json!({
            "apiVersion": "operator.openshift.io/v1",
            "kind": "KubeDescheduler",
            "metadata": { "name": "cluster", "namespace": names::DESCHEDULER_NAMESPACE },
            "spec": spec,
        }))?;
        let params = PostParams {
            field_manager: Some(manager.to_owned()),
            ..PostParams::default()
        };
        self.deschedulers().create(&params, &object).await?;
        Ok(())
    }

    /// Edits the spec of a configuration.
    pub(crate) async fn edit(&self, name: &str, spec: Value) -> anyhow::Result<VirtPlatformConfig> {
        let patch = json!({ "spec": spec });
        self.configs()
            .patch(name, &by("kubectl-patch"), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("editing {name}: {patch}"))
    }

    pub(crate) async fn config(&self, name: &str) -> anyhow::Result<VirtPlatformConfig> {
        Ok(self.configs().get(name).await?)
    }

    /// Waits until a configuration is reconciled and fulfils the condition.
    pub(crate) async fn until(
        &self,
        what: &str,
        name: &str,
        holds: impl Fn(&VirtPlatformConfigStatus) -> bool,
    ) -> anyhow::Result<VirtPlatformConfigStatus> {
        let last = Mutex::new(String::new());
        let found = wait_until(what, WAIT_TIMEOUT, async || {
            // The operator creates it a moment after its profile.
            let Some(config) = self.configs().get_opt(name).await? else {
                return Ok(None);
            };
            let status = config.status.clone().unwrap_or_default();
            *last.lock() = describe(&config);
            let observed = status.observed_generation == config.metadata.generation;
            Ok((observed && holds(&status)).then_some(status))
        })
        .await;
        found.with_context(|| format!("{name} is {}", last.lock()))
    }

    /// Waits for a phase.
    pub(crate) async fn reaches(
        &self,
        name: &str,
        phase: Phase,
    ) -> anyhow::Result<VirtPlatformConfigStatus> {
        self.until(&format!("{name} is {phase}"), name, |status| {
            status.phase == Some(phase)
        })
        .await
    }

    /// Reports that the pool `worker` has rolled out this MachineConfig to this number of its nodes.
    pub(crate) async fn rolled_out(
        &self,
        config: &str,
        updated: i64,
        total: i64,
    ) -> anyhow::Result<()> {
        let pools = self.pools();
        let done = updated == total;
        let rendered = "rendered-worker-with-ours";
        let spec = json!({ "spec": { "configuration": {
            "name": rendered,
            "source": [{ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "name": config }],
        } } });
        let pool = pools
            .patch("worker", &by("mco"), &Patch::Merge(&spec))
            .await?;
        let condition = |kind: &str, on: bool| {
            json!({
                "type": kind, "status": if on { "True" } else { "False" }, "reason": "", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let status = json!({ "status": {
            "observedGeneration": pool.metadata.generation,
            "configuration": { "name": if done { rendered } else { "rendered-worker-before" } },
            "machineCount": total, "updatedMachineCount": updated, "readyMachineCount": updated,
            "unavailableMachineCount": i64::from(!done), "degradedMachineCount": 0,
            "conditions": [
                condition("Updated", done), condition("Updating", !done),
                condition("Degraded", false), condition("NodeDegraded", false), condition("RenderDegraded", false),
            ],
        } });
        pools
            .patch_status("worker", &by("mco"), &Patch::Merge(&status))
            .await?;
        Ok(())
    }

    /// Whether a MachineConfig exists.
    pub(crate) async fn has_machine_config(&self, name: &str) -> anyhow::Result<bool> {
        Ok(self.machine_configs().get_opt(name).await?.is_some())
    }
}

/// A configuration in one line, for failure messages.
fn describe(config: &VirtPlatformConfig) -> String {
    let status = config.status.clone().unwrap_or_default();
    let items: Vec<_> = status
        .items
        .iter()
        .map(|item| format!("{} {:?} {:?}", item.name, item.state, item.message))
        .collect();
    let phase = status.phase.map_or("nothing yet", Phase::as_str);
    let message = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == phase)
        .map(|condition| condition.message.clone());
    format!(
        "{} ({phase}, generation {:?}, observed {:?}, {message:?}): {}",
        config.name_any(),
        config.metadata.generation,
        status.observed_generation,
        items.join(", "),
    )
}

/// An item by name.
#[expect(clippy::panic, reason = "a test fails by it")]
pub(crate) fn item<'a>(status: &'a VirtPlatformConfigStatus, name: &str) -> &'a Item {
    let found = status.items.iter().find(|item| item.name == name);
    found.unwrap_or_else(|| panic!("there is no item {name} in {:?}", status.items))
}

/// Status, reason and message of a condition.
pub(crate) fn condition(status: &VirtPlatformConfigStatus, kind: &str) -> (String, String, String) {
    let found = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind);
    found.map_or_else(Default::default, |found| {
        (
            found.status.clone(),
            found.reason.clone(),
            found.message.clone(),
        )
    })
}

/// The states of all items, in order.
pub(crate) fn states(status: &VirtPlatformConfigStatus) -> Vec<ItemState> {
    status.items.iter().map(|item| item.state).collect()
}
