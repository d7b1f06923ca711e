//! Events of a HyperConverged when its templates become valid or invalid, and metrics with upstream's names, which
//! vanish with their object.

use api::hco::HyperConvergedStatus;
use golden_images::hco::metrics::{ANNOTATED, ENABLED, LABELS, SUPPORTED};
use golden_images::hco::{ACCEPTED, Decision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use runtime::metrics::Gauges;
use runtime::{Events, Key, Manager, OptionalKinds};
use serde_json::Value;

use super::COMPONENT;
use crate::images::cluster::Converged;
use crate::images::layer::{LayerMode, SteppedBack, UPSTREAM_RUNS};

/// Labels of a sample.
type Labels = Vec<(&'static str, String)>;

/// Events and metrics of HyperConvergeds.
pub(crate) struct Report {
    events: Events,
    stepped_back: SteppedBack,
    gauges: [(&'static str, Gauges<Labels>); 3],
}

impl Report {
    pub(crate) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        let gauges = [
            (
                SUPPORTED,
                &LABELS[..],
                "1 if a template that names architectures names one of a node",
            ),
            (ANNOTATED, &LABELS, "1 if a template names architectures"),
            (
                ENABLED,
                &[],
                "1 if images of all architectures are enabled, where nodes have several",
            ),
        ];
        Self {
            events: crate::reasons::events(manager, COMPONENT),
            stepped_back: SteppedBack::default(),
            gauges: gauges
                .map(|(name, labels, help)| (name, metrics.adopted_gauges(name, labels, help))),
        }
    }

    /// Emits an event when the genuine operator starts.
    pub(super) fn report_mode(&self, foreign: &OptionalKinds, found: &Converged, mode: &LayerMode) {
        let key = Key::of(&found.object.metadata);
        let message = self.stepped_back.changed(&key, mode);
        if let Some((message, (resource, _))) = message.zip(foreign.resource(&found.kind)) {
            self.events
                .warning_of_kind(&*found.object, &resource, UPSTREAM_RUNS, message);
        }
    }

    /// Emits the events of a decision and updates the metrics.
    pub(super) fn report_decision(
        &self,
        foreign: &OptionalKinds,
        found: &Converged,
        decision: &Decision,
    ) {
        let key = Key::of(&found.object.metadata);
        for (name, gauges) in &self.gauges {
            let samples = decision.samples.iter().filter(|it| it.name == *name);
            let series = samples.map(|it| {
                let value = if it.value == 0 { 0.0 } else { 1.0 };
                (it.labels.clone(), value)
            });
            gauges.set(&key, series);
        }
        let (before, after) = (accepted(&found.images.status), accepted(&decision.status));
        let Some((after, (resource, _))) = after.zip(foreign.resource(&found.kind)) else {
            return;
        };
        let same =
            |before: &Condition| before.status == after.status && before.message == after.message;
        if before.as_ref().is_some_and(same) {
            return;
        }
        if after.status == "False" {
            self.events
                .warning_of_kind(&*found.object, &resource, &after.reason, after.message);
        } else if before.is_some() {
            self.events
                .normal_of_kind(&*found.object, &resource, ACCEPTED, after.message);
        }
    }

    /// Removes the metrics of a HyperConverged.
    pub(super) fn forget(&self, key: &Key) {
        for (_, gauges) in &self.gauges {
            gauges.forget(key);
        }
    }
}

/// The condition about images in a status.
fn accepted(status: &HyperConvergedStatus) -> Option<Condition> {
    let all = status.rest.get("conditions").and_then(Value::as_array)?;
    let own = all.iter().find(|it| it["type"] == ACCEPTED)?;
    serde_json::from_value(own.clone()).ok()
}
