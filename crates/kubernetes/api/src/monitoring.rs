//! What Prometheus is told: where metrics are, and when somebody should hear of them.
//!
//! Which alerts there are is said in the crate of each job; this is what an alert is. Every one has a
//! page that says what it means and what to do: `docs/runbooks/<alert>.md`.

pub mod dashboard;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

/// Where the pages of the alerts are.
const RUNBOOKS: &str = "https://github.com/medley-dev/medley/blob/main/docs/runbooks";

/// The kinds of the operator of Prometheus.
const API_VERSION: &str = "monitoring.coreos.com/v1";

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
    /// Labels besides the severity, for alerts that are routed by what others attach to theirs.
    pub labels: &'static [(&'static str, &'static str)],
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
    /// As labels have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

impl Alert {
    /// Where it is written what to do.
    pub fn runbook_url(&self) -> String {
        format!("{RUNBOOKS}/{}.md", self.name)
    }

    /// The names of the metrics that it looks at, ours and those that we tell by the names of others.
    pub fn metrics(&self) -> Vec<&'static str> {
        metrics(self.expression)
    }

    /// As Prometheus takes it.
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

/// The names of metrics in an expression: of ours, and of those that we tell by the names of others.
pub fn metrics(expression: &str) -> Vec<&str> {
    let part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    expression
        .split(|letter| !part(letter))
        .filter(|word| word.starts_with("medley_") || word.starts_with("kubevirt_"))
        .collect()
}

/// Alerts as the operator of Prometheus takes them: an object and its one group, which share a name.
pub fn prometheus_rule(name: &str, namespace: &str, alerts: &[Alert]) -> Value {
    let rules: Vec<_> = alerts.iter().map(Alert::rule).collect();
    json!({
        "apiVersion": API_VERSION,
        "kind": "PrometheusRule",
        "metadata": metadata(name, namespace),
        "spec": { "groups": [{ "name": name, "rules": rules }] },
    })
}

/// Where Prometheus finds its own token, which it has to show for our metrics.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// What tells the operator of Prometheus where the metrics are: at this port of the Service with these
/// labels, by TLS and for whoever has a token.
pub fn service_monitor(name: &str, namespace: &str, labels: &Value, port: &str) -> Value {
    let endpoint = json!({
        "port": port,
        "path": "/metrics",
        "scheme": "https",
        "bearerTokenFile": TOKEN,
        // Certificates are made by the process itself, or by an authority that only the API server is told
        // of. Whoever has others says so here.
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
