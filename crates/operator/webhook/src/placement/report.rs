//! Metrics.

use std::time::Duration;

use ::placement::Controller;
use cluster_view::placement::{Registries, RegistryMetrics};
use prometheus_client::encoding::EncodeLabelSet;
use runtime::Key;
use runtime::metrics::{Counter, Described, Family, Gauges, Histograms, Metrics};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cache {
    cache: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// Metrics of pod admission.
pub(super) struct Report {
    controller: Gauges<NoLabels>,
    abandoned: Family<Reason, Counter>,
    answers: Histograms<Outcome>,
    images: Family<Cache, Counter>,
    traffic: RegistryMetrics,
}

impl Report {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            controller: metrics.gauges(
                "placement_controller_running",
                "1 if a placement controller renews its Lease, so that pods may be gated",
            ),
            abandoned: metrics.counter(
                "placement_abandoned_released",
                "Pods released from the scheduling gate by the webhook because no placement controller was running, by outcome",
            ),
            answers: metrics.seconds(
                "placement_admission_duration_seconds",
                "Time to answer the admission review of a pod, by outcome",
            ),
            images: metrics.counter(
                "placement_image_lookups",
                "Images of admitted pods, by whether their platforms were known",
            ),
            traffic: RegistryMetrics::new(metrics),
        }
    }

    /// Records an answered review.
    pub(super) fn record_answer(&self, outcome: &'static str, took: Duration) {
        let seconds = self.answers.get_or_create(&Outcome { outcome });
        seconds.observe(took.as_secs_f64());
    }

    /// Records whether a controller is running.
    pub(super) fn controller(&self, controller: Controller) {
        let running = match controller {
            Controller::Running => 1.0,
            Controller::NotRunning => 0.0,
        };
        self.controller
            .set(&Key::new("", ""), [(NoLabels {}, running)]);
    }

    /// Counts a pod that was released because no controller was running.
    pub(super) fn count_abandoned(&self, reason: &'static str) {
        self.abandoned.get_or_create(&Reason { reason }).inc();
    }

    /// Counts an image by whether its platforms were known.
    pub(super) fn count_image(&self, known: bool) {
        let cache = if known { "hit" } else { "miss" };
        self.images.get_or_create(&Cache { cache }).inc();
    }

    /// Updates the registry counters.
    pub(super) fn traffic(&self, registries: &Registries) {
        self.traffic.update(registries);
    }
}

/// Metrics of pod admission besides the common ones.
pub(crate) fn described() -> Vec<Described> {
    let metrics = Metrics::default();
    let common = metrics.described();
    drop(Report::new(&metrics));
    let mut own = metrics.described();
    own.retain(|metric| !common.contains(metric));
    own
}
