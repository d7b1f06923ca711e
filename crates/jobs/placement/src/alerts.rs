//! What somebody should be told about placement.

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// All alerts. They wait before they tell: a node that restarts is no news.
pub const ALERTS: [Alert; 3] = [
    Alert {
        name: "MedleyPlacementHeld",
        expression: "sum(medley_placement_held_pods) > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $value }} pods wait for a node that runs their images.",
        description: "They are at the gate because no node runs all of their images. The annotation medley.dev/placement-reason of each, and its events, say which image is for what. `medley place report` names them.",
    },
    Alert {
        name: "MedleyPlacementNotInspected",
        expression: "sum(increase(medley_placement_released_total{reason=\"ImageNotInspected\"}[15m])) > 0",
        lasting: None,
        severity: Severity::Info,
        labels: &[],
        summary: "Nobody could look at the images of {{ $value }} pods.",
        description: "Registries did not answer in time, denied access, or do not have the images. The pods were let go without knowing where they run. Their events say why.",
    },
    Alert {
        name: "MedleyPlacementAdmissionMissing",
        expression: "medley_placement_admission_registered == 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "Nobody places pods.",
        description: "The MutatingWebhookConfiguration medley-placement is missing. Pods go to any node, whatever their images are for.",
    },
];

/// All alerts, as the operator of Prometheus takes them.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley-placement", namespace, &ALERTS)
}
