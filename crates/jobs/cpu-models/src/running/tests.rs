use serde_json::{Value, json};

use super::*;

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
    // Selectors are only recorded for VMs with `host-model`.
    assert_eq!(actual, [("a", 0), ("b", 1)]);
    assert_eq!(found[1].node, "here");
    assert!(found[1].carried.contains_key(label));
}
