//! Pods that protect claims.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::Key;
use serde_json::{Value, json};

use super::{ProtectionStep, step, uses};

#[rstest::rstest]
#[case::running("shop", json!({ "nodeName": "n" }), "Running", true)]
#[case::ended("shop", json!({ "nodeName": "n" }), "Succeeded", true)]
#[case::not_scheduled("shop", json!({}), "Pending", false)]
#[case::elsewhere("other", json!({ "nodeName": "n" }), "Running", false)]
#[case::its_own("shop", json!({ "nodeName": "n", "volumes": [{ "name": "b", "ephemeral": {} }] }), "Running", true)]
#[case::its_own_and_ended("shop", json!({ "nodeName": "n", "volumes": [{ "name": "b", "ephemeral": {} }] }), "Failed", false)]
fn pods_protect_claims_they_use(
    #[case] namespace: &str,
    #[case] spec: Value,
    #[case] phase: &str,
    #[case] expected: bool,
) {
    let mut pod = json!({
        "metadata": { "name": "a", "namespace": namespace },
        "spec": { "containers": [], "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "a-b" } }] },
        "status": { "phase": phase },
    });
    for (key, field) in spec.as_object().unwrap() {
        pod["spec"][key] = field.clone();
    }
    let pod: Pod = serde_json::from_value(pod).unwrap();
    assert_eq!(uses(&pod, &Key::new("shop", "a-b")), expected);
}

#[rstest::rstest]
#[case::new(json!({}), ProtectionStep::Add)]
#[case::protected(json!({ "finalizers": ["f"] }), ProtectionStep::Nothing)]
#[case::leaving(json!({ "finalizers": ["f"], "deletionTimestamp": "2026-01-01T00:00:00Z" }), ProtectionStep::RemoveIfUnused)]
#[case::leaving_for_another(json!({ "finalizers": ["g"], "deletionTimestamp": "2026-01-01T00:00:00Z" }), ProtectionStep::Nothing)]
fn finalizers_follow_usage(#[case] meta: Value, #[case] expected: ProtectionStep) {
    let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
    assert_eq!(step(&meta, "f"), expected);
}
