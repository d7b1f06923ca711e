//! What holds for every cluster, machine and policy.

#[path = "properties/scan.rs"]
mod scan;
#[path = "properties/strategies.rs"]
mod strategies;

use std::collections::BTreeMap;

use cpu_models::review::review;
use cpu_models::{Index, Running, Survey, decide, explain};
use proptest::prelude::*;

use crate::strategies::{Step, machine_of, node, nodes, policy, steps, wish};

/// All that an index can be asked about a cluster.
fn everything(index: &Index, wishes: &[scan::Wish], policy: &cpu_models::Policy) -> Vec<String> {
    let mut told = vec![format!("{:?}", index.models())];
    for name in index.names() {
        told.push(format!("{:?}", index.labels_of(name)));
        for wish in wishes {
            let machine = machine_of(wish);
            told.push(format!("{:?}", explain(index, policy, &machine, name)));
            for recorded in ["EPYC", "Haswell", "host-model"] {
                let running = Running {
                    machine: machine.clone(),
                    node: name.to_owned(),
                    recorded: Some(recorded.to_owned()),
                    carried: BTreeMap::new(),
                };
                told.push(format!("{:?}", review(index, policy, &running)));
            }
        }
    }
    told.push(format!("{:?}", cpu_models::groups::groups(index, policy)));
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_decides_as_a_scan_of_all_nodes_does(
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
    fn an_index_that_followed_changes_is_as_a_fresh_one(
        steps in steps(), wishes in prop::collection::vec(wish(), 1..3), policy in policy(),
    ) {
        let mut followed = Index::default();
        let mut cluster = BTreeMap::new();
        for step in steps {
            match step {
                Step::Put(node) => {
                    followed.upsert(&node);
                    cluster.insert(node.name.clone(), *node);
                }
                Step::Remove(name) => {
                    prop_assert_eq!(followed.remove(&name), cluster.remove(&name).is_some());
                }
            }
        }
        let fresh = Index::new(cluster.into_values());
        prop_assert_eq!(
            everything(&followed, &wishes, &policy),
            everything(&fresh, &wishes, &policy)
        );
    }

    #[test]
    fn a_node_that_does_not_count_changes_nothing(
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
            // Copies of the node that is looked at count if it does, for itself and for others.
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
                // A name in the affinity keeps copies away.
                let named = format!("{:?}", wish.spec).contains("metadata.name");
                let alive = node.labels.get("kubevirt.io/schedulable").is_some_and(|it| it == "true");
                prop_assert!(possible || named || !alive, "{:?}\n{:?}", gain, after);
            }
        }
    }
}
