//! Metrics, and the status of the policy.

use api::cpu::CpuModelPolicy;
use api::kubevirt::{GROUP, VirtualMachineInstance};
use cluster_view::policies;
use cpu_models::report::{StatusInputs, status};
use cpu_models::review::Review;
use jiff::Timestamp;
use kube::Resource;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::{Counter, Family, Gauges};
use runtime::{Error, Key, Manager, Next, kind_of};

use super::{COMPONENT, CpuModelController};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VmLabels {
    namespace: String,
    name: String,
    model: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Repaired {
    what: &'static str,
}

/// Metrics of the controller.
pub(crate) struct Report {
    machines: Gauges<State>,
    targets: Gauges<VmLabels>,
    admission: Gauges<NoLabels>,
    repairs: Family<Repaired, Counter>,
}

impl Report {
    pub(crate) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            machines: metrics.gauges(
                "cpu_machines",
                "Virtual machines that leave the choice of their CPU model to Medley, by state",
            ),
            targets: metrics.gauges(
                "cpu_migration_targets",
                "Migration targets of a virtual machine: nodes that can run it, besides its own",
            ),
            admission: metrics.gauges(
                "cpu_admission_registered",
                "1 if the webhook that chooses CPU models is registered",
            ),
            repairs: metrics.counter(
                "cpu_repairs",
                "Objects repaired that were created while the webhook was not called",
            ),
        }
    }

    /// Records the migration targets of a virtual machine.
    pub(super) fn machine(&self, key: &Key, review: &Review) {
        let labels = VmLabels {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            model: review.model.clone().unwrap_or_default(),
        };
        self.targets.set(key, [(labels, f64::from(review.targets))]);
    }

    /// Removes the metrics of a virtual machine that is deleted or has no model.
    pub(super) fn forget(&self, key: &Key) {
        self.targets.forget(key);
    }

    /// Counts a repair.
    pub(super) fn count_repair(&self, what: &'static str) {
        self.repairs.get_or_create(&Repaired { what }).inc();
    }
}

impl CpuModelController {
    /// Whether KubeVirt is installed.
    pub(super) fn kubevirt_installed(&self) -> bool {
        let kind = VirtualMachineInstance::kind(&());
        self.foreign.kind(GROUP, &kind).is_some()
    }

    /// Updates the metrics, and the status of the policy if there is one and the status changed.
    pub(super) async fn status(&self) -> Result<Next, Error> {
        let tally = self.reviews.tally();
        let all = Key::new("", "");
        let states = tally.states();
        let counted = states.map(|(state, count)| {
            // A cluster has far fewer than 2^53 virtual machines.
            #[expect(clippy::cast_precision_loss, reason = "a count of machines")]
            let count = count as f64;
            (State { state }, count)
        });
        self.report.machines.set(&all, counted);
        let registered = !self.registration.is_empty();
        let value = if registered { 1.0 } else { 0.0 };
        self.report.admission.set(&all, [(NoLabels {}, value)]);
        let found = policies::cached::<CpuModelPolicy>(&self.foreign).await?;
        let Some(object) = found else {
            return Ok(Next::Wait);
        };
        let settings = self.watch.settings();
        let wanted = status(&StatusInputs {
            object: &object,
            complaints: &settings.complaints,
            policy: &settings.policy,
            index: &self.watch.index(),
            kubevirt_installed: self.kubevirt_installed(),
            admission_registered: registered,
            tally,
            no_target: &self.reviews.no_target(),
            now: Timestamp::now(),
        });
        if object.status.as_ref() != Some(&wanted) {
            let kind = kind_of::<CpuModelPolicy>();
            let of = &object.metadata;
            crate::status::write(&self.foreign, &kind, of, &wanted, COMPONENT).await?;
        }
        Ok(Next::Wait)
    }
}
