//! Prometheus alerts for releases.

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// All alerts. Each has a `for` duration, since operators take time to update.
pub const ALERTS: [Alert; 5] = [
    Alert {
        name: "MedleyReleaseClaimedEarly",
        expression: "medley_release_claimed_early == 1",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "ClusterVersion claims completion of a release too early.",
        description: "ClusterVersion claims that the release is complete, but an operator has not reported the expected versions. Nodes of another architecture may not be able to join yet. `medley release status` names the operators.",
    },
    Alert {
        name: "MedleyReleaseNeverArrives",
        expression: "medley_release_operators{state=\"hopeless\"} > 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $value }} operators report versions that can never match the release.",
        description: "They report their image by tag, under the name of a mirror, or as a placeholder. Names are compared as strings, so waiting does not help. `medley release explain OPERATOR` lists the next steps.",
    },
    Alert {
        name: "MedleyReleaseFailing",
        expression: "medley_release_failing == 1",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "The update to the release fails or is slow.",
        description: "An operator is unavailable, has been degraded for 40 minutes, or takes longer than expected. The condition Failing of the ReleasePolicy names it.",
    },
    Alert {
        name: "MedleyReleasePayloadNotReady",
        expression: "medley_release_payload_ready == 0",
        lasting: Some("1h"),
        severity: Severity::Info,
        labels: &[],
        summary: "The files of the release are not available.",
        description: "The files are missing or invalid, so completion of the release is unknown. The condition PayloadReady of the ReleasePolicy has the reason.",
    },
    Alert {
        name: "MedleyReleaseNotOwned",
        expression: "medley_release_not_owned == 1",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "Medley does not maintain the ClusterVersion although spec.mode is Own.",
        description: "spec.mode of the ReleasePolicy is Own, but another manager writes the status of the ClusterVersion, or RBAC forbids it. Medley writes nothing there. The condition KeepsClusterVersion of the ReleasePolicy has the reason.",
    },
];

/// All alerts as a PrometheusRule for the Prometheus Operator.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley-release", namespace, &ALERTS)
}
