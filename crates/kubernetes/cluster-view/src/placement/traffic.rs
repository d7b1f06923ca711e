//! Metrics of the traffic to registries.

use prometheus_client::encoding::EncodeLabelSet;
use runtime::Key;
use runtime::metrics::{Gauges, Metrics};

use crate::placement::registries::Registries;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    host: String,
    operation: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HostLabels {
    host: String,
}

/// Requests to registries, and their remaining rate limits.
#[derive(Clone)]
pub struct RegistryMetrics {
    requests: Gauges<RequestLabels>,
    left: Gauges<HostLabels>,
}

impl RegistryMetrics {
    /// Registers the metrics; call it once.
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            requests: metrics.gauges(
                "placement_registry_requests",
                "Requests to registries since the process started, by operation",
            ),
            left: metrics.gauges(
                "placement_registry_rate_limit_remaining",
                "Remaining requests of the registry's rate limit, from its last response that reported one",
            ),
        }
    }

    /// Updates the gauges from the counters of the registry client.
    pub fn update(&self, registries: &Registries) {
        // A float counts exactly up to 2^53 requests.
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let number = |count: u64| count as f64;
        let all = Key::new("", "");
        let counts = registries.counts();
        let requests = counts.all().into_iter().map(|(host, operation, count)| {
            let operation = operation.name();
            (RequestLabels { host, operation }, number(count))
        });
        self.requests.set(&all, requests);
        let left = counts.left().into_iter();
        let left = left.map(|(host, count)| (HostLabels { host }, number(count)));
        self.left.set(&all, left);
    }
}
