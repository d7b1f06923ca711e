//! The story of VMs under virt-controller: started, migrated, evacuated, crashed, stopped.
//!
//! Played beside the genuine virt-controller and virt-api (`tests/beside_kubevirt.rs`) and their stand-in
//! (`tests/recordings.rs` here).

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::recording::{Recorder, Subject};
use testkit::{by, until, until_gone, wait_until};

use crate::roles::{self, HANDLER, NODES, objects, resource, update_instance};

/// What the genuine virt-controller wrote.
pub(crate) const RECORDING: &str = "kubevirt/virt-controller.json";
pub(crate) const NAMESPACE: &str = "machines";
/// Field manager of the users of the story.
const USER: &str = "administrator";
/// virt-controller retries with a backoff.
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
const MACHINE: &str = "VirtualMachine";
const INSTANCE: &str = "VirtualMachineInstance";
const MIGRATION: &str = "VirtualMachineInstanceMigration";
/// A node and the one that VMs move to.
const SOURCE: &str = "skylake-1";
const TARGET: &str = "skylake-2";

/// What is recorded. Of pods the parts that say where and for whom they run: the rest is the business of virt-launcher.
pub(crate) fn subject() -> Subject {
    let kinds = [
        ("v1", "Pod"),
        ("policy/v1", "PodDisruptionBudget"),
        ("kubevirt.io/v1", MACHINE),
        ("kubevirt.io/v1", INSTANCE),
        ("kubevirt.io/v1", MIGRATION),
    ];
    Subject::new(kinds.map(|(version, kind)| resource(version, kind)))
        // virt-api adds to the requests of others, which makes it no field manager. Its stand-in has requests of its own.
        .played_by(&[USER, HANDLER, "virt-api"])
        .only(
            "Pod",
            &[
                "/metadata/labels",
                "/metadata/annotations",
                "/metadata/ownerReferences",
                "/spec/nodeSelector",
                "/spec/affinity",
                "/spec/restartPolicy",
                "/spec/terminationGracePeriodSeconds",
                "/spec/automountServiceAccountToken",
                "/spec/enableServiceLinks",
                "/spec/hostname",
                "/spec/readinessGates",
                "/status/conditions",
            ],
        )
        .only(
            "PodDisruptionBudget",
            &["/metadata/ownerReferences", "/spec"],
        )
        // A time, and how far the VM controller came before a VM was stopped.
        .hiding("kubevirt.io/migration-target-ready-timestamp")
        .hiding("desiredGeneration")
        .hiding("observedGeneration")
        // Of an option.
        .hiding("launcherContainerImageVersion")
        .following(INSTANCE, "/status/phase")
        // Not the status of VMs: whether one is seen as Stopped before it starts depends on when caches saw what.
        .following(MIGRATION, "/status/phase")
}

pub(crate) struct Story {
    client: Client,
    /// Instances, for the account of virt-handler.
    handled: Api<DynamicObject>,
    recorder: Recorder,
}

impl Story {
    /// Starts to record; KubeVirt does not run yet. virt-api accepts the status of instances from virt-handler's account
    /// only, which `handler` has.
    pub(crate) async fn prepare(client: Client, handler: &Client) -> anyhow::Result<Self> {
        let recorder = Recorder::start(client.clone(), subject());
        for hardware in &NODES {
            roles::create_node(&client, hardware).await?;
        }
        let handled = objects(handler, "kubevirt.io/v1", INSTANCE, Some(NAMESPACE));
        Ok(Self {
            client,
            handled,
            recorder,
        })
    }

    /// Plays the story.
    pub(crate) async fn play(self) -> anyhow::Result<Recorder> {
        self.start().await?;
        self.migrate().await?;
        self.evacuate().await?;
        self.crash().await?;
        self.stop().await?;
        self.move_host_model().await?;
        Ok(self.recorder)
    }

    /// A VM with a named model starts.
    async fn start(&self) -> anyhow::Result<()> {
        let spec = json!({
            "evictionStrategy": "LiveMigrate",
            "nodeSelector": { "example.com/pool": "Intel" },
            "tolerations": [{ "key": "vms", "operator": "Exists" }],
            "domain": {
                "devices": {},
                "cpu": {
                    "model": "Haswell-noTSX", "sockets": 1,
                    "features": [{ "name": "ssbd" }, { "name": "amx-tile", "policy": "forbid" }],
                },
                "resources": { "requests": { "memory": "128Mi" } },
            },
        });
        self.create("web", spec).await?;
        self.phase("web", "Scheduling").await?;
        let launcher = self.launcher("web", None).await?;
        self.recorder.step("created").await?;

        roles::report_unschedulable(&self.pods(), &launcher).await?;
        self.machine("web", "ErrorUnschedulable").await?;
        self.recorder.step("unschedulable").await?;

        roles::bind_pod(&self.pods(), &launcher, SOURCE).await?;
        self.machine("web", "Starting").await?;
        self.recorder.step("bound").await?;

        roles::run_pod(&self.pods(), &launcher).await?;
        self.phase("web", "Scheduled").await?;
        self.recorder.step("handed over").await?;

        self.handle("web", roles::start_guest).await?;
        self.machine("web", "Running").await?;
        self.recorder.step("running").await
    }

