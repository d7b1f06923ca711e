//! Metrics, and the statuses of the policies.

use std::collections::BTreeMap;
use std::time::Duration;

use ::placement::{PolicyStatusInputs, status};
use api::placement::{NAME, PlacementPolicy};
use cluster_view::placement::RegistryMetrics;
use cluster_view::policies;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::{Counter, Family, Gauges, Histograms};
use runtime::{Error, Key, Manager, Next, kind_of};

use super::{COMPONENT, PlacementController};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// Metrics of the controller.
pub(crate) struct Report {
    gated: Gauges<NoLabels>,
    held: Gauges<Reason>,
    released: Family<Reason, Counter>,
    waited: Histograms<Reason>,
    admission: Gauges<NoLabels>,
    traffic: RegistryMetrics,
}

impl Report {
    pub(crate) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            gated: metrics.gauges(
                "placement_gated_pods",
                "Gated pods whose images are being inspected",
            ),
            held: metrics.gauges(
                "placement_held_pods",
                "Gated pods whose images no node can run, by what is missing",
            ),
            released: metrics.counter(
                "placement_released",
                "Pods released from the scheduling gate, by outcome",
            ),
            waited: metrics.seconds(
                "placement_gate_duration_seconds",
                "Time that pods spent at the scheduling gate, by outcome",
            ),
            admission: metrics.gauges(
                "placement_admission_registered",
                "1 if the placement webhook is registered",
            ),
            traffic: RegistryMetrics::new(metrics),
        }
    }

    /// Records a released pod.
    pub(super) fn count_release(&self, reason: &'static str, waited: Duration) {
        let reason = Reason { reason };
        self.released.get_or_create(&reason).inc();
        self.waited
            .get_or_create(&reason)
            .observe(waited.as_secs_f64());
    }
}

/// Retry interval of pull secrets that the API server forbade to read.
const FORBIDDEN_RECHECK: Duration = Duration::from_mins(1);

/// Counts for the status of one policy.
#[derive(Default)]
struct Tally {
    gated: usize,
    held: Vec<String>,
}

impl PlacementController {
    /// Updates the metrics, and the statuses of the policies that changed.
    pub(super) async fn status(&self) -> Result<Next, Error> {
        let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
        let mut reasons: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut gated = 0;
        for (key, policy, held) in self.gated.all() {
            let tally = tallies.entry(policy).or_default();
            if let Some(reason) = held {
                *reasons.entry(reason).or_default() += 1;
                tally.held.push(key.to_string());
            } else {
                gated += 1;
                tally.gated += 1;
            }
        }
        let registered = !self.registration.is_empty();
        self.count(gated, &reasons, registered);
        let kind = kind_of::<PlacementPolicy>();
        let Some(cache) = self.foreign.open(&kind).await? else {
            return Ok(Next::Wait);
        };
        let settings = self.watch.settings();
        let running = self.other.running(Timestamp::now());
        let ownership = settings.policies.ownership(running.as_ref());
        // The end of a Lease is no event.
        let until = running.and_then(|running| running.until());
        let mut next = until.map_or(Next::Wait, Next::at);
        for object in cache.list() {
            // A policy that cannot be decoded is not in force either; it must not keep the others from their status.
            let Some(object) = policies::decode::<PlacementPolicy>(&object) else {
                continue;
            };
            let name = object.metadata.name.clone().unwrap_or_default();
            let tally = tallies.remove(&name).unwrap_or_default();
            let forbidden = self.pulls.forbidden(&object.spec.pull_secrets).await?;
            if !forbidden.is_empty() {
                // Granting a permission causes no watch event; poll for it.
                next = Next::After(FORBIDDEN_RECHECK);
            }
            let wanted = status(&PolicyStatusInputs {
                object: &object,
                complaints: settings.policies.complaints(&name),
                forbidden: &forbidden,
                admission_registered: registered,
                operator_mode: settings.policies.operator_mode(),
                ownership: (name == NAME).then_some(&ownership),
                gated: tally.gated,
                held: &tally.held,
                now: Timestamp::now(),
            });
            if object.status.as_ref() != Some(&wanted) {
                let of = &object.metadata;
                crate::status::write(&self.foreign, &kind, of, &wanted, COMPONENT).await?;
            }
        }
        Ok(next)
    }

    fn count(&self, gated: usize, reasons: &BTreeMap<&'static str, usize>, registered: bool) {
        // A cluster has far fewer than 2^53 pods.
        #[expect(clippy::cast_precision_loss, reason = "a count of pods")]
        let number = |count: usize| count as f64;
        let all = Key::new("", "");
        let report = &self.report;
        report.gated.set(&all, [(NoLabels {}, number(gated))]);
        let held = reasons.iter();
        let held = held.map(|(reason, count)| (Reason { reason }, number(*count)));
        report.held.set(&all, held);
        let registered = if registered { 1.0 } else { 0.0 };
        report.admission.set(&all, [(NoLabels {}, registered)]);
        report.traffic.update(&self.registries);
    }
}
