//! What somebody should be told about CPU models.

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// All alerts. They wait before they tell: a node that restarts is no news.
pub const ALERTS: [Alert; 4] = [
    Alert {
        name: "MedleyCpuNoMigrationTarget",
        expression: "medley_cpu_machines{state=\"no_target\"} > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $value }} virtual machines could not migrate to any node.",
        description: "No other node that they could run on supports their CPU model, so that a drain of their node would wait for ever. `medley cpu vms --stranded` names them.",
    },
    Alert {
        name: "MedleyCpuStranded",
        expression: "medley_cpu_machines{state=\"stranded\"} > 0",
        lasting: Some("1h"),
        severity: Severity::Info,
        labels: &[],
        summary: "Too few nodes support the CPU models of {{ $value }} virtual machines.",
        description: "Nodes that supported their CPU models went, or do not count at the moment. `medley cpu vms --stranded` names the machines.",
    },
    Alert {
        name: "MedleyCpuUndecided",
        expression: "medley_cpu_machines{state=\"undecided\"} > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $value }} virtual machines wait for their CPU model.",
        description: "They ask for best-match-model and have not been handed to their node for 15 minutes. Events of the instances and of their launcher pods say what they wait for.",
    },
    Alert {
        name: "MedleyCpuAdmissionMissing",
        expression: "medley_cpu_admission_registered == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "Nobody chooses CPU models.",
        description: "The MutatingWebhookConfiguration medley-cpu-models is missing. Virtual machines that ask for best-match-model do not start.",
    },
];

/// All alerts, as the operator of Prometheus takes them.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley-cpu-models", namespace, &ALERTS)
}
