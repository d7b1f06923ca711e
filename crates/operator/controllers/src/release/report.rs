//! Metrics.

use ::release_migration::control::Tally;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::Gauges;
use runtime::{Key, Manager};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// Metrics of the controller.
pub(crate) struct Report {
    operators: Gauges<State>,
    complete: Gauges<NoLabels>,
    claimed_early: Gauges<NoLabels>,
    failing: Gauges<NoLabels>,
    payload_ready: Gauges<NoLabels>,
    not_owned: Gauges<NoLabels>,
}

impl Report {
    pub(crate) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            operators: metrics.gauges(
                "release_operators",
                "Operators of the release, by state; silent and hopeless operators also count in another state",
            ),
            complete: metrics.gauges(
                "release_complete",
                "1 if the cluster has reached its release completely",
            ),
            claimed_early: metrics.gauges(
                "release_claimed_early",
                "1 if the ClusterVersion reports completion although operators have not reached the release",
            ),
            failing: metrics.gauges(
                "release_failing",
                "1 if the upgrade is stuck or too slow",
            ),
            payload_ready: metrics.gauges(
                "release_payload_ready",
                "1 if the manifests of the release are available",
            ),
            not_owned: metrics.gauges(
                "release_not_owned",
                "1 if the policy asks Medley to own the ClusterVersion, and it does not",
            ),
        }
    }

    /// Updates the metrics.
    pub(super) fn update(&self, of: &Key, tally: &Tally) {
        let states = tally.states().map(|(state, count)| {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            (State { state }, f64::from(count))
        });
        self.operators.set(of, states);
        for (gauge, holds) in [
            (&self.complete, tally.complete),
            (&self.claimed_early, tally.claimed_early),
            (&self.failing, tally.failing),
            (&self.payload_ready, tally.payload_ready),
            (&self.not_owned, tally.not_owned),
        ] {
            gauge.set(of, [(NoLabels {}, f64::from(u8::from(holds)))]);
        }
    }

    /// Removes the metrics: there is no ClusterVersion.
    pub(super) fn forget(&self, of: &Key) {
        self.operators.forget(of);
        for gauge in [
            &self.complete,
            &self.claimed_early,
            &self.failing,
            &self.payload_ready,
            &self.not_owned,
        ] {
            gauge.forget(of);
        }
    }
}
