use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::index::node::NodeInputs;
use crate::policy::{Obsolete, Policy};
use crate::test_values::{hosted, identical_nodes, index, labelled, machine, node};

mod hosts;
mod stories;

fn policy(spec: Value) -> Policy {
    let (policy, complaints) = Policy::read(&serde_json::from_value(spec).unwrap());
    assert_eq!(complaints, []);
    policy
}

fn verdict(index: &Index, spec: Value, node: &str) -> ModelVerdict {
    decide(index, &Policy::default(), &machine(spec), node).verdict
}

fn chosen(index: &Index, node: &str) -> String {
    verdict(index, json!({}), node).model().to_owned()
}

fn reason(index: &Index, spec: Value, node: &str) -> &'static str {
    verdict(index, spec, node).reason()
}

/// Whether `supporters` of `eligible` nodes are enough for Skylake-Server over Penryn.
#[rstest]
#[case(1, 1, None)]
#[case(2, 1, Some("Penryn"))]
#[case(2, 2, Some("Skylake-Server"))]
#[case(8, 1, Some("Penryn"))]
#[case(8, 2, Some("Skylake-Server"))]
#[case(9, 2, Some("Penryn"))]
#[case(9, 3, Some("Skylake-Server"))]
#[case(11, 3, Some("Skylake-Server"))]
#[case(12, 3, Some("Penryn"))]
#[case(12, 4, Some("Skylake-Server"))]
#[case(14, 4, Some("Skylake-Server"))]
#[case(15, 4, Some("Penryn"))]
#[case(15, 5, Some("Skylake-Server"))]
#[case(100, 4, Some("Penryn"))]
#[case(100, 5, Some("Skylake-Server"))]
fn threshold_decides_between_newer_and_older_model(
    #[case] eligible: usize,
    #[case] supporters: usize,
    #[case] expected: Option<&str>,
) {
    let index = index([
        identical_nodes("new", supporters, "Intel", &["Penryn", "Skylake-Server"]),
        identical_nodes("old", eligible - supporters, "Intel", &["Penryn"]),
    ]);
    assert_eq!(chosen(&index, "new0"), expected.unwrap_or("host-model"));
}

#[rstest]
#[case(json!({ "minimalLaunchYear": 2007 }), "Penryn")]
#[case(json!({ "minimalLaunchYear": 2008 }), "host-model")]
#[case(json!({ "threshold": { "support": 3 } }), "host-model")]
#[case(json!({ "threshold": { "support": "100%" } }), "Penryn")]
#[case(json!({ "excludedModels": ["Penryn"] }), "host-model")]
#[case(json!({ "models": [{ "name": "Penryn", "launchYear": 2006 }] }), "host-model")]
fn policy_fields_change_the_choice(#[case] spec: Value, #[case] expected: &str) {
    let index = index([identical_nodes(
        "a",
        2,
        "Intel",
        &["Penryn", "Conroe", "qemu64"],
    )]);
    let decision = decide(&index, &policy(spec), &machine(json!({})), "a0");
    assert_eq!(decision.verdict.model(), expected);
}

