//! Numbers, and the status of the policy.

use api::cpu::CpuModelPolicy;
use api::kubevirt::{GROUP, VirtualMachineInstance};
use cpu_models::report::{Facts, status};
use cpu_models::review::Review;
use jiff::Timestamp;
use kube::Resource;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::{Counter, Family, Gauges};
use runtime::{Error, Key, Manager, Next, kind_of};

use super::{COMPONENT, CpuModels};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct One {
    namespace: String,
    name: String,
    model: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Nothing {}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Repaired {
    what: &'static str,
}

/// Counts.
pub(super) struct Report {
    machines: Gauges<State>,
    targets: Gauges<One>,
    admission: Gauges<Nothing>,
    repairs: Family<Repaired, Counter>,
}

impl Report {
    pub(super) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            machines: metrics.gauges(
                "cpu_machines",
                "Virtual machines that leave the choice of their CPU model to Medley, by how they fare",
            ),
            targets: metrics.gauges(
                "cpu_migration_targets",
                "Nodes that could take a virtual machine, besides its own",
            ),
            admission: metrics.gauges(
                "cpu_admission_registered",
                "Whether the API server asks before virtual machines start",
            ),
            repairs: metrics.counter(
                "cpu_repairs",
                "What was put right that had slipped through while nobody checked",
            ),
        }
    }

    /// How a machine fares.
    pub(super) fn machine(&self, key: &Key, review: &Review) {
        let labels = One {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            model: review.model.clone().unwrap_or_default(),
        };
        self.targets.set(key, [(labels, f64::from(review.targets))]);
    }

    /// A machine is gone, or has no model.
    pub(super) fn forget(&self, key: &Key) {
        self.targets.forget(key);
    }

    /// Something was put right.
    pub(super) fn repaired(&self, what: &'static str) {
        self.repairs.get_or_create(&Repaired { what }).inc();
    }
}

impl CpuModels {
    /// Whether there are virtual machines in this cluster at all.
    pub(super) fn kubevirt_installed(&self) -> bool {
        let kind = VirtualMachineInstance::kind(&());
        self.foreign.kind(GROUP, &kind).is_some()
    }

    /// Counts, and writes the status of the policy, if there is one and it is another.
    pub(super) async fn status(&self) -> Result<Next, Error> {
        let tally = self.ledger.tally();
        let all = Key::new("", "");
        let states = tally.states();
        let counted = states.map(|(state, count)| {
            // Nobody has so many machines that a float cannot count them.
            #[expect(clippy::cast_precision_loss, reason = "a count of machines")]
            let count = count as f64;
            (State { state }, count)
        });
        self.report.machines.set(&all, counted);
        let registered = !self.registration.is_empty();
        let value = if registered { 1.0 } else { 0.0 };
        self.report.admission.set(&all, [(Nothing {}, value)]);
        let Some(object) = self.policy().await? else {
            return Ok(Next::Wait);
        };
        let settings = self.watch.settings();
        let wanted = status(&Facts {
            object: &object,
            complaints: &settings.complaints,
            policy: &settings.policy,
            index: &self.watch.index(),
            kubevirt_installed: self.kubevirt_installed(),
            admission_registered: registered,
            tally,
            no_target: &self.ledger.no_target(),
            now: Timestamp::now(),
        });
        if object.status.as_ref() != Some(&wanted) {
            let kind = kind_of::<CpuModelPolicy>();
            let of = &object.metadata;
            crate::status::write(&self.foreign, &kind, of, &wanted, COMPONENT).await?;
        }
        Ok(Next::Wait)
    }

    /// The policy, if there is one.
    async fn policy(&self) -> Result<Option<CpuModelPolicy>, Error> {
        let cache = self.foreign.open(&kind_of::<CpuModelPolicy>()).await?;
        let object = cache.and_then(|cache| cache.get("", api::cpu::NAME));
        object
            .map(|object| crate::status::typed(&object))
            .transpose()
    }
}