    /// It moves to another node, and back.
    async fn migrate(&self) -> anyhow::Result<()> {
        let migration = self.request("move", "web").await?;
        let target = self.launcher("web", Some(&migration)).await?;
        self.migration("move", "Scheduling").await?;
        self.recorder.step("migration requested").await?;

        roles::bind_pod(&self.pods(), &target, TARGET).await?;
        roles::run_pod(&self.pods(), &target).await?;
        self.migration("move", "PreparingTarget").await?;
        self.recorder.step("target runs").await?;

        self.handle("web", roles::prepare_target).await?;
        self.migration("move", "TargetReady").await?;
        self.handle("web", roles::send_guest).await?;
        self.migration("move", "Running").await?;
        self.machine("web", "Migrating").await?;
        self.recorder.step("guest moves").await?;

        self.handle("web", roles::receive_guest).await?;
        self.handle("web", roles::finish_migration).await?;
        self.handle("web", roles::clean_up_migration).await?;
        self.migration("move", "Succeeded").await?;
        let source = self.launcher("web", None).await?;
        roles::end_pod(&self.pods(), &source.name_any(), "Succeeded").await?;
        self.machine("web", "Running").await?;
        self.recorder.step("guest has moved").await
    }

    /// Its node is drained, and the first target is lost.
    async fn evacuate(&self) -> anyhow::Result<()> {
        self.taint(TARGET, true).await?;
        let evacuation = self.evacuation().await?;
        let target = self.launcher("web", Some(&evacuation)).await?;
        self.migration(&evacuation.name_any(), "Scheduling").await?;
        self.recorder.step("node is drained").await?;

        self.taint(TARGET, false).await?;
        self.pods()
            .delete(&target.name_any(), &DeleteParams::default())
            .await?;
        self.migration(&evacuation.name_any(), "Failed").await?;
        self.recorder.step("target is lost").await
    }

    /// The guest crashes, and the next one starts.
    async fn crash(&self) -> anyhow::Result<()> {
        let crashed = self.instances().get("web").await?;
        self.handle("web", |instance| roles::end_guest(instance, "Failed"))
            .await?;
        for pod in self.launchers(&crashed).await? {
            if pod.data["status"]["phase"] == "Running" {
                roles::end_pod(&self.pods(), &pod.name_any(), "Failed").await?;
            }
        }
        until(&self.instances(), "web", "is another", WAIT_TIMEOUT, |it| {
            it.uid() != crashed.uid()
        })
        .await?;
        self.phase("web", "Scheduling").await?;
        let launcher = self.launcher("web", None).await?;
        self.recorder.step("guest has crashed").await?;

        roles::bind_pod(&self.pods(), &launcher, SOURCE).await?;
        roles::end_pod(&self.pods(), &launcher.name_any(), "Failed").await?;
        self.machine("web", "CrashLoopBackOff").await?;
        Ok(())
    }

    async fn stop(&self) -> anyhow::Result<()> {
        let halted = json!({ "spec": { "runStrategy": "Halted" } });
        self.machines()
            .patch("web", &by(USER), &Patch::Merge(halted))
            .await?;
        until_gone(&self.instances(), "web", WAIT_TIMEOUT).await?;
        self.machine("web", "Stopped").await?;
        self.recorder.step("stopped").await?;
        self.machines()
            .delete("web", &DeleteParams::default())
            .await?;
        until_gone(&self.machines(), "web", WAIT_TIMEOUT).await?;
        self.recorder.step("deleted").await
    }

    /// A VM with the model of its first node moves twice.
    async fn move_host_model(&self) -> anyhow::Result<()> {
        let spec = json!({ "domain": {
            "devices": {}, "resources": { "requests": { "memory": "128Mi" } },
        } });
        self.create("host", spec).await?;
        let launcher = self.launcher("host", None).await?;
        roles::bind_pod(&self.pods(), &launcher, "icelake-1").await?;
        roles::run_pod(&self.pods(), &launcher).await?;
        self.phase("host", "Scheduled").await?;
        self.handle("host", roles::start_guest).await?;
        self.machine("host", "Running").await?;
        self.recorder.step("host model runs").await?;

        for (name, node) in [("there", SOURCE), ("back", "icelake-1")] {
            let migration = self.request(name, "host").await?;
            let target = self.launcher("host", Some(&migration)).await?;
            roles::bind_pod(&self.pods(), &target, node).await?;
            roles::run_pod(&self.pods(), &target).await?;
            self.migration(name, "PreparingTarget").await?;
            let source = self.instances().get("host").await?;
            self.handle("host", roles::prepare_target).await?;
            self.migration(name, "TargetReady").await?;
            self.handle("host", roles::send_guest).await?;
            self.migration(name, "Running").await?;
            self.machine("host", "Migrating").await?;
            self.handle("host", roles::receive_guest).await?;
            self.handle("host", roles::finish_migration).await?;
            self.handle("host", roles::clean_up_migration).await?;
            self.migration(name, "Succeeded").await?;
            for pod in self.launchers(&source).await? {
                if pod.data["spec"]["nodeName"] == source.data["status"]["nodeName"] {
                    roles::end_pod(&self.pods(), &pod.name_any(), "Succeeded").await?;
                }
            }
            self.machine("host", "Running").await?;
            self.recorder
                .step(&format!("host model has moved {name}"))
                .await?;
        }
        Ok(())
    }

