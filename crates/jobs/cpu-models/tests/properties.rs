//! Properties that hold for every cluster, VM and policy.

#[path = "properties/scan.rs"]
mod scan;
#[path = "properties/strategies.rs"]
mod strategies;

use std::collections::BTreeMap;

use cpu_models::review::review;
use cpu_models::{Index, RunningVm, Survey, decide, explain};
use proptest::prelude::*;

use crate::strategies::{NodeChange, machine_of, node, node_changes, nodes, policy, wish};

/// Every answer that an index gives about a cluster.
fn all_answers(index: &Index, wishes: &[scan::Wish], policy: &cpu_models::Policy) -> Vec<String> {
    let mut answers = vec![format!("{:?}", index.models())];
    for name in index.names() {
        answers.push(format!("{:?}", index.labels_of(name)));
        for wish in wishes {
            let machine = machine_of(wish);
            answers.push(format!("{:?}", explain(index, policy, &machine, name)));
            for recorded in ["EPYC", "Haswell", "host-model"] {
                let running = RunningVm {
                    machine: machine.clone(),
                    node: name.to_owned(),
                    recorded: Some(recorded.to_owned()),
                    carried: BTreeMap::new(),
                };
                answers.push(format!("{:?}", review(index, policy, &running)));
            }
        }
    }
    answers.push(format!("{:?}", cpu_models::groups::groups(index, policy)));
    answers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn index_agrees_with_naive_scan(
        nodes in nodes(), wish in wish(), policy in policy(),
    ) {
        let index = Index::new(nodes.iter().cloned());
        let machine = machine_of(&wish);
        let mut survey = Survey::new(&index, &policy);
        let all = scan::Scan::new(nodes.iter().cloned());
        for name in nodes.iter().map(|node| node.name.as_str()).chain(["gone"]) {
            let expected = all.choose(&policy, &wish, name);
            let decision = decide(&index, &policy, &machine, name);
            prop_assert_eq!(decision.verdict.model(), &expected, "on {}: {:?}", name, decision);
            prop_assert_eq!(survey.choose(&machine, name), decision.verdict.clone());
            let first = decision.candidates.first().map(|candidate| candidate.model.as_str());
            prop_assert_eq!(first.unwrap_or("host-model"), &expected);
        }
    }

    #[test]
    fn incremental_index_equals_fresh_index(
        node_changes in node_changes(), wishes in prop::collection::vec(wish(), 1..3), policy in policy(),
    ) {
        let mut followed = Index::default();
        let mut cluster = BTreeMap::new();
        for change in node_changes {
            match change {
                NodeChange::Put(node) => {
                    followed.upsert(&node);
                    cluster.insert(node.name.clone(), *node);
                }
                NodeChange::Remove(name) => {
                    prop_assert_eq!(followed.remove(&name), cluster.remove(&name).is_some());
                }
            }
        }
        let fresh = Index::new(cluster.into_values());
        prop_assert_eq!(
            all_answers(&followed, &wishes, &policy),
            all_answers(&fresh, &wishes, &policy)
        );
    }

    #[test]
    fn ineligible_node_changes_nothing(
        nodes in nodes(), extra in node(), wish in wish(), policy in policy(),
    ) {
        let mut extra = extra;
        extra.name = "extra".to_owned();
        let index = Index::new(nodes.iter().cloned());
        let mut larger = index.clone();
        larger.upsert(&extra);
        let machine = machine_of(&wish);
        for node in &nodes {
            let after = explain(&larger, &policy, &machine, &node.name);
            let irrelevant = after.left_out.iter().any(|out| out.node == "extra");
            if irrelevant {
                let before = explain(&index, &policy, &machine, &node.name);
                prop_assert_eq!(before.decision, after.decision);
                prop_assert_eq!((before.gains, before.margin), (after.gains, after.margin));
            }
        }
    }

    #[test]
    fn gains_and_margins_come_true(nodes in nodes(), wish in wish(), policy in policy()) {
        let index = Index::new(nodes.iter().cloned());
        let machine = machine_of(&wish);
        for node in &nodes {
            let explanation = explain(&index, &policy, &machine, &node.name);
            let counts = explanation.supporters.contains(&node.name)
                || explanation.others.contains(&node.name);
            // Copies of the node under test are eligible if it is, for itself and for others.
            if !counts || node.unschedulable || !node.ready || !node.taints.is_empty() {
                continue;
            }
            if let Some(gain) = explanation.gains.first() {
                let mut larger = index.clone();
                for number in 0..gain.nodes {
                    let mut copy = node.clone();
                    copy.name = format!("copy{number}");
                    larger.upsert(&copy);
                }
                let after = decide(&larger, &policy, &machine, &node.name);
                let possible = after.candidates.iter().any(|it| it.model == gain.model);
                // A node name in the affinity excludes copies.
                let named = format!("{:?}", wish.spec).contains("metadata.name");
                let alive = node.labels.get("kubevirt.io/schedulable").is_some_and(|it| it == "true");
                prop_assert!(possible || named || !alive, "{:?}\n{:?}", gain, after);
            }
        }
    }
}
