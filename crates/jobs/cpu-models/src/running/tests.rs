use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::explain::{NodeReason, explain};
use crate::index::Index;
use crate::names::CPU_MANAGER_LABEL;
use crate::policy::Policy;
use crate::resources::amounts;
use crate::review::review;
use crate::test_values::{labelled, node};

fn instance(name: &str, phase: &str, model: &str) -> VirtualMachineInstance {
    serde_json::from_value(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": { "name": name, "namespace": "n", "uid": format!("uid-{name}") },
        "spec": { "architecture": "amd64", "domain": { "cpu": { "model": model } } },
        "status": { "phase": phase, "nodeName": "here" },
    }))
    .unwrap()
}

fn pod(of: &str, node: &str, selector: &Value) -> Box<Pod> {
    serde_json::from_value(json!({
        "metadata": { "name": of, "labels": { labels::CREATED_BY: format!("uid-{of}") } },
        "spec": { "nodeName": node, "nodeSelector": selector, "containers": [] },
    }))
    .unwrap()
}

#[test]
fn running_vms_carry_launcher_selectors() {
    let instances = [
        instance("b", "Running", HOST_MODEL),
        instance("a", "Running", "EPYC"),
        instance("gone", "Succeeded", "EPYC"),
    ];
    let label = "cpu-model-migration.node.kubevirt.io/EPYC-Rome";
    let pods = [
        pod("b", "elsewhere", &json!({ "x": "y" })),
        pod("b", "here", &json!({ label: "true", "x": "y" })),
        pod("a", "here", &json!({ label: "true" })),
    ];
    let found = running(&instances, &pods, &Settings::default());
    let actual: Vec<(&str, usize)> = found
        .iter()
        .map(|it| (it.machine.name.as_str(), it.carried.len()))
        .collect();
    // Carried labels are only recorded for VMs with `host-model`.
    assert_eq!(actual, [("a", 0), ("b", 1)]);
    assert_eq!(found[1].node, "here");
    assert!(found[1].carried.contains_key(label));
}

/// A pod of KubeVirt demands more than the instance: each part alone excludes all nodes but one.
#[rstest]
#[case::selector(json!({ "nodeSelector": { "kubevirt.io/cpumanager": "true" } }), "cpumanager")]
#[case::affinity(
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }],
    } } } }),
    "zone"
)]
#[case::devices(json!({ "containers": [requesting("example.com/gpu", "2")] }), "gpus")]
#[case::hugepages(json!({ "containers": [requesting("hugepages-1Gi", "2Gi")] }), "huge")]
#[case::memory(json!({ "containers": [requesting("memory", "33Gi")] }), "large")]
fn targets_are_nodes_that_the_launcher_pod_could_be_bound_to(
    #[case] spec: Value,
    #[case] only: &str,
) {
    let with = |name: &str, allocatable: Value| {
        let mut node = node(name, "AMD", &["EPYC"]);
        let allocatable: BTreeMap<String, Quantity> = serde_json::from_value(allocatable).unwrap();
        node.allocatable = amounts(&allocatable);
        node
    };
    let index = Index::new([
        with("here", json!({ "memory": "8Gi" })),
        with("plain", json!({ "memory": "8Gi" })),
        labelled(
            with("cpumanager", json!({ "memory": "8Gi" })),
            &[(CPU_MANAGER_LABEL, "true")],
        ),
        labelled(with("zone", json!({ "memory": "8Gi" })), &[("zone", "a")]),
        with("gpu", json!({ "memory": "8Gi", "example.com/gpu": "1" })),
        with("gpus", json!({ "memory": "8Gi", "example.com/gpu": "2" })),
        with("huge", json!({ "memory": "8Gi", "hugepages-1Gi": "4Gi" })),
        with("large", json!({ "memory": "64Gi" })),
    ]);
    let instance = instance("a", "Running", "EPYC");
    let mut launcher = pod("a", "here", &json!({}));
    let policy = Policy::default();
    let unconstrained = placed(&instance, &[&*launcher], &Settings::default());
    assert_eq!(review(&index, &policy, &unconstrained).targets, 7);

    let mut wanted = json!(launcher.spec);
    wanted
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    launcher.spec = serde_json::from_value(wanted).unwrap();
    let constrained = placed(&instance, &[&*launcher], &Settings::default());
    assert_eq!(review(&index, &policy, &constrained).targets, 1);
    let explained = explain(&index, &policy, &constrained.machine, "here");
    assert_eq!(explained.others, [only]);
    let reason = &explained
        .left_out
        .iter()
        .find(|it| it.node == "plain")
        .unwrap()
        .reason;
    assert_ne!(
        *reason,
        NodeReason::Unschedulable,
        "the reason names what is missing"
    );
}

fn requesting(resource: &str, amount: &str) -> Value {
    json!({ "name": "compute", "resources": { "requests": { resource: amount } } })
}

/// What a pod selects because of the node that its VM came from does not restrict where it can go next.
#[test]
fn labels_of_an_earlier_migration_do_not_narrow_the_demand() {
    let instance = instance("a", "Running", "EPYC");
    let first = pod("a", "here", &json!({ "zone": "a" }));
    let target = pod(
        "a",
        "here",
        &json!({
            "zone": "a", "kubevirt.io/schedulable": "true", "cpu-model.node.kubevirt.io/EPYC": "true",
            "cpu-vendor.node.kubevirt.io/AMD": "true", "cpu-feature.node.kubevirt.io/stale": "true",
        }),
    );
    let settings = Settings::default();
    let demand = |pod: &Pod| placed(&instance, &[pod], &settings).machine.demand;
    assert_eq!(demand(&first), demand(&target));
}
