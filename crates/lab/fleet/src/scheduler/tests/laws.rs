//! Properties: decisions agree with a naive model under any sequence of changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{cluster, node, pod};
use crate::scheduler::decide::decide;
use crate::scheduler::pod::PodInfo;

#[derive(Debug, Clone)]
struct SomeNode {
    zone: u8,
    cpu: u8,
    pods: u8,
    tainted: bool,
    cordoned: bool,
}

#[derive(Debug, Clone)]
struct SomePod {
    app: u8,
    cpu: u8,
    zone: Option<u8>,
    tolerates: bool,
    apart_from: Option<u8>,
    apart_by_zone: bool,
    port: Option<u8>,
}

#[derive(Debug, Clone)]
enum Step {
    Come(SomePod),
    Go(usize),
    Cordon(usize, bool),
}

fn some_node() -> impl Strategy<Value = SomeNode> {
    (
        0..2u8,
        1..5u8,
        1..5u8,
        any::<bool>(),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(zone, cpu, pods, tainted, cordoned)| SomeNode {
            zone,
            cpu,
            pods,
            tainted,
            cordoned,
        })
}

fn some_pod() -> impl Strategy<Value = SomePod> {
    (
        0..3u8,
        0..4u8,
        prop::option::weighted(0.3, 0..2u8),
        any::<bool>(),
        prop::option::weighted(0.3, 0..3u8),
        any::<bool>(),
        prop::option::weighted(0.2, 0..2u8),
    )
        .prop_map(
            |(app, cpu, zone, tolerates, apart_from, apart_by_zone, port)| SomePod {
                app,
                cpu,
                zone,
                tolerates,
                apart_from,
                apart_by_zone,
                port,
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => some_pod().prop_map(Step::Come),
        2 => (0..20usize).prop_map(Step::Go),
        1 => (0..6usize, any::<bool>()).prop_map(|(node, cordoned)| Step::Cordon(node, cordoned)),
    ]
}

fn real_node(index: usize, node_is: &SomeNode) -> k8s_openapi::api::core::v1::Node {
    let taints = node_is
        .tainted
        .then(|| json!([{ "key": "t", "effect": "NoSchedule" }]));
    let more = json!({
        "spec": { "taints": taints, "unschedulable": node_is.cordoned },
        "status": { "allocatable": {
            "cpu": node_is.cpu.to_string(), "memory": "1Gi", "pods": node_is.pods.to_string(),
        }},
    });
    let labels = json!({ "zone": node_is.zone.to_string() });
    node(&format!("n{index}"), &labels, &more)
}

fn real_pod(index: usize, it: &SomePod) -> Arc<PodInfo> {
    let mut spec = json!({ "containers": [{
        "name": "c", "resources": { "requests": { "cpu": it.cpu.to_string() } },
        "ports": it.port.map(|port| json!([{ "containerPort": 80, "hostPort": 8000 + u32::from(port) }])),
    }]});
    if let Some(zone) = it.zone {
        spec["nodeSelector"] = json!({ "zone": zone.to_string() });
    }
    if it.tolerates {
        spec["tolerations"] = json!([{ "key": "t", "operator": "Exists" }]);
    }
    if let Some(app) = it.apart_from {
        let key = if it.apart_by_zone {
            "zone"
        } else {
            "kubernetes.io/hostname"
        };
        spec["affinity"] = json!({ "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": key, "labelSelector": { "matchLabels": { "app": app.to_string() } } },
        ]}});
    }
    pod(
        &format!("p{index}"),
        &json!({ "app": it.app.to_string() }),
        &spec,
    )
}