#[test]
fn every_model_ruled_out_has_a_reason() {
    let models = [
        "Penryn", "Conroe", "qemu64", "Novel", "EPYC", "Nehalem", "coreduo", "max",
    ];
    let mut nodes = identical_nodes("a", 2, "Intel", &models);
    nodes[0] = labelled(
        nodes[0].clone(),
        &[
            ("cpu-model.node.kubevirt.io/Haswell", "true"),
            ("cpu-model.node.kubevirt.io/Broadwell", "false"),
        ],
    );
    let index = index([nodes]);
    let policy = policy(json!({ "excludedModels": ["Nehalem"] })).with_obsolete(
        Obsolete::from_configuration(Some(&vec!["coreduo".to_owned()])),
    );
    let decision = decide(&index, &policy, &machine(json!({})), "a0");
    assert_eq!(decision.verdict, ModelVerdict::Model("Penryn".to_owned()));
    let actual: Vec<String> = decision
        .ruled_out
        .iter()
        .map(|refused| format!("{}: {}", refused.model, refused.reason))
        .collect();
    assert_eq!(
        actual,
        [
            "Broadwell: the value of its node label is \"false\", not \"true\"",
            "Conroe: it was launched in 2006, before 2007",
            "EPYC: it is a model of AMD",
            "Haswell: 1 of 2 nodes support it",
            "Nehalem: the policy excludes it",
            "Novel: its launch year is unknown; set it in spec.models of the CpuModelPolicy",
            "coreduo: it is obsolete",
            "max: it is generic",
            "qemu64: it is generic",
        ]
    );
    let serialised = serde_json::to_value(&decision).unwrap();
    assert_eq!(
        serialised["verdict"],
        json!({ "kind": "model", "value": "Penryn" })
    );
    assert_eq!(
        serialised["ruledOut"][1]["reason"],
        json!({ "reason": "tooOld", "year": 2006, "minimum": 2007 })
    );
    assert_eq!(serialised["threshold"]["nodes"], 2);
}

#[rstest]
#[case::key_and_value(json!({ "nodeSelector": { "zone": "a" } }), 2)]
#[case::other_value(json!({ "nodeSelector": { "zone": "c" } }), 0)]
#[case::both(json!({ "nodeSelector": { "zone": "a", "disk": "ssd" } }), 1)]
#[case::the_impossible_label_does_not_count(json!({ "nodeSelector": { "cpu-model.node.kubevirt.io/best-match-model": "true" } }), 4)]
#[case::vendor(json!({ "nodeSelector": { "cpu-vendor.node.kubevirt.io/AMD": "true" } }), 0)]
#[case::is_in(term("zone", "In", &["a", "b"]), 3)]
#[case::not_in(term("zone", "NotIn", &["a"]), 2)]
#[case::exists(term("disk", "Exists", &[]), 1)]
#[case::does_not_exist(term("zone", "DoesNotExist", &[]), 1)]
#[case::greater(term("cores", "Gt", &["8"]), 1)]
#[case::less(term("cores", "Lt", &["16"]), 1)]
#[case::less_than_no_number(term("zone", "Lt", &["16"]), 0)]
#[case::alternatives(json!({ "required": { "nodeSelectorTerms": [one("zone", "In", &["b"]), one("disk", "Exists", &[])] } }), 2)]
#[case::empty_beside_right(json!({ "required": { "nodeSelectorTerms": [{}, one("zone", "In", &["a"])] } }), 2)]
#[case::only_empty(json!({ "required": { "nodeSelectorTerms": [{}] } }), 0)]
#[case::no_terms(json!({ "required": { "nodeSelectorTerms": [] } }), 0)]
#[case::malformed_beside_right(json!({ "required": { "nodeSelectorTerms": [one("zone", "Near", &["a"]), one("zone", "In", &["a"])] } }), 2)]
#[case::name(json!({ "required": { "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }] } }), 1)]
#[case::not_the_name(json!({ "required": { "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["n1"] }] }] } }), 3)]
#[case::no_such_name(json!({ "required": { "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n9"] }] }] } }), 0)]
#[case::selector_and_affinity(json!({ "nodeSelector": { "zone": "a" }, "required": { "nodeSelectorTerms": [one("disk", "Exists", &[])] } }), 1)]
#[case::feature(json!({ "features": ["avx2"] }), 1)]
#[case::forbidden(json!({ "forbidden": ["avx2"] }), 3)]
#[case::two_features(json!({ "features": ["avx2", "sgx"] }), 0)]
fn only_nodes_matching_the_demand_are_eligible(#[case] spec: Value, #[case] eligible: u32) {
    let with =
        |name: &str, labels: &[(&str, &str)]| labelled(node(name, "Intel", &["Penryn"]), labels);
    let index = Index::new([
        with("n0", &[("zone", "a"), ("disk", "ssd"), ("cores", "16")]),
        with("n1", &[("zone", "a"), ("cores", "8")]),
        with("n2", &[("zone", "b"), ("cores", "many")]),
        with("n3", &[("cpu-feature.node.kubevirt.io/avx2", "true")]),
    ]);
    let decision = decide(&index, &Policy::default(), &machine(spec), "n0");
    assert_eq!(decision.threshold.unwrap().eligible, eligible);
    let enough = eligible >= 2;
    assert_eq!(decision.verdict.model() == "Penryn", enough);
}

