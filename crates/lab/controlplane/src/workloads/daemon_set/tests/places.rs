//! Selection of nodes for a DaemonSet.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rstest::rstest;
use runtime::{Change, Key};
use serde_json::{Value, json};

use super::{node, pod, set};
use crate::workloads::daemon_set::places::{Atlas, Demands, NodeVerdict, matters};
use crate::workloads::daemon_set::template;

fn taint(key: &str, effect: &str) -> Value {
    json!([{ "key": key, "effect": effect }])
}

#[rstest]
#[case::any_node(json!({}), json!({}), json!([]), NodeVerdict::Run)]
#[case::label(json!({ "nodeSelector": { "disk": "ssd" } }), json!({ "disk": "ssd" }), json!([]), NodeVerdict::Run)]
#[case::no_label(json!({ "nodeSelector": { "disk": "ssd" } }), json!({}), json!([]), NodeVerdict::Leave)]
#[case::affinity(
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "arch", "operator": "In", "values": ["s390x"] }] }],
    }}}}),
    json!({ "arch": "amd64" }), json!([]), NodeVerdict::Leave
)]
#[case::another_node(json!({ "nodeName": "other" }), json!({}), json!([]), NodeVerdict::Leave)]
#[case::this_node(json!({ "nodeName": "here" }), json!({}), json!([]), NodeVerdict::Run)]
#[case::not_ready(json!({}), json!({}), taint("node.kubernetes.io/not-ready", "NoExecute"), NodeVerdict::Run)]
#[case::unreachable(json!({}), json!({}), taint("node.kubernetes.io/unreachable", "NoExecute"), NodeVerdict::Run)]
#[case::disk(json!({}), json!({}), taint("node.kubernetes.io/disk-pressure", "NoSchedule"), NodeVerdict::Run)]
#[case::memory(json!({}), json!({}), taint("node.kubernetes.io/memory-pressure", "NoSchedule"), NodeVerdict::Run)]
#[case::pid(json!({}), json!({}), taint("node.kubernetes.io/pid-pressure", "NoSchedule"), NodeVerdict::Run)]
#[case::cordoned(json!({}), json!({}), taint("node.kubernetes.io/unschedulable", "NoSchedule"), NodeVerdict::Run)]
#[case::no_network(json!({}), json!({}), taint("node.kubernetes.io/network-unavailable", "NoSchedule"), NodeVerdict::Stay)]
#[case::no_network_needed(
    json!({ "hostNetwork": true }), json!({}),
    taint("node.kubernetes.io/network-unavailable", "NoSchedule"), NodeVerdict::Run
)]
#[case::not_to_be_put_there(json!({}), json!({}), taint("dedicated", "NoSchedule"), NodeVerdict::Stay)]
#[case::to_be_driven_away(json!({}), json!({}), taint("dedicated", "NoExecute"), NodeVerdict::Leave)]
#[case::better_not(json!({}), json!({}), taint("dedicated", "PreferNoSchedule"), NodeVerdict::Run)]
#[case::tolerated(
    json!({ "tolerations": [{ "operator": "Exists" }] }), json!({}), taint("dedicated", "NoExecute"),
    NodeVerdict::Run
)]
fn nodes_are_judged_by_taints_and_affinity(
    #[case] spec: Value,
    #[case] labels: Value,
    #[case] taints: Value,
    #[case] expected: NodeVerdict,
) {
    let mut pod = json!({ "containers": [{ "name": "agent", "image": "one" }] });
    for (key, value) in spec.as_object().unwrap() {
        pod[key] = value.clone();
    }
    let set = set(&json!({ "/spec/template/spec": pod }));
    let verdict = Demands::of(&set).judge_node(&node("here", &labels, &taints));
    assert_eq!(verdict, expected);
}

#[test]
fn heartbeats_are_ignored() {
    let before = node("a", &json!({ "x": "y" }), &json!([]));
    let mut after = before.clone();
    after.status = serde_json::from_value(json!({
        "conditions": [{ "type": "Ready", "status": "True" }]
    }))
    .unwrap();
    assert!(!matters(&before, &after));
    assert!(matters(&before, &node("a", &json!({}), &json!([]))));
    assert!(matters(
        &before,
        &node("a", &json!({ "x": "y" }), &taint("t", "NoExecute"))
    ));
}

#[test]
fn node_change_enqueues_only_affected_sets() {
    let change = |old: Option<Node>, new: Option<Node>| Change {
        old: old.map(Arc::new),
        new: new.map(Arc::new),
    };
    let mut atlas = Atlas::default();
    let everywhere = set(&json!({}));
    let picky = set(&json!({
        "/metadata/name": "picky",
        "/spec/template/spec/nodeSelector": { "disk": "ssd" },
    }));
    assert!(atlas.verdicts(&everywhere).is_empty());
    assert!(atlas.verdicts(&picky).is_empty());
    let (key, picky_key) = (Key::new("ops", "agent"), Key::new("ops", "picky"));
    let plain = node("a", &json!({}), &json!([]));
    let labelled = node("a", &json!({ "disk": "ssd" }), &json!([]));
    let mut heard = atlas.note(&change(None, Some(plain.clone())));
    heard.sort();
    assert_eq!(heard, [key.clone(), picky_key.clone()]);
    assert_eq!(atlas.verdicts(&picky)["a"], NodeVerdict::Leave);
    let heard = atlas.note(&change(Some(plain.clone()), Some(labelled.clone())));
    assert_eq!(heard, [picky_key]);
    assert_eq!(atlas.verdicts(&picky)["a"], NodeVerdict::Run);
    assert_eq!(atlas.verdicts(&everywhere)["a"], NodeVerdict::Run);
    let heard = atlas.note(&change(Some(labelled.clone()), None));
    assert_eq!(heard.len(), 2);
    assert!(atlas.verdicts(&everywhere).is_empty());
    // Another template is evaluated anew.
    atlas.note(&change(None, Some(labelled)));
    let moved = set(&json!({
        "/metadata/generation": 3,
        "/spec/template/spec/nodeSelector": { "disk": "tape" },
    }));
    assert_eq!(atlas.verdicts(&moved)["a"], NodeVerdict::Leave);
}

#[test]
fn pods_are_pinned_to_their_node_and_tolerate_its_conditions() {
    let set = set(&json!({
        "/metadata/annotations": { "deprecated.daemonset.template.generation": "7" },
        "/spec/template/spec/tolerations": [
            { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9 },
        ],
        "/spec/template/spec/affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "x", "operator": "Exists" }] }],
            },
        }},
    }));
    let pod = template::pinned(&template::pod(&set, "abc"), "here");
    assert_eq!(template::target(&pod), Some("here"));
    let pod = serde_json::to_value(pod).unwrap();
    assert_eq!(
        pod["metadata"]["labels"],
        json!({ "app": "agent", "controller-revision-hash": "abc", "pod-template-generation": "7" })
    );
    assert_eq!(
        pod["spec"]["affinity"]["nodeAffinity"],
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
            "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["here"] }],
        }]}})
    );
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    assert_eq!(tolerations.len(), 6);
    assert_eq!(
        tolerations[0],
        json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute" })
    );
}

#[test]
fn target_node_is_known_before_and_after_binding() {
    let assigned = pod("p", "there", "h", &json!({}));
    assert_eq!(template::target(&assigned), Some("there"));
    let nowhere = pod("p", "", "h", &json!({}));
    assert_eq!(template::target(&nowhere), None);
}
