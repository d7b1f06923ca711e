//! What somebody should be told about, as rules for Prometheus.
//!
//! Every alert has a page that says what it means and what to do: `docs/runbooks/<alert>.md`.

#[cfg(test)]
mod tests;

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// All alerts.
///
/// A short trouble is none: a target is edited and put back, an API server restarts. So all of them
/// wait before they tell.
pub const ALERTS: [Alert; 5] = [
    Alert {
        name: "MedleyGovernanceDrift",
        expression: "medley_governance_drift > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $labels.config }} is not in force as it was applied.",
        description: "{{ $value }} fields differ from what VirtPlatformConfig {{ $labels.config }} applied, for 15 minutes. `medley explain {{ $labels.config }}` says which, and who changed them.",
    },
    Alert {
        name: "MedleyGovernanceEnforcementPaused",
        expression: "medley_governance_enforcement_paused == 1",
        lasting: None,
        severity: Severity::Warning,
        labels: &[],
        summary: "Somebody else always changes back what {{ $labels.config }} applies.",
        description: "VirtPlatformConfig {{ $labels.config }} bypasses locks and corrected drift again and again. It has given up. `medley explain {{ $labels.config }}` says who changes it.",
    },
    Alert {
        name: "MedleyGovernancePlanWaiting",
        expression: "time() - medley_governance_plan_timestamp_seconds > 7 * 24 * 3600",
        lasting: None,
        severity: Severity::Info,
        labels: &[],
        summary: "The plan of {{ $labels.config }} has been waiting for a week.",
        description: "The plan of VirtPlatformConfig {{ $labels.config }} came about {{ $value | humanizeDuration }} ago, and is neither carried out nor refused. `medley explain {{ $labels.config }}` says what it waits for.",
    },
    Alert {
        name: "MedleyGovernanceFailed",
        expression: "medley_governance_phase{phase=~\"Failed|PrerequisiteFailed\"} == 1",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $labels.config }} is {{ $labels.phase }}.",
        description: "VirtPlatformConfig {{ $labels.config }} is {{ $labels.phase }} for 15 minutes. `medley explain {{ $labels.config }}` says why.",
    },
    Alert {
        name: "MedleyReconcileErrors",
        expression: "sum by (controller) (rate(medley_reconcile_total{result=~\"error|panic\"}[5m])) > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "The controller {{ $labels.controller }} does not get on with its work.",
        description: "The controller {{ $labels.controller }} has failed at something for 15 minutes, and tries again. The log of the operator says at what.",
    },
];

/// The alerts as the operator of Prometheus takes them.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley", namespace, &ALERTS)
}
