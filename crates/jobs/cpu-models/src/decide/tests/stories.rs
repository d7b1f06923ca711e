//! The three users of the proposal.

use super::*;

/// "`host-model` migrations are always pending": one new node of its own kind among older ones.
#[test]
fn mixed_generations_share_the_newest_model_that_enough_of_them_have() {
    let old = ["Penryn", "Nehalem", "Haswell-noTSX"];
    let new = [
        "Penryn",
        "Nehalem",
        "Haswell-noTSX",
        "Skylake-Server-noTSX-IBRS",
    ];
    let newest = [
        "Penryn",
        "Nehalem",
        "Haswell-noTSX",
        "Skylake-Server-noTSX-IBRS",
        "Icelake-Server-noTSX",
    ];
    let index = index([
        alike("old", 2, "Intel", &old),
        alike("new", 2, "Intel", &new),
        alike("newest", 1, "Intel", &newest),
    ]);
    assert_eq!(chosen(&index, "old0"), "Haswell-noTSX");
    assert_eq!(chosen(&index, "new0"), "Skylake-Server-noTSX-IBRS");
    assert_eq!(chosen(&index, "newest0"), "Skylake-Server-noTSX-IBRS");
}

/// "I set `Opteron_G1` because it is supported in all nodes": the choice is as wide, and newer.
#[test]
fn nobody_has_to_take_the_oldest_model_to_migrate_everywhere() {
    let mut nodes = alike(
        "rome",
        3,
        "AMD",
        &["Opteron_G1", "Opteron_G3", "EPYC", "EPYC-Rome"],
    );
    nodes.extend(alike(
        "naples",
        3,
        "AMD",
        &["Opteron_G1", "Opteron_G3", "EPYC"],
    ));
    let index = Index::new(nodes);
    let decision = decide(&index, &Policy::default(), &machine(json!({})), "naples0");
    assert_eq!(decision.verdict.model(), "EPYC");
    assert_eq!(decision.candidates[0].supporters, 6);
    let refused = decision
        .ruled_out
        .iter()
        .find(|refused| refused.model == "Opteron_G1");
    assert_eq!(refused.unwrap().reason, RuledOut::Obsolete);
    let wide = policy(json!({ "bias": "Widest" }));
    let on_rome = decide(&index, &wide, &machine(json!({})), "rome0");
    assert_eq!(
        on_rome.verdict.model(),
        "EPYC",
        "every node, if that counts more"
    );
}

/// "I set `Skylake-Client-IBRS`, and my machines always land on the same nodes": no node is ruled out
/// before the machine starts, and each gets what suits it.
#[test]
fn no_node_is_out_of_reach_for_the_sake_of_a_new_model() {
    let index = index([
        alike("new", 3, "Intel", &["Haswell-noTSX", "Skylake-Client-IBRS"]),
        alike("old", 3, "Intel", &["Haswell-noTSX"]),
    ]);
    assert_eq!(chosen(&index, "new0"), "Skylake-Client-IBRS");
    assert_eq!(chosen(&index, "old0"), "Haswell-noTSX");
}
