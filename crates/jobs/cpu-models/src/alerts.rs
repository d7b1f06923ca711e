//! Prometheus alerts about CPU models.

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// All alerts. Each waits before it fires: a node that restarts leaves the index for a few minutes,
/// and that alone needs no action.
pub const ALERTS: [Alert; 4] = [
    Alert {
        name: "MedleyCpuNoMigrationTarget",
        expression: "medley_cpu_machines{state=\"no_target\"} > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $value }} virtual machines have no node to migrate to.",
        description: "No other eligible node supports their CPU model, so draining their node would block. List them with `medley cpu vms --stranded`.",
    },
    Alert {
        name: "MedleyCpuStranded",
        expression: "medley_cpu_machines{state=\"stranded\"} > 0",
        lasting: Some("1h"),
        severity: Severity::Info,
        labels: &[],
        summary: "Too few nodes support the CPU models of {{ $value }} virtual machines.",
        description: "Nodes that supported their CPU models were removed or are not eligible at the moment. List the VMs with `medley cpu vms --stranded`.",
    },
    Alert {
        name: "MedleyCpuUndecided",
        expression: "medley_cpu_machines{state=\"undecided\"} > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $value }} virtual machines are waiting for a CPU model.",
        description: "They request best-match-model and have had no CPU model for 15 minutes. Check the events of the VirtualMachineInstances and of their virt-launcher pods.",
    },
    Alert {
        name: "MedleyCpuAdmissionMissing",
        expression: "medley_cpu_admission_registered == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "The admission webhook for CPU models is not registered.",
        description: "The MutatingWebhookConfiguration medley-cpu-models is missing. Virtual machines that request best-match-model do not start. Run `medley webhook --register`.",
    },
];

/// All alerts as a PrometheusRule.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley-cpu-models", namespace, &ALERTS)
}
