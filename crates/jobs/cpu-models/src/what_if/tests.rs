use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::machine::Requested;
use crate::test_values::{identical_nodes, index, machine, node};

fn running(name: &str, node: &str, recorded: &str) -> RunningVm {
    let mut machine = machine(json!({}));
    name.clone_into(&mut machine.name);
    RunningVm {
        machine,
        node: node.to_owned(),
        recorded: Some(recorded.to_owned()),
        carried: BTreeMap::new(),
    }
}

fn effects_by_vm(outcome: &Outcome) -> Vec<(&str, Vec<Effect>)> {
    let changes = outcome.changes.iter();
    changes
        .map(|change| (change.name.as_str(), change.effects.clone()))
        .collect()
}

#[test]
fn removed_node_strands_or_moves_vms() {
    let policy = Policy::default();
    let now = index([
        identical_nodes("rome", 2, "AMD", &["EPYC", "EPYC-Rome"]),
        identical_nodes("naples", 3, "AMD", &["EPYC"]),
    ]);
    let mut then = now.clone();
    assert!(then.remove("rome1"));
    let machines = [
        running("stays", "rome0", "EPYC-Rome"),
        running("goes", "rome1", "EPYC-Rome"),
        running("old", "naples0", "EPYC"),
    ];
    let view = |index| Scenario {
        index,
        policy: &policy,
    };
    let outcome = what_if(view(&now), view(&then), &machines);
    assert_eq!(
        effects_by_vm(&outcome),
        [
            (
                "stays",
                vec![Effect::LosesLastTarget, Effect::BecomesStranded]
            ),
            (
                "goes",
                vec![Effect::MustMove { targets: 1 }, Effect::BecomesStranded]
            ),
            ("old", vec![Effect::NoLongerStale]),
        ]
    );
    assert_eq!(outcome.before.machines, 3);
    assert_eq!((outcome.before.stranded, outcome.after.stranded), (0, 2));
    assert_eq!((outcome.before.stale, outcome.after.stale), (1, 0));
    assert_eq!(
        (outcome.after.without_target, outcome.after.without_node),
        (1, 1)
    );
}

#[test]
fn added_node_makes_vms_stale_and_frees_stranded_ones() {
    let policy = Policy::default();
    let now = index([
        identical_nodes("rome", 1, "AMD", &["EPYC", "EPYC-Rome"]),
        identical_nodes("naples", 3, "AMD", &["EPYC"]),
    ]);
    let mut then = now.clone();
    then.upsert(&node("rome9", "AMD", &["EPYC", "EPYC-Rome"]));
    let machines = [
        running("stranded", "rome0", "EPYC-Rome"),
        running("old", "rome0", "EPYC"),
    ];
    let view = |index| Scenario {
        index,
        policy: &policy,
    };
    let outcome = what_if(view(&now), view(&then), &machines);
    let model = "EPYC-Rome".to_owned();
    assert_eq!(
        effects_by_vm(&outcome),
        [
            (
                "stranded",
                vec![Effect::GainsTarget, Effect::NoLongerStranded]
            ),
            ("old", vec![Effect::BecomesStale { model }]),
        ]
    );
}

#[test]
fn policy_change_is_compared() {
    let (now, strict) = (Policy::default(), json!({ "threshold": { "support": 4 } }));
    let (strict, _) = Policy::read(&serde_json::from_value(strict).unwrap());
    let index = index([identical_nodes("a", 3, "AMD", &["EPYC"])]);
    let mut named = running("named", "a0", "EPYC");
    named.machine.requested = Requested::Named("EPYC".to_owned());
    let machines = [running("vm", "a0", "EPYC"), named];
    let view = |policy| Scenario {
        index: &index,
        policy,
    };
    let outcome = what_if(view(&now), view(&strict), &machines);
    assert_eq!(
        effects_by_vm(&outcome),
        [
            ("vm", vec![Effect::BecomesStranded]),
            ("named", vec![Effect::BecomesStranded])
        ]
    );
    let same = what_if(view(&now), view(&now), &machines);
    assert_eq!(same.changes, []);
}
