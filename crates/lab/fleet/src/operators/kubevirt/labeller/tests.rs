use k8s_openapi::api::core::v1::Node;
use rstest::rstest;
use serde_json::{Value, json};

use super::{has_handler, wanted};
use crate::operators::kubevirt::config::Config;

fn node(value: Value) -> Node {
    let mut value = value;
    value["metadata"]["name"] = json!("n");
    value["metadata"]["annotations"]["fleet.medley.dev/simulated"] = json!("true");
    serde_json::from_value(value).expect("a node")
}

#[rstest]
#[case::plain(json!({}), true)]
#[case::arm(json!({ "metadata": { "labels": { "kubernetes.io/arch": "arm64" } } }), true)]
#[case::power(json!({ "metadata": { "labels": { "kubernetes.io/arch": "ppc64le" } } }), false)]
#[case::windows(json!({ "metadata": { "labels": { "kubernetes.io/os": "windows" } } }), false)]
#[case::control(json!({ "spec": { "taints": [{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }] } }), false)]
#[case::tainted(json!({ "spec": { "taints": [{ "key": "gpu", "effect": "NoSchedule" }] } }), true)]
fn only_linux_workers_run_virt_handler(#[case] value: Value, #[case] expected: bool) {
    assert_eq!(has_handler(&node(value)), expected);
}

#[test]
fn real_nodes_are_not_labelled() {
    let mut node = node(json!({}));
    node.metadata.annotations = None;
    assert!(!has_handler(&node));
}

#[test]
fn labels_follow_the_cpu_annotation() {
    let node = node(json!({ "metadata": { "annotations": { "fleet.medley.dev/cpu": "milan" } } }));
    let labels = wanted(&node, &Config::default());
    assert!(labels.contains_key("cpu-model.node.kubevirt.io/EPYC-Milan"));
    assert!(labels.contains_key("cpu-vendor.node.kubevirt.io/AMD"));
    assert_eq!(
        labels.get("kubevirt.io/schedulable").map(String::as_str),
        Some("true")
    );
}

#[rstest]
// The value does not matter.
#[case(json!({ "fleet.medley.dev/cpu": "milan", "node-labeller.kubevirt.io/skip-node": "false" }), None)]
// No CPU is known.
#[case(json!({ "fleet.medley.dev/cpu": "pentium9" }), Some("machine-type.node.kubevirt.io/q35"))]
#[case(json!({}), Some("machine-type.node.kubevirt.io/q35"))]
fn skipped_node_keeps_its_labels(#[case] annotations: Value, #[case] machine: Option<&str>) {
    let own = json!({ "cpu-model.node.kubevirt.io/Mine": "true" });
    let node = node(json!({ "metadata": { "annotations": annotations, "labels": own } }));
    let labels: Vec<String> = wanted(&node, &Config::default()).into_keys().collect();
    let expected = ["cpu-model.node.kubevirt.io/Mine", "kubevirt.io/schedulable"];
    assert_eq!(
        labels,
        expected.into_iter().chain(machine).collect::<Vec<_>>()
    );
}
