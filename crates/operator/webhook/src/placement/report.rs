//! Numbers.

use std::time::Duration;

use cluster_view::placement::{Registries, Traffic};
use prometheus_client::encoding::EncodeLabelSet;
use runtime::metrics::{Counter, Described, Family, Histograms, Metrics};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cache {
    cache: &'static str,
}

/// Counts.
pub(super) struct Report {
    answers: Histograms<Outcome>,
    looks: Family<Cache, Counter>,
    traffic: Traffic,
}

impl Report {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            answers: metrics.seconds(
                "placement_admission_duration_seconds",
                "How long it took to say what becomes of a pod that is made, by what became of it",
            ),
            looks: metrics.counter(
                "placement_image_lookups",
                "Images of pods that are made, by whether it was known what they are for",
            ),
            traffic: Traffic::new(metrics),
        }
    }

    /// A pod was answered about.
    pub(super) fn answered(&self, outcome: &'static str, took: Duration) {
        let seconds = self.answers.get_or_create(&Outcome { outcome });
        seconds.observe(took.as_secs_f64());
    }

    /// It was known, or not, what an image is for.
    pub(super) fn looked(&self, known: bool) {
        let cache = if known { "hit" } else { "miss" };
        self.looks.get_or_create(&Cache { cache }).inc();
    }

    /// How often registries were asked.
    pub(super) fn traffic(&self, registries: &Registries) {
        self.traffic.tell(registries);
    }
}

/// What is told, besides what every process tells.
pub(crate) fn described() -> Vec<Described> {
    let metrics = Metrics::default();
    let common = metrics.described();
    drop(Report::new(&metrics));
    let mut own = metrics.described();
    own.retain(|metric| !common.contains(metric));
    own
}