/// Whether a pod may be on a node, given the placement of all others.
fn may(
    nodes: &[SomeNode],
    placed: &BTreeMap<usize, (SomePod, usize)>,
    it: &SomePod,
    at: usize,
) -> bool {
    let node = &nodes[at];
    let here: Vec<&SomePod> = placed
        .values()
        .filter(|(_, on)| *on == at)
        .map(|(pod, _)| pod)
        .collect();
    let near = |by_zone: bool, other: usize| {
        if by_zone {
            nodes[other].zone == node.zone
        } else {
            other == at
        }
    };
    let cpu: u32 = here.iter().map(|pod| u32::from(pod.cpu)).sum();
    !node.cordoned
        && (!node.tainted || it.tolerates)
        && it.zone.is_none_or(|zone| zone == node.zone)
        && here.len() < usize::from(node.pods)
        && (it.cpu == 0 || cpu + u32::from(it.cpu) <= u32::from(node.cpu))
        && it
            .port
            .is_none_or(|port| here.iter().all(|pod| pod.port != Some(port)))
        && placed.values().all(|(other, on)| {
            let i_mind = it.apart_from == Some(other.app) && near(it.apart_by_zone, *on);
            let they_mind = other.apart_from == Some(it.app) && near(other.apart_by_zone, *on);
            !i_mind && !they_mind
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A pod gets a node exactly when there is a feasible one, and then a feasible one.
    #[test]
    fn decisions_agree_with_the_model(
        mut nodes in prop::collection::vec(some_node(), 1..6),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let all: Vec<_> = nodes.iter().enumerate().map(|(index, node)| real_node(index, node)).collect();
        let mut cluster = cluster(&all);
        let mut placed: BTreeMap<usize, (SomePod, usize)> = BTreeMap::new();
        for (index, step) in steps.into_iter().enumerate() {
            match step {
                Step::Come(it) => {
                    let pod = real_pod(index, &it);
                    let possible: Vec<usize> = (0..nodes.len()).filter(|at| may(&nodes, &placed, &it, *at)).collect();
                    match decide(&mut cluster, &pod) {
                        Ok(found) => {
                            let at: usize = found.node[1..].parse().expect("a number");
                            prop_assert!(possible.contains(&at), "{it:?} on {at}, not one of {possible:?}");
                            cluster.place(&pod, &found.node);
                            placed.insert(index, (it, at));
                        }
                        Err(unfit) => prop_assert!(possible.is_empty(), "{it:?} could be on {possible:?}: {unfit}"),
                    }
                }
                Step::Go(which) => {
                    let Some(key) = placed.keys().nth(which).copied() else { continue };
                    placed.remove(&key);
                    cluster.remove(&format!("p{key}"));
                }
                Step::Cordon(at, cordoned) => {
                    let Some(node) = nodes.get_mut(at) else { continue };
                    node.cordoned = cordoned;
                    cluster.set_node(&real_node(at, node));
                }
            }
        }
    }

    /// After any sequence of additions and removals the counters match the placed pods.
    #[test]
    fn counters_match_placed_pods(
        nodes in prop::collection::vec(some_node(), 1..4),
        steps in prop::collection::vec((some_pod(), 0..6usize, 0..4usize, any::<bool>()), 0..40),
    ) {
        let all: Vec<_> = nodes.iter().enumerate().map(|(index, node)| real_node(index, node)).collect();
        let mut cluster = cluster(&all);
        let mut there: BTreeMap<usize, (SomePod, usize)> = BTreeMap::new();
        for (it, which, at, comes) in steps {
            // Pods may be placed on nodes that are not known yet.
            if comes {
                cluster.place(&real_pod(which, &it), &format!("n{at}"));
                there.insert(which, (it, at));
            } else {
                cluster.remove(&format!("p{which}"));
                there.remove(&which);
            }
        }
        for (at, node) in nodes.iter().enumerate() {
            cluster.remove_node(&format!("n{at}"));
            cluster.set_node(&real_node(at, node));
            let info = cluster.node(&format!("n{at}")).expect("the node");
            let here: Vec<_> = there.values().filter(|(_, on)| *on == at).collect();
            let cpu: i64 = here.iter().map(|(pod, _)| 1000 * i64::from(pod.cpu)).sum();
            prop_assert_eq!(info.pods.len(), here.len());
            prop_assert_eq!(info.used.cpu, cpu);
            prop_assert_eq!(info.ports.len(), here.iter().filter(|(pod, _)| pod.port.is_some()).count());
        }
    }
}
