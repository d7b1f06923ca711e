//! Prometheus alerts of governance.
//!
//! Every alert has a runbook: `docs/runbooks/<alert>.md`.

#[cfg(test)]
mod tests;

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// All alerts. Those on states that may be short have a `for` duration, so that a target that is edited and reverted, or
/// a restarting API server, does not fire one.
pub const ALERTS: [Alert; 6] = [
    Alert {
        name: "MedleyGovernanceDrift",
        expression: "medley_governance_drift == 1",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $labels.config }} is not in force as it was applied.",
        description: "Fields differ from what VirtPlatformConfig {{ $labels.config }} applied, for 15 minutes. `medley explain {{ $labels.config }}` lists them and the managers that changed them; medley_governance_drift_fields counts them.",
    },
    Alert {
        name: "MedleyGovernanceEnforcementPaused",
        expression: "medley_governance_enforcement_paused == 1",
        lasting: None,
        severity: Severity::Warning,
        labels: &[],
        summary: "Another manager keeps reverting what {{ $labels.config }} applies.",
        description: "VirtPlatformConfig {{ $labels.config }} bypasses locks and corrected drift repeatedly. Correction is paused. `medley explain {{ $labels.config }}` names the other manager.",
    },
    Alert {
        name: "MedleyGovernancePlanWaiting",
        expression: "time() - medley_governance_plan_timestamp_seconds > 7 * 24 * 3600",
        lasting: None,
        severity: Severity::Info,
        labels: &[],
        summary: "The plan of {{ $labels.config }} has been waiting for a week.",
        description: "The plan of VirtPlatformConfig {{ $labels.config }} was generated {{ $value | humanizeDuration }} ago, and is neither applied nor rejected. `medley explain {{ $labels.config }}` states what it waits for.",
    },
    Alert {
        name: "MedleyGovernanceFailed",
        expression: "medley_governance_phase{phase=~\"Failed|PrerequisiteFailed\"} == 1",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $labels.config }} is {{ $labels.phase }}.",
        description: "VirtPlatformConfig {{ $labels.config }} has been {{ $labels.phase }} for 15 minutes. `medley explain {{ $labels.config }}` states the reason.",
    },
    Alert {
        name: "MedleyGovernanceUnhealthy",
        expression: "medley_governance_health{status=\"False\"} == 1",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "What {{ $labels.config }} applied does not work.",
        description: "For 15 minutes, the operator of a target of VirtPlatformConfig {{ $labels.config }} has reported a fault. The condition Healthy and `medley explain {{ $labels.config }}` name it.",
    },
    Alert {
        name: "MedleyReconcileErrors",
        expression: "sum by (controller) (rate(medley_reconcile_total{result=~\"error|panic\"}[5m])) > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "Reconciles of the controller {{ $labels.controller }} fail.",
        description: "The controller {{ $labels.controller }} has had failing reconciles for 15 minutes, and retries. The log of the operator has the errors.",
    },
];

/// The alerts as a PrometheusRule for the Prometheus Operator.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley", namespace, &ALERTS)
}
