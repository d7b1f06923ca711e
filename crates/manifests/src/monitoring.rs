//! What the operator of Prometheus is told: where metrics are, and when somebody should hear of them.

use api::monitoring::pod_monitor;
use serde_json::Value;

use crate::entry::{Entry, Fill, Part, When};
use crate::{ACCOUNT, Job, labels};

/// All of it, for the jobs that run.
pub(crate) fn entries(fill: &dyn Fill) -> Vec<Entry> {
    let namespace = fill.namespace();
    let rules: [(When, &str, Value); 5] = [
        // Among them are those about the operator itself.
        (
            When::Always,
            "alerts",
            governance::alerts::prometheus_rule(&namespace),
        ),
        (
            When::Any(&[Job::CpuModels]),
            "cpu-models",
            cpumodel::alerts::prometheus_rule(&namespace),
        ),
        (
            When::Any(Job::IMAGES),
            "golden-images",
            golden::alerts::prometheus_rule(&namespace),
        ),
        (
            When::Any(&[Job::Placement]),
            "placement",
            placement::alerts::prometheus_rule(&namespace),
        ),
        (
            When::Any(&[Job::Release]),
            "release",
            release::alerts::prometheus_rule(&namespace),
        ),
    ];
    let monitor = pod_monitor(ACCOUNT, &namespace, &labels(ACCOUNT));
    let monitor = (When::Always, "metrics", monitor);
    let all = rules.into_iter().chain([monitor]);
    all.map(|(when, file, object)| {
        let file = format!("monitoring/{file}.yaml");
        Entry::new(Part::Monitoring, when, file, vec![object])
    })
    .collect()
}
