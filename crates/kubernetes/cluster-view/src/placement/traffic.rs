//! Numbers about registries.

use prometheus_client::encoding::EncodeLabelSet;
use runtime::Key;
use runtime::metrics::{Gauges, Metrics};

use crate::placement::registries::Registries;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    host: String,
    operation: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Host {
    host: String,
}

/// How often registries were asked, and how often they may still be.
#[derive(Clone)]
pub struct Traffic {
    requests: Gauges<Asked>,
    left: Gauges<Host>,
}

impl Traffic {
    /// Make it once.
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            requests: metrics.gauges(
                "placement_registry_requests",
                "Requests to registries since the start, by what was asked for",
            ),
            left: metrics.gauges(
                "placement_registry_rate_limit_remaining",
                "How often a registry may still be asked, as of its last answer, where it says so",
            ),
        }
    }

    /// Tells how it is now.
    pub fn tell(&self, registries: &Registries) {
        // Nobody asks so often that a float cannot count it.
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let number = |count: u64| count as f64;
        let all = Key::new("", "");
        let counts = registries.counts();
        let requests = counts.all().into_iter().map(|(host, operation, count)| {
            let operation = operation.name();
            (Asked { host, operation }, number(count))
        });
        self.requests.set(&all, requests);
        let left = counts.left().into_iter();
        let left = left.map(|(host, count)| (Host { host }, number(count)));
        self.left.set(&all, left);
    }
}
