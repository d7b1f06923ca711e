//! The changes written into pods.

use std::collections::BTreeMap;

use machinery::node_affinity::RequiredNodeAffinity;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::ChangeStage;
use crate::test_values::{cluster, cluster_of, decided, known, node_with, pod};
use crate::{Decision, Settings, decide};

const AMD64: &str = "linux/amd64";

fn written(more: &Value, moment: ChangeStage) -> Value {
    let images = known(&[("a", &["linux/amd64", "linux/arm64"])]);
    let mut web = pod(&["a"], more);
    let decision = decided(&web, &images, &cluster(&[AMD64, "linux/s390x"]));
    let Decision::Place(placement) = decision else {
        panic!("{decision:?}");
    };
    placement.write(&mut web, moment);
    web["spec"].clone()
}

fn terms(spec: &Value) -> &Value {
    &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
}

fn arch(values: &[&str]) -> Value {
    json!({ "key": "kubernetes.io/arch", "operator": "In", "values": values })
}

fn linux() -> Value {
    json!({ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] })
}

fn required(terms: &Value) -> Value {
    json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
    } } })
}

#[rstest]
#[case(ChangeStage::Admission)]
#[case(ChangeStage::Gated)]
fn unconstrained_pod_gets_one_term(#[case] moment: ChangeStage) {
    let spec = written(&json!({}), moment);
    assert_eq!(
        *terms(&spec),
        json!([{ "matchExpressions": [arch(&["amd64", "arm64"]), linux()] }])
    );
}

/// Terms are ORed: a condition in only one of them, or in a term of its own, would widen the affinity.
#[rstest]
#[case(ChangeStage::Admission)]
#[case(ChangeStage::Gated)]
fn every_term_is_narrowed(#[case] moment: ChangeStage) {
    let zone = |zone: &str| json!({ "key": "zone", "operator": "In", "values": [zone] });
    let original = json!([
        { "matchExpressions": [zone("a")] },
        { "matchExpressions": [{ "key": "fast", "operator": "Exists" }, arch(&["amd64"])] },
    ]);
    let images = known(&[("a", &["linux/amd64", "linux/arm64"])]);
    let mut web = pod(&["a"], &required(&original));
    let labels = json!({ "metadata": { "labels": { "zone": "a", "fast": "" } } });
    let nodes = cluster_of(&[node_with("n", AMD64, &labels)]);
    let Decision::Place(placement) = decided(&web, &images, &nodes) else {
        panic!("it fits");
    };
    placement.write(&mut web, moment);
    assert_eq!(
        *terms(&web["spec"]),
        json!([
            { "matchExpressions": [zone("a"), arch(&["amd64", "arm64"]), linux()] },
            // The architecture it already requires is among the allowed ones.
            { "matchExpressions": [{ "key": "fast", "operator": "Exists" }, arch(&["amd64"]), linux()] },
        ])
    );
}

#[test]
fn conditions_of_the_node_selector_are_not_repeated() {
    let selector =
        json!({ "nodeSelector": { "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux" } });
    let spec = written(&selector, ChangeStage::Admission);
    assert_eq!(spec.get("affinity"), None);
    let selector = json!({ "nodeSelector": { "kubernetes.io/arch": "amd64" } });
    let spec = written(&selector, ChangeStage::Admission);
    assert_eq!(*terms(&spec), json!([{ "matchExpressions": [linux()] }]));
}

/// `runtimeClassName` of an existing pod is immutable.
#[test]
fn class_is_set_only_at_admission() {
    let images = known(&[("a", &["linux/amd64"])]);
    let settings = Settings {
        offered: vec![crate::RuntimeClass {
            name: "emulated".to_owned(),
            platform: Some(AMD64.parse().unwrap()),
            ..crate::RuntimeClass::default()
        }],
        ..Settings::default()
    };
    let nodes = cluster(&["linux/arm64"]);
    let web = pod(&["a"], &json!({}));
    let Decision::Place(placement) = decide(&web, &images, &BTreeMap::new(), &nodes, &settings)
    else {
        panic!("it fits");
    };
    let class = |moment| {
        let mut web = web.clone();
        placement.write(&mut web, moment);
        web["spec"].get("runtimeClassName").cloned()
    };
    assert_eq!(class(ChangeStage::Admission), Some(json!("emulated")));
    assert_eq!(class(ChangeStage::Gated), None);
}

