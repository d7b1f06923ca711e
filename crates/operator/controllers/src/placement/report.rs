//! Numbers, and the statuses of the policies.

use std::collections::BTreeMap;
use std::time::Duration;

use ::placement::{Facts, status};
use api::placement::PlacementPolicy;
use cluster_view::placement::Traffic;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::{Counter, Family, Gauges, Histograms};
use runtime::{Error, Key, Manager, Next, kind_of};

use super::{COMPONENT, Placing};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Nothing {}

/// Counts.
pub(super) struct Report {
    gated: Gauges<Nothing>,
    held: Gauges<Reason>,
    released: Family<Reason, Counter>,
    waited: Histograms<Reason>,
    admission: Gauges<Nothing>,
    traffic: Traffic,
}

impl Report {
    pub(super) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            gated: metrics.gauges(
                "placement_gated_pods",
                "Pods at the gate whose images are being looked at",
            ),
            held: metrics.gauges(
                "placement_held_pods",
                "Pods at the gate because no node runs their images, by what is missing",
            ),
            released: metrics.counter(
                "placement_released",
                "Pods that were let go from the gate, by what became of them",
            ),
            waited: metrics.seconds(
                "placement_gate_duration_seconds",
                "How long pods were at the gate, by what became of them",
            ),
            admission: metrics.gauges(
                "placement_admission_registered",
                "Whether the API server asks before pods are made",
            ),
            traffic: Traffic::new(metrics),
        }
    }

    /// A pod was let go.
    pub(super) fn released(&self, reason: &'static str, waited: Duration) {
        let reason = Reason { reason };
        self.released.get_or_create(&reason).inc();
        self.waited
            .get_or_create(&reason)
            .observe(waited.as_secs_f64());
    }
}

/// How soon it is tried again to read pull secrets that were forbidden.
const FORBIDDEN_RECHECK: Duration = Duration::from_mins(1);

/// What is counted of a policy.
#[derive(Default)]
struct Tally {
    gated: usize,
    held: Vec<String>,
}

impl Placing {
    /// Counts, and writes the statuses of the policies that say something else.
    pub(super) async fn status(&self) -> Result<Next, Error> {
        let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
        let mut reasons: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut gated = 0;
        for (key, policy, held) in self.ledger.all() {
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
        let mut next = Next::Wait;
        for object in cache.list() {
            let object: PlacementPolicy = crate::status::typed(&object)?;
            let name = object.metadata.name.clone().unwrap_or_default();
            let tally = tallies.remove(&name).unwrap_or_default();
            let forbidden = self.pulls.forbidden(&object.spec.pull_secrets).await?;
            if !forbidden.is_empty() {
                // A right that is granted is no change that is watched.
                next = Next::After(FORBIDDEN_RECHECK);
            }
            let wanted = status(&Facts {
                object: &object,
                complaints: settings.policies.complaints(&name),
                forbidden: &forbidden,
                admission_registered: registered,
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
        // Nobody has so many pods that a float cannot count them.
        #[expect(clippy::cast_precision_loss, reason = "a count of pods")]
        let number = |count: usize| count as f64;
        let all = Key::new("", "");
        let report = &self.report;
        report.gated.set(&all, [(Nothing {}, number(gated))]);
        let held = reasons.iter();
        let held = held.map(|(reason, count)| (Reason { reason }, number(*count)));
        report.held.set(&all, held);
        let registered = if registered { 1.0 } else { 0.0 };
        report.admission.set(&all, [(Nothing {}, registered)]);
        report.traffic.tell(&self.registries);
    }
}
