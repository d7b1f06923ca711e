//! Which pods the multiarch-tuning-operator places.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use super::MultiarchTuning;

/// As the operator registers it.
fn registration() -> Value {
    json!({
        "metadata": { "name": super::REGISTRATION },
        "webhooks": [{
            "name": "pod-placement-scheduling-gate.multiarch.openshift.io",
            "clientConfig": { "service": { "namespace": "tuning", "name": "pod-placement-web-hook" } },
            "namespaceSelector": { "matchExpressions": [
                { "key": "multiarch.openshift.io/exclude-pod-placement", "operator": "DoesNotExist" },
            ] },
        }],
    })
}

fn places(namespace: &str, labels: &[(&str, &str)], pod: &Value) -> bool {
    let tuning = MultiarchTuning::read(&registration()).unwrap();
    let labels = labels.iter();
    let labels: BTreeMap<String, String> = labels
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    tuning.places(namespace, &labels, pod)
}

#[rstest]
#[case::plain(json!({}), true)]
#[case::of_a_replica_set(json!({ "metadata": { "ownerReferences": [{ "kind": "ReplicaSet", "controller": true }] } }), true)]
#[case::of_a_daemon_set(json!({ "metadata": { "ownerReferences": [{ "kind": "DaemonSet", "controller": true }] } }), false)]
#[case::for_control_plane_nodes(json!({ "spec": { "nodeSelector": { "node-role.kubernetes.io/control-plane": "" } } }), false)]
#[case::for_masters(json!({ "spec": { "nodeSelector": { "node-role.kubernetes.io/master": "" } } }), false)]
#[case::of_one_architecture(json!({ "spec": { "nodeSelector": { "kubernetes.io/arch": "arm64" } } }), true)]
fn pods_of_selected_namespaces_are_placed(#[case] pod: Value, #[case] expected: bool) {
    assert_eq!(places("shop", &[], &pod), expected);
}

#[test]
fn excluded_and_own_namespaces_are_left_alone() {
    let excluded = [("multiarch.openshift.io/exclude-pod-placement", "")];
    assert!(!places("shop", &excluded, &json!({})));
    assert!(!places("tuning", &[], &json!({})));
}

/// A pod that was gated before its namespace was excluded still waits for the operator.
#[test]
fn gated_pod_is_placed_in_every_namespace() {
    let excluded = [("multiarch.openshift.io/exclude-pod-placement", "")];
    let gate = json!({ "name": "multiarch.openshift.io/scheduling-gate" });
    let pod = json!({ "spec": { "schedulingGates": [{ "name": "example.com/other" }, gate] } });
    assert!(places("shop", &excluded, &pod));
}

#[test]
fn other_registrations_mean_nothing() {
    let mut other = registration();
    other["webhooks"][0]["name"] = json!("webhook.example.com");
    for registration in [other, json!({}), json!({ "webhooks": [] })] {
        assert_eq!(MultiarchTuning::read(&registration), None);
    }
}
