use serde_json::{Value, json};

use super::*;
use crate::index::node::NodeInputs;
use crate::test_values::{identical_nodes, index, labelled, machine, node};

fn explained(index: &Index, spec: Value, node: &str) -> Explanation {
    explain(index, &Policy::default(), &machine(spec), node)
}

#[test]
fn every_node_is_listed_or_has_a_reason() {
    let tainted = NodeInputs {
        taints: serde_json::from_value(
            json!([{ "key": "gpu", "value": "a", "effect": "NoSchedule" }]),
        )
        .unwrap(),
        ..node("tainted", "AMD", &["EPYC"])
    };
    let zone = |node: NodeInputs| {
        labelled(
            node,
            &[("zone", "a"), ("cpu-feature.node.kubevirt.io/aes", "true")],
        )
    };
    let mut index = Index::new(
        [
            node("rome", "AMD", &["EPYC", "EPYC-Rome"]),
            node("rome2", "AMD", &["EPYC", "EPYC-Rome"]),
            node("naples", "AMD", &["EPYC"]),
            node("intel", "Intel", &["Penryn"]),
            tainted,
            NodeInputs {
                unschedulable: true,
                ..node("cordoned", "AMD", &["EPYC"])
            },
            NodeInputs {
                ready: false,
                ..node("unready", "AMD", &["EPYC"])
            },
            NodeInputs {
                architecture: Some("s390x".to_owned()),
                ..node("mainframe", "IBM", &["gen15a"])
            },
            labelled(
                node("forbidden", "AMD", &["EPYC"]),
                &[("cpu-feature.node.kubevirt.io/mpx", "true")],
            ),
            labelled(
                node("vendorless", "AMD", &["EPYC"]),
                &[("cpu-vendor.node.kubevirt.io/AMD", "")],
            ),
        ]
        .map(zone),
    );
    index.upsert(&node("elsewhere", "AMD", &["EPYC"]));
    index.upsert(&labelled(node("weak", "AMD", &["EPYC"]), &[("zone", "a")]));
    let spec =
        json!({ "nodeSelector": { "zone": "a" }, "features": ["aes"], "forbidden": ["mpx"] });
    let explanation = explained(&index, spec, "rome");
    assert_eq!(explanation.decision.verdict.model(), "EPYC-Rome");
    assert_eq!(explanation.supporters, ["rome", "rome2"]);
    assert_eq!(explanation.others, ["naples"]);
    let actual: Vec<String> = explanation
        .left_out
        .iter()
        .map(|out| format!("{}: {}", out.node, out.reason))
        .collect();
    assert_eq!(
        actual,
        [
            "cordoned: it is not schedulable",
            "elsewhere: it lacks the CPU feature aes",
            "forbidden: it has the CPU feature mpx",
            "intel: its vendor is Intel",
            "mainframe: its architecture is s390x",
            "tainted: its taint gpu=a:NoSchedule is not tolerated",
            "unready: it is not Ready",
            "vendorless: its CPU vendor is missing or ambiguous",
            "weak: it lacks the CPU feature aes",
        ]
    );
}

#[test]
fn unmatched_and_invalid_affinity_are_distinguished() {
    let index = Index::new([
        labelled(node("a", "AMD", &["EPYC"]), &[("zone", "a")]),
        node("b", "AMD", &["EPYC"]),
    ]);
    let term = |operator: &str| json!({ "matchExpressions": [{ "key": "zone", "operator": operator, "values": ["a"] }] });
    let reason = |terms: Value| {
        let spec = json!({ "required": { "nodeSelectorTerms": terms } });
        let mut left_out = explained(&index, spec, "a").left_out;
        assert_eq!(left_out.len(), 1);
        left_out.remove(0).reason
    };
    assert_eq!(reason(json!([term("In")])), NodeReason::Affinity);
    let NodeReason::MalformedAffinity { errors } = reason(json!([term("In"), term("Near")])) else {
        panic!("nothing is wrong");
    };
    assert!(errors.contains("nodeSelectorTerms[1]"), "{errors}");
    let selector = explained(&index, json!({ "nodeSelector": { "zone": "a" } }), "a");
    assert_eq!(
        selector.left_out[0].reason.to_string(),
        "it lacks the label zone=a"
    );
}

