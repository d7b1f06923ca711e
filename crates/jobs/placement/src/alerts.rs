//! Prometheus alerts for placement.

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// All alerts. Those on current state have a `for` duration, so that a restarting node does not fire one.
pub const ALERTS: [Alert; 4] = [
    Alert {
        name: "MedleyPlacementHeld",
        expression: "sum(medley_placement_held_pods) > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $value }} pods wait for a node that runs their images.",
        description: "The pods are gated because no node runs all of their images. The annotation medley.dev/placement-reason of each pod, and its events, name the platforms of its images. `medley place report` lists the pods.",
    },
    Alert {
        name: "MedleyPlacementNotInspected",
        expression: "sum(increase(medley_placement_released_total{reason=\"ImageNotInspected\"}[15m])) > 0",
        lasting: None,
        severity: Severity::Info,
        labels: &[],
        summary: "Images of {{ $value }} pods could not be inspected.",
        description: "Registries did not answer in time, denied access, or do not have the images. The pods were released without platform constraints. Their events state the error.",
    },
    Alert {
        name: "MedleyPlacementAdmissionMissing",
        expression: "medley_placement_admission_registered == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "Pods are not placed: the admission webhook is not registered.",
        description: "The MutatingWebhookConfiguration medley-placement is missing. Pods are scheduled to any node, regardless of the platforms of their images.",
    },
    Alert {
        name: "MedleyPlacementControllerMissing",
        expression: "max(medley_placement_controller_running) == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "Pods are not gated: no placement controller is running.",
        description: "No operator renews the Lease medley-placement. Pods with images that were not inspected yet are admitted as they are (annotation medley.dev/placement-reason: NotGated) and may be scheduled to nodes that cannot run them. Pods that were gated were released by the webhook.",
    },
];

/// All alerts as a PrometheusRule for the Prometheus Operator.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley-placement", namespace, &ALERTS)
}