fn one(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] })
}

fn term(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "required": { "nodeSelectorTerms": [one(key, operator, values)] } })
}

#[rstest]
#[case(term("zone", "Near", &["a"]), "operator")]
#[case(term("zone", "In", &[]), "values set can't be empty")]
#[case(term("zone", "Exists", &["a"]), "values set must be empty")]
#[case(term("cores", "Gt", &["many"]), "the value must be an integer")]
#[case(term("cores", "Lt", &["1", "2"]), "exactly one value is required")]
#[case(term("not a key", "Exists", &[]), "name part")]
fn malformed_affinity_is_reported(#[case] spec: Value, #[case] part: &str) {
    let index = index([identical_nodes("a", 3, "Intel", &["Penryn"])]);
    let ModelVerdict::HostModel(fallback) = verdict(&index, spec, "a0") else {
        panic!("a model was chosen");
    };
    assert_eq!(fallback.reason(), "MalformedAffinity");
    let text = fallback.to_string();
    assert!(text.contains(part), "{text}");
    assert!(text.contains("nodeSelectorTerms[0]"), "{text}");
}

#[test]
fn unschedulable_nodes_are_not_eligible_unless_the_policy_counts_them() {
    let cordoned = NodeInputs {
        unschedulable: true,
        ..node("cordoned", "Intel", &["Penryn"])
    };
    let dead = labelled(
        node("dead", "Intel", &["Penryn"]),
        &[("kubevirt.io/schedulable", "false")],
    );
    let unready = NodeInputs {
        ready: false,
        ..node("unready", "Intel", &["Penryn"])
    };
    let taint = |key: &str, effect: &str| NodeInputs {
        taints: serde_json::from_value(json!([{ "key": key, "value": "x", "effect": effect }]))
            .unwrap(),
        ..node(
            &format!("{key}-{effect}").to_lowercase(),
            "Intel",
            &["Penryn"],
        )
    };
    let index = Index::new([
        node("fine", "Intel", &["Penryn"]),
        cordoned,
        dead,
        unready,
        taint("gpu", "NoSchedule"),
        taint("gpu", "NoExecute"),
        taint("gpu", "PreferNoSchedule"),
        taint("node.kubernetes.io/unschedulable", "NoSchedule"),
        taint("node.kubernetes.io/not-ready", "NoExecute"),
    ]);
    let eligible = |policy: Policy, spec: Value, node: &str| {
        let decision = decide(&index, &policy, &machine(spec), node);
        decision.threshold.unwrap().eligible
    };
    let everything = json!({});
    assert_eq!(eligible(Policy::default(), everything.clone(), "fine"), 2);
    assert_eq!(
        eligible(Policy::default(), everything.clone(), "cordoned"),
        3,
        "the node that it is on counts"
    );
    let tolerant =
        json!({ "tolerations": [{ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" }] });
    assert_eq!(eligible(Policy::default(), tolerant, "fine"), 3);
    let unschedulable = policy(json!({ "nodes": { "unschedulable": "Count" } }));
    assert_eq!(eligible(unschedulable, everything.clone(), "fine"), 5);
    let not_ready = policy(json!({ "nodes": { "notReady": "Count" } }));
    assert_eq!(eligible(not_ready, everything.clone(), "fine"), 4);
    let tainted = policy(json!({ "nodes": { "tainted": "Count" } }));
    assert_eq!(eligible(tainted, everything.clone(), "fine"), 4);
    let all = policy(
        json!({ "nodes": { "unschedulable": "Count", "notReady": "Count", "tainted": "Count" } }),
    );
    assert_eq!(eligible(all, everything, "fine"), 9);
}

#[test]
fn nodes_of_another_vendor_are_not_eligible() {
    let index = index([
        identical_nodes("amd", 3, "AMD", &["EPYC", "Penryn"]),
        identical_nodes("intel", 2, "Intel", &["Penryn", "EPYC"]),
    ]);
    let decision = decide(&index, &Policy::default(), &machine(json!({})), "amd0");
    assert_eq!(decision.threshold.unwrap().eligible, 3);
    assert_eq!(decision.verdict.model(), "EPYC");
    assert_eq!(chosen(&index, "intel0"), "Penryn");
}

#[test]
fn foreign_model_is_the_last_resort_if_allowed() {
    let both = ["Opteron_G3", "IvyBridge-IBRS"];
    let index = index([
        identical_nodes("a", 2, "AMD", &both),
        identical_nodes("b", 2, "AMD", &["IvyBridge-IBRS"]),
    ]);
    assert_eq!(chosen(&index, "a0"), "Opteron_G3");
    assert_eq!(reason(&index, json!({}), "b0"), "NoCandidates");
    let lenient = policy(json!({ "foreignVendors": "LastResort" }));
    let on = |node: &str| decide(&index, &lenient, &machine(json!({})), node).verdict;
    assert_eq!(on("a0").model(), "Opteron_G3", "however much older");
    assert_eq!(on("b0").model(), "IvyBridge-IBRS");
}

#[test]
fn label_with_value_false_is_not_support() {
    let doubtful = labelled(
        node("b", "Intel", &["Penryn"]),
        &[("cpu-model.node.kubevirt.io/Haswell", "false")],
    );
    let index = Index::new([node("a", "Intel", &["Penryn", "Haswell"]), doubtful]);
    assert_eq!(chosen(&index, "a"), "Penryn");
    assert_eq!(chosen(&index, "b"), "Penryn");
}

#[test]
fn host_model_settles_contradicting_vendor_labels() {
    let amd = ("cpu-vendor.node.kubevirt.io/AMD", "true");
    let moved = |name: &str| labelled(node(name, "Intel", &["EPYC", "Penryn"]), &[amd]);
    let index = Index::new([
        hosted(moved("settled"), "EPYC-Rome"),
        node("plain", "AMD", &["EPYC"]),
        moved("unsettled"),
        hosted(moved("novel"), "Novel"),
    ]);
    let decision = decide(&index, &Policy::default(), &machine(json!({})), "settled");
    assert_eq!(decision.vendor, Some(Vendor::new("AMD")));
    assert_eq!(decision.host_model.as_deref(), Some("EPYC-Rome"));
    assert_eq!(decision.verdict.model(), "EPYC");
    for unclear in ["unsettled", "novel"] {
        assert_eq!(reason(&index, json!({}), unclear), "VendorAmbiguous");
    }
    assert_eq!(
        chosen(&index, "plain"),
        "EPYC",
        "unclear nodes do not count"
    );
}

#[rstest]
#[case::missing_node("gone", "NodeUnknown")]
#[case::no_vendor("bare", "VendorUnknown")]
#[case::no_models("empty", "NoModels")]
#[case::no_good_models("generic", "NoCandidates")]
#[case::alone("alone", "TooFewSupporters")]
fn undecidable_choice_falls_back_with_a_reason(#[case] name: &str, #[case] word: &str) {
    let bare = labelled(
        node("bare", "Intel", &["Penryn"]),
        &[("cpu-vendor.node.kubevirt.io/Intel", "")],
    );
    let index = Index::new([
        bare,
        node("empty", "Intel", &[]),
        node("generic", "Intel", &["qemu64"]),
        node("alone", "Intel", &["Penryn"]),
    ]);
    let verdict = verdict(&index, json!({}), name);
    assert_eq!(verdict.model(), "host-model");
    assert_eq!(verdict.reason(), word);
}

#[test]
fn single_node_falls_back_to_host_model() {
    let index = Index::new([node("only", "Intel", &["Penryn", "Haswell"])]);
    let ModelVerdict::HostModel(fallback) = verdict(&index, json!({}), "only") else {
        panic!("a model was chosen");
    };
    assert_eq!(
        fallback.to_string(),
        "no model has enough nodes: Haswell, with the most supporters, has 1 of 2"
    );
}

#[test]
fn arm64_always_gets_host_passthrough() {
    let index = index([identical_nodes("a", 3, "ARM", &["Neoverse-N1"])]);
    let verdict = verdict(&index, json!({ "architecture": "arm64" }), "a0");
    assert_eq!(verdict, ModelVerdict::HostPassthrough);
    assert_eq!(verdict.model(), "host-passthrough");
}

/// Models of one year, in the order in which they are preferred when all nodes have them.
#[rstest]
#[case("Intel", &["Skylake-Server-noTSX-IBRS", "Skylake-Server-IBRS", "Skylake-Server"])]
#[case("Intel", &["Haswell-noTSX-IBRS", "Haswell-v4", "Haswell-IBRS", "Haswell-noTSX", "Haswell"])]
#[case("Intel", &["Cascadelake-Server-v5", "Cascadelake-Server-noTSX", "Cascadelake-Server-v2", "Cascadelake-Server", "Icelake-Client-noTSX", "Snowridge-v4"])]
#[case("Intel", &["GraniteRapids-v2", "GraniteRapids", "SierraForest"])]
#[case("AMD", &["EPYC-v4", "EPYC-IBPB", "EPYC-v2", "EPYC", "EPYC-v1"])]
#[case("AMD", &["EPYC-Rome-v4", "EPYC-Rome", "EPYC-Rome-v1"])]
#[case("IBM", &["gen17a-base", "gen17a"])]
fn models_of_one_year_have_a_total_order(#[case] vendor: &str, #[case] order: &[&str]) {
    let mut labels = order.to_vec();
    for _ in 0..100 {
        labels.rotate_left(1);
        let index = index([identical_nodes("a", 2, vendor, &labels)]);
        let decision = decide(&index, &Policy::default(), &machine(json!({})), "a0");
        let found: Vec<&str> = decision
            .candidates
            .iter()
            .map(|candidate| candidate.model.as_str())
            .collect();
        assert_eq!(found, order);
        assert_eq!(decision.verdict.model(), order[0]);
    }
}

#[test]
fn more_supporters_win_within_a_year() {
    let index = index([
        identical_nodes("a", 2, "Intel", &["Skylake-Server", "Skylake-Server-IBRS"]),
        identical_nodes("b", 1, "Intel", &["Skylake-Server"]),
    ]);
    assert_eq!(chosen(&index, "a0"), "Skylake-Server");
}

#[test]
fn bias_widest_prefers_more_supporters() {
    let index = index([
        identical_nodes("new", 3, "AMD", &["EPYC", "EPYC-Milan"]),
        identical_nodes("old", 2, "AMD", &["EPYC"]),
    ]);
    assert_eq!(chosen(&index, "new0"), "EPYC-Milan");
    let wide = policy(json!({ "bias": "Widest" }));
    let decision = decide(&index, &wide, &machine(json!({})), "new0");
    assert_eq!(decision.verdict.model(), "EPYC");
    assert_eq!(decision.candidates[0].supporters, 5);
}

#[test]
fn obsolete_model_is_never_chosen_despite_labels() {
    // Between a change of the list and the next run of the node labeller (up to 6.6 minutes), nodes
    // still carry the label.
    let index = index([identical_nodes("a", 2, "Intel", &["Haswell", "Penryn"])]);
    let haswell = vec!["Haswell".to_owned()];
    let policy = Policy::default().with_obsolete(Obsolete::from_configuration(Some(&haswell)));
    let decision = decide(&index, &policy, &machine(json!({})), "a0");
    assert_eq!(decision.verdict.model(), "Penryn");
}
