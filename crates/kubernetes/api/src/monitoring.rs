//! Objects for the Prometheus operator: ServiceMonitors and alert rules.
//!
//! The alerts are defined in the crate of each controller; this module defines their form. Every alert
//! has a runbook: `docs/runbooks/<alert>.md`.

pub mod dashboard;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

/// The base URL of the runbooks.
const RUNBOOKS: &str = "https://github.com/medley-dev/medley/blob/main/docs/runbooks";

/// The API version of the Prometheus operator's kinds.
const API_VERSION: &str = "monitoring.coreos.com/v1";

/// An alert rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// The name of the alert.
    pub name: &'static str,
    /// The condition in PromQL.
    pub expression: &'static str,
    /// For how long the condition has to hold (`for`). Absent if the expression itself covers a long
    /// range.
    pub lasting: Option<&'static str>,
    /// The severity.
    pub severity: Severity,
    /// Labels besides the severity, for alerts that are routed by labels of another operator.
    pub labels: &'static [(&'static str, &'static str)],
    /// The summary, in one line.
    pub summary: &'static str,
    /// The problem, and where to look first.
    pub description: &'static str,
}

/// The severity of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Needs attention today.
    Warning,
    /// Needs attention when there is time.
    Info,
}

impl Severity {
    /// The value of the `severity` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

impl Alert {
    /// The URL of its runbook.
    pub fn runbook_url(&self) -> String {
        format!("{RUNBOOKS}/{}.md", self.name)
    }

    /// The metrics it uses: Medley's, and those under names of other operators.
    pub fn metrics(&self) -> Vec<&'static str> {
        metrics(self.expression)
    }

    /// The rule in Prometheus format.
    pub fn rule(&self) -> Value {
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
        for &(key, value) in self.labels {
            rule["labels"][key] = json!(value);
        }
        if let Some(lasting) = self.lasting {
            rule["for"] = json!(lasting);
        }
        rule
    }
}

/// The metrics in an expression: Medley's, and those under names of other operators.
pub fn metrics(expression: &str) -> Vec<&str> {
    let part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    expression
        .split(|letter| !part(letter))
        .filter(|word| word.starts_with("medley_") || word.starts_with("kubevirt_"))
        .collect()
}

/// A PrometheusRule with one group of the same name.
pub fn prometheus_rule(name: &str, namespace: &str, alerts: &[Alert]) -> Value {
    let rules: Vec<_> = alerts.iter().map(Alert::rule).collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": "PrometheusRule",
        "metadata": metadata(name, namespace),
        "spec": { "groups": [{ "name": name, "rules": rules }] },
    })
}

/// The path of Prometheus's own token, which it sends for Medley's metrics.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// A ServiceMonitor: metrics at this port of the Service with these labels, over TLS and with a token.
pub fn service_monitor(name: &str, namespace: &str, labels: &Value, port: &str) -> Value {
    let endpoint = json!({
        "port": port,
        "path": "/metrics",
        "scheme": "https",
        "bearerTokenFile": TOKEN,
        // The certificate is self-signed, or of a CA that only the API server knows. Deployments with
        // other certificates can set the CA here.
        "tlsConfig": { "insecureSkipVerify": true },
    });
    json!({
        "apiVersion": API_VERSION,
        "kind": "ServiceMonitor",
        "metadata": metadata(name, namespace),
        "spec": { "selector": { "matchLabels": labels }, "endpoints": [endpoint] },
    })
}

fn metadata(name: &str, namespace: &str) -> Value {
    json!({
        "name": name,
        "namespace": namespace,
        "labels": { "app.kubernetes.io/part-of": "medley" },
    })
}
