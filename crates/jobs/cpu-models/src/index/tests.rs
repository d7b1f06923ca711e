use serde_json::json;

use super::node::host_model_of;
use super::*;
use crate::test_values::{labelled, node};

#[test]
fn node_object_is_parsed() {
    let read: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({
        "metadata": { "name": "a", "labels": {
            "cpu-vendor.node.kubevirt.io/Intel": "true", "host-model-cpu.node.kubevirt.io/Haswell": "true",
        } },
        "spec": { "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] },
        "status": {
            "conditions": [{ "type": "Ready", "status": "Unknown" }],
            "nodeInfo": { "architecture": "amd64" },
        },
    }))
    .unwrap();
    let facts = NodeInputs::from_node(&read);
    assert!(facts.unschedulable);
    assert!(!facts.ready);
    assert_eq!(facts.taints.len(), 1);
    assert_eq!(facts.architecture.as_deref(), Some("amd64"));
    assert_eq!(host_model_of(&read), Some("Haswell"));
    assert_eq!(facts.vendor(), NodeVendor::One(Vendor::new("Intel")));
}

#[test]
fn node_without_conditions_counts_as_ready() {
    let read: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({
        "metadata": { "name": "a", "labels": { "kubernetes.io/arch": "s390x" } },
    }))
    .unwrap();
    let facts = NodeInputs::from_node(&read);
    assert!(facts.ready && !facts.unschedulable);
    assert_eq!(facts.architecture.as_deref(), Some("s390x"));
    assert_eq!(facts.vendor(), NodeVendor::Missing);
}

#[test]
fn vendor_aliases_are_equal() {
    let both = labelled(
        node("a", "Zhaoxin", &[]),
        &[("cpu-vendor.node.kubevirt.io/CentaurHauls", "true")],
    );
    assert_eq!(both.vendor(), NodeVendor::One(Vendor::new("Zhaoxin")));
    let untrue = labelled(
        node("a", "AMD", &[]),
        &[("cpu-vendor.node.kubevirt.io/Intel", "false")],
    );
    assert_eq!(untrue.vendor(), NodeVendor::One(Vendor::new("AMD")));
}

#[test]
fn removed_nodes_leave_no_entries() {
    let mut index = Index::default();
    for round in 0..50 {
        let name = format!("n{round}");
        let unique = labelled(node(&name, "Intel", &["Penryn"]), &[("id", &name)]);
        index.upsert(&unique);
        index.upsert(&labelled(unique, &[("id", "other")]));
        assert!(index.remove(&name));
        assert!(!index.remove(&name));
    }
    assert!(index.is_empty());
    assert_eq!(index.models().len(), 0);
    assert_eq!(index.nodes.len(), 1, "places are used again");
    assert!(index.vendors.is_empty() && index.architectures.is_empty());
    assert!(index.with_key("id").is_none());
}

#[test]
fn changed_label_updates_the_index() {
    let mut index = Index::new([labelled(node("a", "Intel", &[]), &[("zone", "x")])]);
    index.upsert(&labelled(node("a", "Intel", &["Penryn"]), &[("zone", "y")]));
    assert!(index.with("zone", "x").is_none());
    assert_eq!(index.with("zone", "y").map(NodeSet::len), Some(1));
    assert_eq!(index.with_key("zone").map(NodeSet::len), Some(1));
    assert_eq!(index.models(), BTreeMap::from([("Penryn", 1)]));
    assert_eq!(index.names(), ["a"]);
    assert_eq!(index.labels_of("a").unwrap()["zone"], "y");
    assert_eq!(index.labels_of("b"), None);
}

#[test]
fn set_conversion_keeps_members() {
    let mut set = NodeSet::default();
    let members: Vec<u32> = (0..200).map(|place| place * 7).collect();
    for place in &members {
        set.insert(*place);
        set.insert(*place);
    }
    assert_eq!(set.len(), 200);
    assert!(matches!(set, NodeSet::Many { .. }));
    let mut all = FixedBitSet::with_capacity(2000);
    set.add_to(&mut all);
    assert_eq!(set.count_in(&all), 200);
    for place in &members[5..] {
        set.remove(*place);
        set.remove(*place);
    }
    assert!(matches!(set, NodeSet::Few(_)));
    assert_eq!(set.len(), 5);
    assert!(set.contains(28) && !set.contains(35));
    set.narrow(&mut all);
    assert_eq!(all.count_ones(..), 5);
    set.take_from(&mut all);
    assert!(all.is_clear());
}
