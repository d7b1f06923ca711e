//! What somebody should be told about releases.

use api::monitoring::{self, Alert, Severity};
use serde_json::Value;

/// All alerts. They wait before they tell: operators take their time.
pub const ALERTS: [Alert; 5] = [
    Alert {
        name: "MedleyReleaseClaimedEarly",
        expression: "medley_release_claimed_early == 1",
        lasting: Some("15m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "The cluster claims to have arrived at a release, and has not.",
        description: "ClusterVersion says that the release is complete, but an operator has not reported what the release wants. Nodes of another architecture may not be able to join yet. `medley release status` names the operators.",
    },
    Alert {
        name: "MedleyReleaseNeverArrives",
        expression: "medley_release_operators{state=\"hopeless\"} > 0",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "{{ $value }} operators report what will never be what the release wants.",
        description: "They report their image by tag, under the name of a mirror, or as a placeholder. Names are compared to the letter, so that waiting does not help. `medley release explain OPERATOR` says what does.",
    },
    Alert {
        name: "MedleyReleaseFailing",
        expression: "medley_release_failing == 1",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "The cluster does not get on with its release.",
        description: "An operator is unavailable, has been degraded for 40 minutes, or takes longer than it should. The condition Failing of the ReleasePolicy says which.",
    },
    Alert {
        name: "MedleyReleasePayloadNotReady",
        expression: "medley_release_payload_ready == 0",
        lasting: Some("1h"),
        severity: Severity::Info,
        labels: &[],
        summary: "It is not known what the release of the cluster consists of.",
        description: "Its files are missing or broken, so that nobody knows whether the cluster has arrived. The condition PayloadReady of the ReleasePolicy says why.",
    },
    Alert {
        name: "MedleyReleaseNotOwned",
        expression: "medley_release_not_owned == 1",
        lasting: Some("10m"),
        severity: Severity::Warning,
        labels: &[],
        summary: "Medley is to keep the ClusterVersion, and does not.",
        description: "The ReleasePolicy says Own, but somebody else writes the status of the ClusterVersion, or Medley may not. It writes nothing there. The condition KeepsClusterVersion of the ReleasePolicy says who or what is in the way.",
    },
];

/// All alerts, as the operator of Prometheus takes them.
pub fn prometheus_rule(namespace: &str) -> Value {
    monitoring::prometheus_rule("medley-release", namespace, &ALERTS)
}
