//! Taints from conditions.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{Expulsion, NOT_READY, UNREACHABLE, wanted};

fn node(spec: &Value, conditions: &[(&str, &str)]) -> Node {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|(type_, status)| json!({ "type": type_, "status": status }))
        .collect();
    serde_json::from_value(json!({ "spec": spec, "status": { "conditions": conditions } })).unwrap()
}

fn after(node: &Node, expulsion: Expulsion) -> Option<Vec<String>> {
    let now: Time = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
    let taints = wanted(node, expulsion, &now)?;
    let text = taints.iter().map(|taint| {
        let key = taint.key.trim_start_matches("node.kubernetes.io/");
        format!("{key}:{}", taint.effect)
    });
    Some(text.collect())
}

#[rstest::rstest]
#[case::well(&[("Ready", "True")], Expulsion::None, None)]
#[case::not_ready(&[("Ready", "False")], Expulsion::Taint(NOT_READY), Some(&["not-ready:NoSchedule", "not-ready:NoExecute"][..]))]
#[case::unreachable(&[("Ready", "Unknown")], Expulsion::Taint(UNREACHABLE), Some(&["unreachable:NoSchedule", "unreachable:NoExecute"][..]))]
#[case::waiting_for_its_turn(&[("Ready", "Unknown")], Expulsion::Leave, Some(&["unreachable:NoSchedule"][..]))]
#[case::pressure(
    &[("Ready", "True"), ("MemoryPressure", "True"), ("DiskPressure", "True"), ("PIDPressure", "True"), ("NetworkUnavailable", "True")],
    Expulsion::None,
    Some(&["memory-pressure:NoSchedule", "disk-pressure:NoSchedule", "network-unavailable:NoSchedule", "pid-pressure:NoSchedule"][..])
)]
fn conditions_become_taints(
    #[case] conditions: &[(&str, &str)],
    #[case] expulsion: Expulsion,
    #[case] expected: Option<&[&str]>,
) {
    let taints = after(&node(&json!({}), conditions), expulsion);
    assert_eq!(
        taints.as_deref(),
        expected
            .map(|it| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
            .as_deref()
    );
}

#[test]
fn recovered_node_keeps_foreign_taints_only() {
    let node = node(
        &json!({ "taints": [
            { "key": "gpu", "effect": "NoExecute" },
            { "key": UNREACHABLE, "effect": "NoSchedule" },
            { "key": UNREACHABLE, "effect": "NoExecute" },
            { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" },
        ] }),
        &[("Ready", "True")],
    );
    assert_eq!(
        after(&node, Expulsion::None),
        Some(vec!["gpu:NoExecute".to_owned()])
    );
}

#[test]
fn cordoned_node_is_tainted_and_existing_taints_keep_their_time() {
    let cordoned = node(&json!({ "unschedulable": true }), &[("Ready", "True")]);
    let expected = vec!["unschedulable:NoSchedule".to_owned()];
    assert_eq!(after(&cordoned, Expulsion::None), Some(expected));
    let done = node(
        &json!({
            "unschedulable": true,
            "taints": [{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z" }],
        }),
        &[("Ready", "True")],
    );
    assert_eq!(after(&done, Expulsion::None), None);
}

#[test]
fn reachable_unready_node_swaps_its_taint() {
    let node = node(
        &json!({ "taints": [{ "key": UNREACHABLE, "effect": "NoExecute" }] }),
        &[("Ready", "False")],
    );
    let expected = ["not-ready:NoSchedule", "not-ready:NoExecute"].map(str::to_owned);
    assert_eq!(
        after(&node, Expulsion::Taint(NOT_READY)),
        Some(expected.to_vec())
    );
}
