//! Plans for the pods of a DaemonSet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{now, pod, set};
use crate::workloads::daemon_set::decide::{DaemonSetInputs, Plan, decide, status};
use crate::workloads::daemon_set::places::{NodeVerdict, Verdicts};

const NOT_READY: &str = "/status/conditions";

fn nodes(verdicts: &[(&str, NodeVerdict)]) -> Verdicts {
    verdicts
        .iter()
        .map(|(name, verdict)| (Arc::from(*name), *verdict))
        .collect()
}

fn plan(set: &DaemonSet, nodes: &Verdicts, pods: &[Arc<Pod>]) -> Plan {
    let inputs = DaemonSetInputs {
        set,
        hash: "new",
        nodes,
        pods,
        now: now(),
    };
    decide(&inputs, |_| None)
}

/// Nodes that get pods, and pods to delete.
fn summary(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
    let names = plan
        .delete
        .iter()
        .map(|pod| pod.metadata.name.as_deref().unwrap());
    (
        plan.create.iter().map(|node| &**node).collect(),
        names.collect(),
    )
}

fn surging() -> DaemonSet {
    set(&json!({ "/spec/updateStrategy/rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } }))
}

#[test]
fn every_matching_node_gets_one_pod() {
    let nodes = nodes(&[
        ("a", NodeVerdict::Run),
        ("b", NodeVerdict::Run),
        ("c", NodeVerdict::Stay),
        ("d", NodeVerdict::Leave),
        ("e", NodeVerdict::Stay),
    ]);
    let pods = [
        pod("a1", "a", "new", &json!({})),
        pod("c1", "c", "new", &json!({})),
        pod("d1", "d", "new", &json!({})),
    ];
    assert_eq!(
        summary(&plan(&set(&json!({})), &nodes, &pods)),
        (vec!["b"], vec!["d1"])
    );
}

#[test]
fn oldest_of_several_pods_stays() {
    let younger = json!({ "/metadata/creationTimestamp": "2026-01-01T11:00:00Z" });
    let pods = [
        pod("young", "a", "new", &younger),
        pod("old", "a", "new", &json!({})),
    ];
    let nodes = nodes(&[("a", NodeVerdict::Run)]);
    assert_eq!(
        summary(&plan(&set(&json!({})), &nodes, &pods)),
        (vec![], vec!["young"])
    );
}

#[test]
fn terminating_pod_blocks_its_node() {
    let ending = json!({ "/metadata/deletionTimestamp": super::NOW });
    let pods = [pod("p", "a", "new", &ending.clone())];
    let nodes = nodes(&[("a", NodeVerdict::Run)]);
    assert_eq!(plan(&set(&json!({})), &nodes, &pods), Plan::default());
    assert_eq!(
        summary(&plan(&surging(), &nodes, &pods)),
        (vec!["a"], vec![])
    );
    let mut ended = ending;
    ended["/status/phase"] = json!("Failed");
    let pods = [pod("p", "a", "new", &ended)];
    assert_eq!(
        summary(&plan(&set(&json!({})), &nodes, &pods)),
        (vec!["a"], vec![])
    );
}

#[test]
fn failed_pods_are_replaced_after_backoff() {
    let pods = [
        pod("failed", "a", "new", &json!({ "/status/phase": "Failed" })),
        pod("done", "b", "new", &json!({ "/status/phase": "Succeeded" })),
    ];
    let (set, nodes) = (
        set(&json!({})),
        nodes(&[("a", NodeVerdict::Run), ("b", NodeVerdict::Run)]),
    );
    let inputs = DaemonSetInputs {
        set: &set,
        hash: "new",
        nodes: &nodes,
        pods: &pods,
        now: now(),
    };
    let at_once = decide(&inputs, |_| None);
    assert_eq!(summary(&at_once), (vec![], vec!["failed", "done"]));
    assert_eq!(at_once.ended.len(), 2);
    let later = decide(&inputs, |_| Some(Duration::from_secs(4)));
    assert_eq!(summary(&later), (vec![], vec!["done"]));
    assert_eq!(later.next_look, Some(Duration::from_secs(4)));
}

#[test]
fn pods_for_deleted_nodes_are_deleted() {
    let pinned = json!({ "/spec": {
        "containers": [],
        "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchFields": [
                { "key": "metadata.name", "operator": "In", "values": ["gone"] },
            ]}],
        }}},
    }});
    let pods = [
        pod("waiting", "", "new", &pinned),
        pod("bound", "gone", "new", &json!({})),
    ];
    assert_eq!(
        summary(&plan(&set(&json!({})), &nodes(&[]), &pods)),
        (vec![], vec!["waiting"])
    );
}

#[rstest]
#[case::one_at_a_time(json!({}), json!({}), &["a1"])]
#[case::half(json!({ "maxUnavailable": "50%" }), json!({}), &["a1", "b1"])]
#[case::nothing_allowed_means_one(json!({ "maxUnavailable": 0 }), json!({}), &["a1"])]
#[case::broken_ones_do_not_count_but_use_up(json!({}), json!({ NOT_READY: [] }), &["d1"])]
#[case::broken_ones_first(json!({ "maxUnavailable": 2 }), json!({ NOT_READY: [] }), &["d1", "a1"])]
fn rolling_update_replaces_old_pods(
    #[case] rolling: Value,
    #[case] last: Value,
    #[case] expected: &[&str],
) {
    let mut update = json!({ "maxUnavailable": 1, "maxSurge": 0 });
    for (key, value) in rolling.as_object().unwrap() {
        update[key] = value.clone();
    }
    let set = set(&json!({ "/spec/updateStrategy/rollingUpdate": update }));
    let nodes = nodes(&["a", "b", "c", "d"].map(|name| (name, NodeVerdict::Run)));
    let pods = [
        pod("a1", "a", "old", &json!({})),
        pod("b1", "b", "old", &json!({})),
        pod("c1", "c", "new", &json!({})),
        pod("d1", "d", "old", &last),
    ];
    assert_eq!(
        summary(&plan(&set, &nodes, &pods)),
        (vec![], expected.to_vec())
    );
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let set = set(&json!({ "/spec/updateStrategy": { "type": "OnDelete" } }));
    let pods = [pod("a1", "a", "old", &json!({}))];
    assert_eq!(
        plan(&set, &nodes(&[("a", NodeVerdict::Run)]), &pods),
        Plan::default()
    );
}