fn terms_strategy() -> impl Strategy<Value = Option<Value>> {
    let expression = prop_oneof![
        Just(arch(&["amd64"])),
        Just(arch(&["arm64", "s390x"])),
        Just(json!({ "key": "kubernetes.io/arch", "operator": "NotIn", "values": ["amd64"] })),
        Just(json!({ "key": "zone", "operator": "In", "values": ["a"] })),
        Just(json!({ "key": "zone", "operator": "DoesNotExist" })),
        Just(json!({ "key": "kubernetes.io/os", "operator": "In", "values": ["windows"] })),
        Just(json!({ "key": "medley.dev/cpu-variant", "operator": "Exists" })),
    ];
    let term = prop::collection::vec(expression, 0..3)
        .prop_map(|expressions| json!({ "matchExpressions": expressions }));
    prop::option::of(prop::collection::vec(term, 1..4).prop_map(Value::from))
}

const PLATFORMS: [&str; 8] = [
    "linux/amd64",
    "linux/amd64/v3",
    "linux/arm64",
    "linux/arm/v7",
    "linux/386",
    "linux/s390x",
    "windows(10.0.17763)/amd64",
    "windows(10.0.20348)/amd64",
];

proptest! {
    /// For any affinity and any images: each node that the pod may be scheduled to afterwards is one that it could be
    /// scheduled to before, and one that runs all of its images. Placing it a second time changes nothing.
    #[test]
    fn pods_are_narrowed_to_nodes_that_run_them(
        original in terms_strategy(),
        pinned in prop::option::of(prop::sample::select(vec!["amd64", "arm64"])),
        images in prop::collection::vec(prop::collection::btree_set(prop::sample::select(PLATFORMS.to_vec()), 1..5), 1..3),
        nodes in prop::collection::vec((prop::sample::select(PLATFORMS.to_vec()), any::<bool>()), 0..8),
        gated in any::<bool>(),
    ) {
        let nodes: Vec<Value> = nodes.iter().enumerate().map(|(index, (platform, zone))| {
            let labels = if *zone { json!({ "metadata": { "labels": { "zone": "a" } } }) } else { json!({}) };
            node_with(&format!("node-{index}"), platform, &labels)
        }).collect();
        let cluster = cluster_of(&nodes);
        let names: Vec<String> = (0..images.len()).map(|index| format!("image-{index}")).collect();
        let platforms: Vec<Vec<&str>> = images.iter().map(|set| set.iter().copied().collect()).collect();
        let pairs: Vec<(&str, &[&str])> = names.iter().map(String::as_str).zip(platforms.iter().map(Vec::as_slice)).collect();
        let known = known(&pairs);
        let mut more = original.map_or_else(|| json!({}), |terms| required(&terms));
        if let Some(pinned) = pinned {
            more["nodeSelector"] = json!({ "kubernetes.io/arch": pinned });
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let before = pod(&names, &more);
        let Decision::Place(placement) = decided(&before, &known, &cluster) else {
            return Ok(());
        };
        let mut after = before.clone();
        let moment = if gated { ChangeStage::Gated } else { ChangeStage::Admission };
        placement.write(&mut after, moment);
        let old = RequiredNodeAffinity::of_pod_spec(&before["spec"]);
        let new = RequiredNodeAffinity::of_pod_spec(&after["spec"]);
        let demand = crate::Demand::new(&crate::images(&before["spec"]), &known, &Settings::default());
        for node in cluster.nodes() {
            if new.matches(node.object()).unwrap() {
                prop_assert!(old.matches(node.object()).unwrap(), "widened to {node:?}: {after}");
                let misfits = demand.misfits(&node.place, node.runtime, None);
                prop_assert!(misfits.is_empty(), "{misfits:?} on {node:?}: {after}");
            }
        }
        if let Decision::Place(again) = decided(&after, &known, &cluster) {
            prop_assert!(!again.write(&mut after, moment), "changed again: {after}");
        }
    }
}
