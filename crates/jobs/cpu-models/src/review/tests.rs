use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::index::node::NodeInputs;
use crate::names::{FEATURE_LABEL, HOST_MODEL_FEATURE_LABEL, MIGRATION_LABEL, SCHEDULABLE_LABEL};
use crate::test_values::{hosted, identical_nodes, index, labelled, machine, node};

fn running(node: &str, recorded: &str) -> RunningVm {
    RunningVm {
        machine: machine(json!({})),
        node: node.to_owned(),
        recorded: Some(recorded.to_owned()),
        carried: BTreeMap::new(),
    }
}

fn reviewed(index: &Index, running: &RunningVm) -> Review {
    review(index, &Policy::default(), running)
}

#[test]
fn vm_with_enough_supporters_is_not_stranded() {
    let index = index([identical_nodes("a", 3, "AMD", &["EPYC", "EPYC-Rome"])]);
    let review = reviewed(&index, &running("a0", "EPYC-Rome"));
    assert_eq!(review.model.as_deref(), Some("EPYC-Rome"));
    assert_eq!((review.supporters, review.targets), (3, 2));
    assert_eq!((review.stranded, review.stale), (None, None));
    assert_eq!(review.threshold.map(|needed| needed.nodes), Some(2));
}

#[rstest]
#[case(1, Some(Stranded::NoTarget))]
#[case(2, Some(Stranded::BelowThreshold))]
#[case(3, None)]
fn vm_is_stranded_below_the_threshold(
    #[case] supporters: usize,
    #[case] expected: Option<Stranded>,
) {
    // Nine eligible nodes need three supporters.
    let index = index([
        identical_nodes("rome", supporters, "AMD", &["EPYC", "EPYC-Rome"]),
        identical_nodes("naples", 9 - supporters, "AMD", &["EPYC"]),
    ]);
    let review = reviewed(&index, &running("rome0", "EPYC-Rome"));
    assert_eq!(review.stranded, expected);
    assert_eq!(review.targets as usize, supporters - 1);
}

#[test]
fn newer_model_makes_vm_stale() {
    let index = index([
        identical_nodes("rome", 3, "AMD", &["EPYC", "EPYC-Rome"]),
        identical_nodes("naples", 3, "AMD", &["EPYC"]),
    ]);
    let stale = |node: &str, recorded: &str| reviewed(&index, &running(node, recorded)).stale;
    let rome = |here| {
        Some(Stale {
            model: "EPYC-Rome".to_owned(),
            here,
        })
    };
    assert_eq!(stale("rome0", "EPYC"), rome(true));
    assert_eq!(stale("naples0", "EPYC"), rome(false));
    assert_eq!(stale("rome0", "EPYC-Rome"), None);
    assert_eq!(stale("rome0", "EPYC-Milan"), None, "older is not newer");
    assert_eq!(
        stale("rome0", "Novel"),
        None,
        "what is not known has no age"
    );
    assert_eq!(stale("rome0", "host-model"), rome(true));
}

#[test]
fn vm_with_named_model_is_never_stale() {
    let index = index([identical_nodes("rome", 3, "AMD", &["EPYC", "EPYC-Rome"])]);
    let mut named = running("rome0", "EPYC");
    named.recorded = None;
    named.machine.requested = Requested::Named("EPYC".to_owned());
    let review = reviewed(&index, &named);
    assert_eq!(review.stale, None);
    assert_eq!((review.model.as_deref(), review.targets), (Some("EPYC"), 2));
}

#[test]
fn own_node_counts_as_supporter_even_if_not_eligible() {
    let mut nodes = identical_nodes("a", 3, "AMD", &["EPYC"]);
    nodes[0].unschedulable = true;
    nodes[1] = labelled(nodes[1].clone(), &[(SCHEDULABLE_LABEL, "false")]);
    let index = Index::new(nodes);
    let review = reviewed(&index, &running("a0", "EPYC"));
    assert_eq!((review.supporters, review.targets), (2, 1));
    assert_eq!(review.stranded, None);
    let review = reviewed(&index, &running("a2", "EPYC"));
    assert_eq!((review.supporters, review.targets), (1, 0));
    assert_eq!(review.stranded, Some(Stranded::NoTarget));
}