    fn of_kubevirt(&self, kind: &str) -> Api<DynamicObject> {
        objects(&self.client, "kubevirt.io/v1", kind, Some(NAMESPACE))
    }

    fn machines(&self) -> Api<DynamicObject> {
        self.of_kubevirt(MACHINE)
    }

    fn instances(&self) -> Api<DynamicObject> {
        self.of_kubevirt(INSTANCE)
    }

    fn migrations(&self) -> Api<DynamicObject> {
        self.of_kubevirt(MIGRATION)
    }

    fn pods(&self) -> Api<DynamicObject> {
        objects(&self.client, "v1", "Pod", Some(NAMESPACE))
    }

    fn params() -> PostParams {
        PostParams {
            field_manager: Some(USER.to_owned()),
            ..PostParams::default()
        }
    }

    /// Creates a VM that runs.
    async fn create(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let machine = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1", "kind": MACHINE,
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "runStrategy": "Always", "template": {
                "metadata": { "labels": { "app": name }, "annotations": { "note": name } },
                "spec": spec,
            } },
        }))?;
        self.machines().create(&Self::params(), &machine).await?;
        Ok(())
    }

    async fn request(&self, name: &str, instance: &str) -> anyhow::Result<DynamicObject> {
        let migration = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1", "kind": MIGRATION,
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "vmiName": instance },
        }))?;
        Ok(self
            .migrations()
            .create(&Self::params(), &migration)
            .await?)
    }

    /// virt-controller reports this status of a VM.
    async fn machine(&self, name: &str, status: &str) -> anyhow::Result<()> {
        until(&self.machines(), name, status, WAIT_TIMEOUT, |machine| {
            machine.data["status"]["printableStatus"] == status
        })
        .await?;
        Ok(())
    }

    async fn phase(&self, name: &str, phase: &str) -> anyhow::Result<()> {
        until(&self.instances(), name, phase, WAIT_TIMEOUT, |instance| {
            instance.data["status"]["phase"] == phase
        })
        .await?;
        Ok(())
    }

    async fn migration(&self, name: &str, phase: &str) -> anyhow::Result<()> {
        until(&self.migrations(), name, phase, WAIT_TIMEOUT, |migration| {
            migration.data["status"]["phase"] == phase
        })
        .await?;
        Ok(())
    }

    /// virt-handler changes an instance.
    async fn handle(&self, name: &str, change: impl Fn(&mut DynamicObject)) -> anyhow::Result<()> {
        update_instance(&self.handled, name, change).await.map(drop)
    }

    async fn launchers(&self, instance: &DynamicObject) -> anyhow::Result<Vec<DynamicObject>> {
        let uid = instance.uid().unwrap_or_default();
        let params = ListParams::default().labels(&format!("kubevirt.io/created-by={uid}"));
        Ok(self.pods().list(&params).await?.items)
    }

    /// The launcher of an instance, for a migration or the first one.
    async fn launcher(
        &self,
        name: &str,
        migration: Option<&DynamicObject>,
    ) -> anyhow::Result<DynamicObject> {
        let job = migration.and_then(kube::ResourceExt::uid);
        wait_until(&format!("a launcher of {name}"), WAIT_TIMEOUT, async || {
            let Some(instance) = self.instances().get_opt(name).await? else {
                return Ok(None);
            };
            let pods = self.launchers(&instance).await?.into_iter();
            let mut pods = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
            Ok(pods.find(|pod| pod.labels().get("kubevirt.io/migrationJobUID") == job.as_ref()))
        })
        .await
    }

    /// The open migration that virt-controller created.
    async fn evacuation(&self) -> anyhow::Result<DynamicObject> {
        wait_until("an evacuation", WAIT_TIMEOUT, async || {
            let all = self.migrations().list(&ListParams::default()).await?;
            Ok(all
                .into_iter()
                .find(|it| it.metadata.generate_name.is_some()))
        })
        .await
    }

    /// Adds or removes the taint of a drained node.
    async fn taint(&self, node: &str, present: bool) -> anyhow::Result<()> {
        let taint = json!({ "key": "kubevirt.io/drain", "effect": "NoSchedule" });
        let taints = if present { json!([taint]) } else { json!([]) };
        let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
        let nodes = objects(&self.client, "v1", "Node", None);
        nodes.patch(node, &by(USER), &patch).await?;
        Ok(())
    }
}
