//! What somebody should be told about, as rules for Prometheus.
//!
//! Every alert has a page that says what it means and what to do: `docs/runbooks/<alert>.md`.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

/// Where the pages of the alerts are.
const RUNBOOKS: &str = "https://github.com/medley-dev/medley/blob/main/docs/runbooks";

/// Something that somebody should be told about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// What it is called.
    pub name: &'static str,
    /// When it is so, in PromQL.
    pub expression: &'static str,
    /// For how long it has to be so. Absent where the expression itself is about a long time.
    pub lasting: Option<&'static str>,
    /// How bad it is.
    pub severity: Severity,
    /// What is the matter, in a line.
    pub summary: &'static str,
    /// What is the matter, and where to look first.
    pub description: &'static str,
}

/// How bad an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Somebody should look today.
    Warning,
    /// Somebody should look when there is time.
    Info,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

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
        summary: "{{ $labels.config }} is not in force as it was applied.",
        description: "{{ $value }} fields differ from what VirtPlatformConfig {{ $labels.config }} applied, for 15 minutes. `medley explain {{ $labels.config }}` says which, and who changed them.",
    },
    Alert {
        name: "MedleyGovernanceEnforcementPaused",
        expression: "medley_governance_enforcement_paused == 1",
        lasting: None,
        severity: Severity::Warning,
        summary: "Somebody else always changes back what {{ $labels.config }} applies.",
        description: "VirtPlatformConfig {{ $labels.config }} bypasses locks and corrected drift again and again. It has given up. `medley explain {{ $labels.config }}` says who changes it.",
    },
    Alert {
        name: "MedleyGovernancePlanWaiting",
        expression: "time() - medley_governance_plan_timestamp_seconds > 7 * 24 * 3600",
        lasting: None,
        severity: Severity::Info,
        summary: "The plan of {{ $labels.config }} has been waiting for a week.",
        description: "The plan of VirtPlatformConfig {{ $labels.config }} came about {{ $value | humanizeDuration }} ago, and is neither carried out nor refused. `medley explain {{ $labels.config }}` says what it waits for.",
    },
    Alert {
        name: "MedleyGovernanceFailed",
        expression: "medley_governance_phase{phase=~\"Failed|PrerequisiteFailed\"} == 1",
        lasting: Some("15m"),
        severity: Severity::Warning,
        summary: "{{ $labels.config }} is {{ $labels.phase }}.",
        description: "VirtPlatformConfig {{ $labels.config }} is {{ $labels.phase }} for 15 minutes. `medley explain {{ $labels.config }}` says why.",
    },
    Alert {
        name: "MedleyReconcileErrors",
        expression: "sum by (controller) (rate(medley_reconcile_total{result=~\"error|panic\"}[5m])) > 0",
        lasting: Some("15m"),
        severity: Severity::Warning,
        summary: "The controller {{ $labels.controller }} does not get on with its work.",
        description: "The controller {{ $labels.controller }} has failed at something for 15 minutes, and tries again. The log of the operator says at what.",
    },
];

impl Alert {
    /// Where it is written what to do.
    pub fn runbook_url(&self) -> String {
        format!("{RUNBOOKS}/{}.md", self.name)
    }

    fn rule(&self) -> Value {
        let mut rule = json!({
            "alert": self.name,
            "expr": self.expression,
            "labels": { "severity": self.severity.as_str() },
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": self.runbook_url(),
            },
        });
        if let Some(lasting) = self.lasting {
            rule["for"] = json!(lasting);
        }
        rule
    }
}

/// The names of the metrics that an expression looks at.
pub fn metrics(expression: &str) -> Vec<&str> {
    let part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    expression
        .split(|letter| !part(letter))
        .filter(|word| word.starts_with("medley_"))
        .collect()
}

/// The alerts as the operator of Prometheus takes them.
pub fn prometheus_rule(namespace: &str) -> Value {
    let rules: Vec<_> = ALERTS.iter().map(Alert::rule).collect();
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "medley",
            "namespace": namespace,
            "labels": { "app.kubernetes.io/part-of": "medley" },
        },
        "spec": { "groups": [{ "name": "medley", "rules": rules }] },
    })
}

/// What tells the operator of Prometheus where the metrics are: at the port `metrics` of the pods
/// with these labels.
pub fn pod_monitor(name: &str, namespace: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { "app.kubernetes.io/part-of": "medley" },
        },
        "spec": {
            "selector": { "matchLabels": labels },
            "podMetricsEndpoints": [{ "port": "metrics", "path": "/metrics" }],
        },
    })
}
