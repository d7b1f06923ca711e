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
    assert_eq!(required(&after), Value::Null, "no node is excluded");
    let affinity = json!(after.affinity);
    let preferred = &affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let expected = json!([{ "weight": 100, "preference": { "matchExpressions": [avoided()] } }]);
    assert_eq!(*preferred, expected);
    assert_eq!(initial(after.clone()), after, "once is enough");
}

/// The source of a fallback on a node with this host model; obsolete or not.
fn host(model: &str, is_obsolete: bool) -> BTreeMap<String, String> {
    let mut labels = map(json!({ format!("{HOST_MODEL_LABEL}{model}"): "true" }));
    if is_obsolete {
        labels.insert(OBSOLETE_HOST_MODEL_LABEL.to_owned(), TRUE.to_owned());
    }
    labels
}

fn fallback_target(before: Placement, labels: &BTreeMap<String, String>) -> Placement {
    let source = Source {
        node: "a",
        labels,
        node_selector: &BTreeMap::new(),
    };
    target(before, HOST_MODEL, source).unwrap()
}

/// KubeVirt requires of every target with host-model that its host model is not obsolete.
#[test]
fn fallback_on_an_obsolete_host_can_migrate_to_another_one() {
    let labels = host("Penryn", true);
    let rendered = json!({ "nodeSelectorTerms": [{ "matchExpressions": [avoided()] }] });
    let after = fallback_target(placement(json!({}), Some(rendered)), &labels);
    assert_eq!(required(&after), Value::Null);
    let zone = json!({ "key": "zone", "operator": "Exists" });
    let rendered = json!({ "nodeSelectorTerms": [{ "matchExpressions": [zone, avoided()] }] });
    let after = fallback_target(placement(json!({}), Some(rendered)), &labels);
    let expected = json!({ "nodeSelectorTerms": [{ "matchExpressions": [zone] }] });
    assert_eq!(required(&after), expected, "constraints of the VM stay");
    let nowhere = json!({ "nodeSelectorTerms": [] });
    let after = fallback_target(placement(json!({}), Some(nowhere.clone())), &labels);
    assert_eq!(required(&after), nowhere, "no term matches no node");
}

/// The cache of launchers keeps what a demand depends on.
#[test]
fn trimmed_launcher_demands_the_same() {
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "a", "annotations": { "a": "b" } },
        "spec": {
            "nodeName": "a", "nodeSelector": { "zone": "a" },
            "affinity": {
                "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "x", "operator": "Exists" }] }],
                } },
                "podAntiAffinity": {},
            },
            "tolerations": [{ "operator": "Exists" }],
            "overhead": { "memory": "1Gi" },
            "containers": [{ "name": "compute", "image": "i", "resources": { "requests": { "x/y": "1" } } }],
            "initContainers": [
                { "name": "b", "restartPolicy": "Always", "resources": { "requests": { "x/y": "1" } } },
            ],
        },
        "status": { "phase": "Running" },
    }))
    .unwrap();
    let instance = VirtualMachineInstance::default();
    let demand = |pod: &Pod| crate::Machine::of_launcher(&instance, pod).demand;
    let before = demand(&pod);
    assert_ne!(
        before,
        crate::Machine::of_instance(&instance, &BTreeMap::new()).demand
    );
    trim(&mut pod);
    assert_eq!(demand(&pod), before);
    assert_eq!((pod.status, pod.metadata.annotations), (None, None));
}

#[test]
fn every_term_avoids_obsolete_hosts_and_an_empty_term_still_matches_nothing() {
    let zone = json!({ "key": "zone", "operator": "Exists" });
    let name = json!({ "key": "metadata.name", "operator": "In", "values": ["a"] });
    let terms = json!({ "nodeSelectorTerms": [
        { "matchExpressions": [zone] }, {}, { "matchFields": [name] },
    ] });
    let after = fallback_target(placement(json!({}), Some(terms)), &host("EPYC", false));
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
