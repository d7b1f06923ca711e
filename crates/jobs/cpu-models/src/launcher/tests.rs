use serde_json::{Value, json};

use super::*;

fn map(value: Value) -> BTreeMap<String, String> {
    serde_json::from_value(value).unwrap()
}

fn placement(selector: Value, required: Option<Value>) -> Placement {
    Placement {
        node_selector: map(selector),
        affinity: required.map(|required| {
            let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } });
            serde_json::from_value(affinity).unwrap()
        }),
    }
}

fn required(placement: &Placement) -> Value {
    let affinity = serde_json::to_value(&placement.affinity).unwrap();
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].clone()
}

fn avoided() -> Value {
    json!({ "key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist" })
}

#[test]
fn first_pod_drops_best_match_label_and_keeps_features() {
    let before = placement(
        json!({
            "cpu-model.node.kubevirt.io/best-match-model": "true",
            "cpu-feature.node.kubevirt.io/aes": "true",
            "kubevirt.io/schedulable": "true",
        }),
        None,
    );
    assert!(is_undecided(&before.node_selector));
    let after = initial(before);
    assert!(!is_undecided(&after.node_selector));
    let kept = map(
        json!({ "cpu-feature.node.kubevirt.io/aes": "true", "kubevirt.io/schedulable": "true" }),
    );
    assert_eq!(after.node_selector, kept);
    assert_eq!(
        required(&after),
        json!({ "nodeSelectorTerms": [{ "matchExpressions": [avoided()] }] })
    );
    assert_eq!(initial(after.clone()), after, "once is enough");
}

#[test]
fn every_term_avoids_obsolete_hosts_and_an_empty_term_still_matches_nothing() {
    let zone = json!({ "key": "zone", "operator": "Exists" });
    let name = json!({ "key": "metadata.name", "operator": "In", "values": ["a"] });
    let terms = json!({ "nodeSelectorTerms": [
        { "matchExpressions": [zone] }, {}, { "matchFields": [name] },
    ] });
    let after = initial(placement(json!({}), Some(terms)));
    let expected = json!({ "nodeSelectorTerms": [
        { "matchExpressions": [zone, avoided()] },
        {},
        { "matchFields": [name], "matchExpressions": [avoided()] },
    ] });
    assert_eq!(required(&after), expected);
}

#[test]
fn target_pod_selects_model_and_vendor() {
    let labels = map(json!({ "cpu-vendor.node.kubevirt.io/AMD": "true" }));
    let source = Source {
        node: "a",
        labels: &labels,
        node_selector: &BTreeMap::new(),
    };
    let before = placement(
        json!({ "cpu-model.node.kubevirt.io/best-match-model": "true" }),
        None,
    );
    let after = target(before, "EPYC-Rome", source).unwrap();
    let expected = map(json!({
        "cpu-model.node.kubevirt.io/EPYC-Rome": "true",
        "cpu-vendor.node.kubevirt.io/AMD": "true",
    }));
    assert_eq!(after.node_selector, expected);
    assert_eq!(after.affinity, None);
    let with_vendor = placement(json!({ "cpu-vendor.node.kubevirt.io/Intel": "true" }), None);
    let after = target(with_vendor, "EPYC-Rome", source).unwrap();
    assert!(
        !after
            .node_selector
            .contains_key("cpu-vendor.node.kubevirt.io/AMD"),
        "a selected vendor is kept"
    );
}

#[test]
fn target_pod_selects_vendor_of_host_model() {
    let labels = map(json!({
        "cpu-vendor.node.kubevirt.io/AMD": "true", "cpu-vendor.node.kubevirt.io/Intel": "true",
        "host-model-cpu.node.kubevirt.io/EPYC-Milan": "true",
    }));
    let source = Source {
        node: "a",
        labels: &labels,
        node_selector: &BTreeMap::new(),
    };
    let after = target(Placement::default(), "EPYC", source).unwrap();
    let vendors: Vec<&String> = after
        .node_selector
        .keys()
        .filter(|key| key.starts_with(VENDOR_LABEL))
        .collect();
    assert_eq!(vendors, ["cpu-vendor.node.kubevirt.io/AMD"]);
}

#[test]
fn fallback_target_selects_host_model_and_features() {
    let labels = map(json!({
        "cpu-vendor.node.kubevirt.io/Intel": "true",
        "host-model-cpu.node.kubevirt.io/Skylake-Server-IBRS": "true",
        "host-model-required-features.node.kubevirt.io/ssbd": "true",
        "host-model-required-features.node.kubevirt.io/md-clear": "true",
        "cpu-feature.node.kubevirt.io/aes": "true",
    }));
    let source = Source {
        node: "a",
        labels: &labels,
        node_selector: &BTreeMap::new(),
    };
    let first = target(Placement::default(), HOST_MODEL, source).unwrap();
    let expected = map(json!({
        "cpu-model-migration.node.kubevirt.io/Skylake-Server-IBRS": "true",
        "cpu-feature.node.kubevirt.io/ssbd": "true",
        "cpu-feature.node.kubevirt.io/md-clear": "true",
        "cpu-vendor.node.kubevirt.io/Intel": "true",
    }));
    assert_eq!(first.node_selector, expected);
    assert_eq!(
        required(&first),
        json!({ "nodeSelectorTerms": [{ "matchExpressions": [avoided()] }] })
    );

    // Migrating back: the node in between has another host model, but the first node decides.
    let between = map(json!({
        "cpu-vendor.node.kubevirt.io/Intel": "true",
        "host-model-cpu.node.kubevirt.io/Cascadelake-Server": "true",
    }));
    let source = Source {
        node: "b",
        labels: &between,
        node_selector: &first.node_selector,
    };
    let back = target(Placement::default(), HOST_MODEL, source).unwrap();
    assert_eq!(back.node_selector, expected);
}

#[test]
fn required_feature_does_not_imply_a_migration() {
    let labels = map(json!({ "host-model-cpu.node.kubevirt.io/EPYC": "true" }));
    let selector = map(json!({ "cpu-feature.node.kubevirt.io/aes": "true" }));
    let source = Source {
        node: "a",
        labels: &labels,
        node_selector: &selector,
    };
    let labels_of_target = host_model_labels(source).unwrap();
    assert!(labels_of_target.contains_key("cpu-model-migration.node.kubevirt.io/EPYC"));
}

#[test]
fn source_without_host_model_is_an_error() {
    let source = Source {
        node: "a",
        labels: &BTreeMap::new(),
        node_selector: &BTreeMap::new(),
    };
    let error = target(Placement::default(), HOST_MODEL, source).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unable to locate host cpu model, node \"a\" does not contain label \"host-model-cpu.node.kubevirt.io/\" with information"
    );
}
