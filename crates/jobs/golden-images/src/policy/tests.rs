use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn read(spec: Value) -> (Policy, Vec<Complaint>) {
    Policy::read(&serde_json::from_value(spec).unwrap())
}

#[test]
fn missing_policy_equals_crd_defaults() {
    let (policy, complaints) = read(json!({}));
    assert_eq!(complaints, []);
    assert_eq!(policy, Policy::default());
    assert_eq!(policy.grace, SignedDuration::from_hours(1));
    assert_eq!(policy.jitter, SignedDuration::from_mins(5));
    assert_eq!(policy.history, 10);
    // The values that the CRD's defaults fill in equal the built-in ones.
    let filled = json!({
        "gracePeriod": "1h", "retention": { "history": 10 }, "polling": { "jitter": "5m" },
        "retry": { "initialDelay": "30s", "maxDelay": "1h" },
        "discovery": "Report", "sniffing": "Refuse", "unchangedContent": "Skip", "mode": "Auto",
    });
    assert_eq!(read(filled).0, policy);
}

#[rstest]
#[case(json!({ "gracePeriod": "soon" }), "spec.gracePeriod: \"soon\" is not a duration")]
#[case(json!({ "gracePeriod": "-1h" }), "spec.gracePeriod: \"-1h\" is not a duration")]
#[case(json!({ "polling": { "jitter": "9999h" } }), "spec.polling.jitter: \"9999h\" is not a duration")]
#[case(json!({ "defaultArchitecture": "ppc64le" }), "spec.defaultArchitecture: \"ppc64le\" is not an architecture")]
#[case(json!({ "images": [{ "name": "a", "defaultArchitecture": "vax" }] }), "spec.images[0].defaultArchitecture: \"vax\"")]
fn invalid_field_is_reported_and_ignored(#[case] spec: Value, #[case] expected: &str) {
    let (policy, complaints) = read(spec);
    assert_eq!(complaints.len(), 1);
    let message = complaints[0].to_string();
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(policy.default_architecture, None);
    assert_eq!(policy.grace, SignedDuration::from_hours(1));
    assert_eq!(policy.default_for("kubevirt-os-images", "a").image, None);
}

#[test]
fn an_image_is_found_by_namespace_and_name() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let (policy, _) = read(json!({
        "defaultArchitecture": "X86_64",
        "images": [{
            "name": "fedora", "namespace": "mine", "defaultArchitecture": "arm64",
            "pins": [{ "architecture": "arm64", "digest": digest }],
        }],
    }));
    assert_eq!(policy.default_for("mine", "fedora").image, Some("arm64"));
    assert_eq!(policy.default_for("other", "fedora").image, None);
    assert_eq!(policy.default_for("other", "fedora").cluster, Some("amd64"));
    assert_eq!(
        policy.pin_for("mine", "fedora", "arm64"),
        Some(digest.as_str())
    );
    assert_eq!(policy.pin_for("mine", "fedora", "amd64"), None);
}

#[rstest]
#[case(0, 30)]
#[case(1, 30)]
#[case(2, 60)]
#[case(3, 120)]
#[case(8, 3600)]
#[case(u32::MAX, 3600)]
fn backoff_doubles_up_to_a_limit(#[case] failures: u32, #[case] seconds: i64) {
    let wait = Policy::default().retry.after(failures);
    assert_eq!(wait, SignedDuration::from_secs(seconds));
}
