//! The three user stories of the upstream proposal (kubevirt/community PR 203).

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
        identical_nodes("old", 2, "Intel", &old),
        identical_nodes("new", 2, "Intel", &new),
        identical_nodes("newest", 1, "Intel", &newest),
    ]);
    assert_eq!(chosen(&index, "old0"), "Haswell-noTSX");
    assert_eq!(chosen(&index, "new0"), "Skylake-Server-noTSX-IBRS");
    assert_eq!(chosen(&index, "newest0"), "Skylake-Server-noTSX-IBRS");
}

/// "I set `Opteron_G1` because it is supported in all nodes": the choice is as wide, and newer.
#[test]
fn widest_model_is_newer_than_the_oldest_common_one() {
    let mut nodes = identical_nodes(
        "rome",
        3,
        "AMD",
        &["Opteron_G1", "Opteron_G3", "EPYC", "EPYC-Rome"],
    );
    nodes.extend(identical_nodes(
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
    assert_eq!(refused.unwrap().reason, ModelRejection::Obsolete);
    let wide = policy(json!({ "bias": "Widest" }));
    let on_rome = decide(&index, &wide, &machine(json!({})), "rome0");
    assert_eq!(
        on_rome.verdict.model(),
        "EPYC",
        "every node, if that counts more"
    );
}

/// "I set `Skylake-Client-IBRS`, and my VMs always land on the same nodes": no node is ruled out
/// before the VM starts, and each node gets the model that suits it.
#[test]
fn new_model_does_not_exclude_older_nodes() {
    let index = index([
        identical_nodes("new", 3, "Intel", &["Haswell-noTSX", "Skylake-Client-IBRS"]),
        identical_nodes("old", 3, "Intel", &["Haswell-noTSX"]),
    ]);
    assert_eq!(chosen(&index, "new0"), "Skylake-Client-IBRS");
    assert_eq!(chosen(&index, "old0"), "Haswell-noTSX");
}
