//! Numbers.

use ::release_migration::control::Tally;
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::Gauges;
use runtime::{Key, Manager};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Nothing {}

/// Counts.
pub(super) struct Report {
    operators: Gauges<State>,
    complete: Gauges<Nothing>,
    claimed_early: Gauges<Nothing>,
    failing: Gauges<Nothing>,
    payload_ready: Gauges<Nothing>,
    not_owned: Gauges<Nothing>,
}

impl Report {
    pub(super) fn new(manager: &Manager) -> Self {
        let metrics = manager.metrics();
        Self {
            operators: metrics.gauges(
                "release_operators",
                "Operators of the release, by how they fare; some are counted as silent or hopeless besides",
            ),
            complete: metrics.gauges(
                "release_complete",
                "Whether the cluster has truly arrived at its release",
            ),
            claimed_early: metrics.gauges(
                "release_claimed_early",
                "Whether ClusterVersion says that the release is complete, and it is not",
            ),
            failing: metrics.gauges(
                "release_failing",
                "Whether the cluster does not get on with its release, or too slowly",
            ),
            payload_ready: metrics.gauges(
                "release_payload_ready",
                "Whether the files of the release are there",
            ),
            not_owned: metrics.gauges(
                "release_not_owned",
                "Whether Medley is to keep the ClusterVersion, and does not",
            ),
        }
    }

    /// How the release fares.
    pub(super) fn tell(&self, of: &Key, tally: &Tally) {
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
            gauge.set(of, [(Nothing {}, f64::from(u8::from(holds)))]);
        }
    }

    /// There is nothing to count.
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