#[test]
fn gains_list_models_that_more_nodes_would_allow() {
    let index = index([
        identical_nodes("milan", 1, "AMD", &["EPYC", "EPYC-Rome", "EPYC-Milan"]),
        identical_nodes("rome", 1, "AMD", &["EPYC", "EPYC-Rome"]),
        identical_nodes("naples", 6, "AMD", &["EPYC"]),
    ]);
    let explanation = explained(&index, json!({}), "milan0");
    assert_eq!(explanation.decision.verdict.model(), "EPYC-Rome");
    // A ninth node raises the threshold to three, so two more nodes are needed.
    let gains: Vec<(&str, u32)> = explanation
        .gains
        .iter()
        .map(|gain| (gain.model.as_str(), gain.nodes))
        .collect();
    assert_eq!(gains, [("EPYC-Milan", 2)]);
    let margin = explanation.margin.unwrap();
    assert_eq!(margin.may_go, 0, "one fewer is one too few");
    assert_eq!(
        margin.may_come,
        Some(1),
        "with a ninth node three are needed"
    );
}

#[test]
fn fallback_lists_gains() {
    let index = Index::new([node("only", "AMD", &["EPYC", "EPYC-Rome"])]);
    let explanation = explained(&index, json!({}), "only");
    assert_eq!(explanation.decision.verdict.reason(), "TooFewSupporters");
    let gains: Vec<(&str, u32)> = explanation
        .gains
        .iter()
        .map(|gain| (gain.model.as_str(), gain.nodes))
        .collect();
    assert_eq!(gains, [("EPYC-Rome", 1), ("EPYC", 1)]);
    assert_eq!(explanation.margin, None);
    assert_eq!(explanation.others, ["only"]);
}

#[test]
fn margin_is_unbounded_above_the_maximum_threshold() {
    let index = index([identical_nodes("a", 20, "AMD", &["EPYC"])]);
    let margin = explained(&index, json!({}), "a0").margin.unwrap();
    assert_eq!(margin.may_go, 18, "two of two are enough");
    assert_eq!(
        margin.may_come, None,
        "the default threshold never exceeds five"
    );
}

#[test]
fn explanation_is_empty_without_a_choice() {
    let index = index([identical_nodes("a", 2, "ARM", &["Neoverse-N1"])]);
    let arm = explained(&index, json!({ "architecture": "arm64" }), "a0");
    assert_eq!((arm.supporters.len(), arm.left_out.len()), (0, 0));
    let missing = explained(&index, json!({}), "gone");
    assert_eq!(missing.decision.verdict.reason(), "NodeUnknown");
    assert_eq!((missing.others.len(), missing.gains.len()), (0, 0));
}

#[test]
fn explanation_renders_as_sentences() {
    let index = index([
        identical_nodes(
            "milan",
            1,
            "AMD",
            &[
                "EPYC",
                "EPYC-Rome",
                "EPYC-Milan",
                "qemu64",
                "Penryn",
                "Nehalem",
            ],
        ),
        identical_nodes("rome", 2, "AMD", &["EPYC", "EPYC-Rome"]),
        identical_nodes("naples", 5, "AMD", &["EPYC"]),
        identical_nodes("intel", 10, "Intel", &["Penryn"]),
    ]);
    let explanation = explained(&index, json!({}), "milan0");
    assert_eq!(
        explanation.because(),
        [
            "node milan0: vendor AMD",
            "supporting nodes required: 2, a third of 8 eligible nodes",
            "EPYC-Rome (2019) is supported by 3 nodes: milan0, rome0, rome1",
            "EPYC (2017) is the next candidate: 8 nodes",
        ]
    );
    assert_eq!(
        explanation.models_ruled_out(),
        [
            "EPYC-Milan: 1 of 2 nodes support it",
            "Nehalem, Penryn: it is a model of Intel",
            "qemu64: it is obsolete",
        ]
    );
    assert_eq!(
        explanation.nodes_left_out(),
        [
            "intel0, intel1, intel2, intel3, intel4, intel5, intel6, intel7 and 2 more: its vendor is Intel"
        ]
    );
    assert_eq!(
        explanation.next(),
        [
            "EPYC-Milan (2021) needs 2 more nodes",
            "EPYC-Rome can spare 1 node",
            "with 4 more nodes that do not support it, EPYC-Rome falls below the threshold",
        ]
    );
    let alone = Index::new([node("only", "AMD", &["EPYC"])]);
    assert_eq!(
        explained(&alone, json!({}), "only").because()[2],
        "no model has enough nodes: EPYC, with the most supporters, has 1 of 2"
    );
}