#[test]
fn surge_adds_new_pods_before_removing_old_ones() {
    let both = nodes(&[("a", NodeVerdict::Run), ("b", NodeVerdict::Run)]);
    let old = [
        pod("a1", "a", "old", &json!({})),
        pod("b1", "b", "old", &json!({})),
    ];
    assert_eq!(summary(&plan(&surging(), &both, &old)), (vec!["a"], vec![]));
    let mut pods = old.to_vec();
    pods.push(pod("a2", "a", "new", &json!({ NOT_READY: [] })));
    assert_eq!(plan(&surging(), &both, &pods), Plan::default());
    pods[2] = pod("a2", "a", "new", &json!({}));
    assert_eq!(
        summary(&plan(&surging(), &both, &pods)),
        (vec![], vec!["a1"])
    );
}

#[test]
fn status_counts_nodes() {
    let nodes = nodes(&[
        ("a", NodeVerdict::Run),
        ("b", NodeVerdict::Run),
        ("c", NodeVerdict::Run),
        ("d", NodeVerdict::Stay),
        ("e", NodeVerdict::Leave),
    ]);
    let pods = [
        pod("a1", "a", "new", &json!({})),
        pod("b1", "b", "old", &json!({ NOT_READY: [] })),
        pod("d1", "d", "new", &json!({})),
    ];
    let set = set(&json!({}));
    let inputs = DaemonSetInputs {
        set: &set,
        hash: "new",
        nodes: &nodes,
        pods: &pods,
        now: now(),
    };
    assert_eq!(
        serde_json::to_value(status(&inputs)).unwrap(),
        json!({
            "desiredNumberScheduled": 3,
            "currentNumberScheduled": 2,
            "numberMisscheduled": 1,
            "numberReady": 1,
            "numberAvailable": 1,
            "numberUnavailable": 2,
            "updatedNumberScheduled": 1,
            "observedGeneration": 2,
        })
    );
}

/// Applies a plan: pods are deleted at once, new ones are available if `ready`.
fn apply(plan: &Plan, pods: &mut Vec<Arc<Pod>>, count: &mut usize, ready: bool) {
    pods.retain(|pod| !plan.delete.iter().any(|gone| Arc::ptr_eq(gone, pod)));
    for node in &plan.create {
        *count += 1;
        let change = if ready {
            json!({})
        } else {
            json!({ NOT_READY: [] })
        };
        pods.push(pod(&format!("n{count}"), node, "new", &change));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// From any state every node ends up with the one pod it should have, and the plan is empty. On
    /// the way no more pods are missing than the set allows, if none was missing before.
    #[test]
    fn plans_converge_within_bounds(
        verdicts in prop::collection::vec(0u8..3, 1..12),
        unavailable in 1i32..4,
        surge in 0i32..3,
    ) {
        let set = set(&json!({ "/spec/updateStrategy/rollingUpdate": {
            "maxUnavailable": if surge > 0 { 0 } else { unavailable }, "maxSurge": surge,
        }}));
        let names: Vec<String> = (0..verdicts.len()).map(|number| format!("node{number:02}")).collect();
        let nodes: Verdicts = names.iter().zip(&verdicts).map(|(name, verdict)| {
            let verdict = [NodeVerdict::Run, NodeVerdict::Stay, NodeVerdict::Leave][usize::from(*verdict)];
            (Arc::from(name.as_str()), verdict)
        }).collect();
        let run: BTreeSet<&str> = nodes.iter()
            .filter(|(_, verdict)| **verdict == NodeVerdict::Run)
            .map(|(name, _)| &**name)
            .collect();
        let mut pods: Vec<Arc<Pod>> = run.iter().map(|node| pod(node, node, "old", &json!({}))).collect();
        let mut count = 0;
        for _ in 0..100 {
            let next = plan(&set, &nodes, &pods);
            if next == Plan::default() {
                break;
            }
            let before = pods.len();
            apply(&next, &mut pods, &mut count, true);
            let allowed = if surge > 0 { 0 } else { usize::try_from(unavailable).unwrap() };
            prop_assert!(pods.len() + allowed >= run.len().min(before));
            prop_assert!(pods.len() <= run.len() + usize::try_from(surge).unwrap());
        }
        prop_assert_eq!(plan(&set, &nodes, &pods), Plan::default());
        let there: BTreeSet<&str> = pods.iter()
            .map(|pod| pod.spec.as_ref().unwrap().node_name.as_deref().unwrap())
            .collect();
        prop_assert_eq!(&there, &run);
        prop_assert_eq!(pods.len(), run.len());
        let current = |pod: &Arc<Pod>| pod.metadata.labels.as_ref().unwrap()["controller-revision-hash"] == "new";
        prop_assert!(pods.iter().all(current));
    }
}