#[test]
fn vm_on_missing_node_uses_vendor_of_its_model() {
    let index = index([
        identical_nodes("amd", 2, "AMD", &["EPYC"]),
        identical_nodes("intel", 2, "Intel", &["EPYC", "Penryn"]),
    ]);
    let review = reviewed(&index, &running("gone", "EPYC"));
    assert!(!review.node_known);
    assert_eq!((review.supporters, review.targets), (2, 2));
    assert_eq!(review.stranded, None);
    let lost = reviewed(&index, &running("gone", "host-model"));
    assert_eq!(lost.stranded, Some(Stranded::NoTarget));
}

fn host(name: &str, model: &str, needs: &[&str], has: &[&str], knows: &[&str]) -> NodeInputs {
    let mut host = hosted(node(name, "Intel", &["Penryn"]), model);
    let put = |prefix: &str, rest: &&str| (format!("{prefix}{rest}"), "true".to_owned());
    host.labels
        .extend(needs.iter().map(|it| put(HOST_MODEL_FEATURE_LABEL, it)));
    host.labels
        .extend(has.iter().map(|it| put(FEATURE_LABEL, it)));
    host.labels
        .extend(knows.iter().map(|it| put(MIGRATION_LABEL, it)));
    host
}

#[test]
fn fallback_targets_need_host_model_and_features() {
    let knows = ["Haswell", "Skylake-Server"];
    let index = Index::new([
        host(
            "a",
            "Skylake-Server",
            &["ssbd", "rare"],
            &["ssbd", "rare"],
            &knows,
        ),
        host("b", "Skylake-Server", &["ssbd"], &["ssbd"], &knows),
        host("c", "Haswell", &["ssbd"], &["ssbd", "rare"], &knows),
        host("d", "Haswell", &["ssbd"], &["ssbd", "rare"], &["Haswell"]),
    ]);
    let targets = |node: &str| reviewed(&index, &running(node, "host-model")).targets;
    assert_eq!(
        targets("a"),
        1,
        "only c has the rare feature and knows the model"
    );
    assert_eq!(targets("b"), 2);
    assert_eq!(targets("c"), 3);

    // After a migration from b to a, the labels of b still apply.
    let mut moved = running("a", "host-model");
    let source = crate::launcher::Source {
        node: "b",
        labels: &host("b", "Skylake-Server", &["ssbd"], &["ssbd"], &knows).labels,
        node_selector: &BTreeMap::new(),
    };
    moved.carried = crate::launcher::host_model_labels(source).unwrap();
    assert_eq!(
        reviewed(&index, &moved).targets,
        2,
        "b and c, and a where it is"
    );
}

#[rstest]
#[case(Requested::BestMatch, None)]
#[case(Requested::HostPassthrough, Some("host-passthrough"))]
fn undecided_and_passthrough_vms_are_not_reviewed(
    #[case] requested: Requested,
    #[case] model: Option<&str>,
) {
    let index = index([identical_nodes("a", 3, "AMD", &["EPYC"])]);
    let mut undecided = running("a0", "");
    undecided.recorded = None;
    undecided.machine.requested = requested;
    let review = reviewed(&index, &undecided);
    assert_eq!(review.model.as_deref(), model);
    assert_eq!(
        (review.stranded, review.stale, review.threshold),
        (None, None, None)
    );
}

/// Nodes with an obsolete host model take VMs with `host-model` only from each other.
#[test]
fn fallback_counts_obsolete_hosts_only_on_one() {
    let obsolete = [(OBSOLETE_HOST_MODEL_LABEL, "true")];
    let old = |name| labelled(host(name, "Penryn", &[], &[], &["Penryn"]), &obsolete);
    let new = |name| host(name, "EPYC", &[], &[], &["EPYC", "Penryn"]);
    let knows_both = |name| labelled(host(name, "EPYC", &[], &[], &["EPYC", "Penryn"]), &obsolete);
    let index = Index::new([old("old"), knows_both("other"), new("new"), new("newer")]);
    let targets = |node: &str| reviewed(&index, &running(node, HOST_MODEL)).targets;
    assert_eq!(targets("old"), 3, "the others know its model");
    assert_eq!(targets("new"), 1, "not the obsolete one");
}
