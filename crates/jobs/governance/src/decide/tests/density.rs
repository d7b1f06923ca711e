//! Higher density: an object of other managers of which some fields are ours.

use api::advisor::{Action, DriftClass, Operation, Phase, ProfileOptions};
use rstest::rstest;
use serde_json::{Value, json};

use super::Simulation;
use super::profiles::machine_config;
use super::world::hyper_converged;

const SWAP: &str = "enable-kubelet-swap";
const DENSITY: &str = "configure-higher-density";

/// Everything is applied and rolled out.
fn in_force() -> Simulation {
    let mut world = Simulation::density();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.written, [SWAP, DENSITY]);
    world
}

fn set(world: &mut Simulation, action: Action, options: &Value) {
    let options: ProfileOptions =
        serde_json::from_value(json!({ "virtHigherDensity": options })).unwrap();
    world.spec(|spec| {
        spec.options = Some(options);
        spec.action = action;
    });
}

/// B7: every option is observed, in review and after completion.
#[rstest]
#[case::swap(json!({ "enableSwap": false, "memoryToRequestRatio": 120 }))]
#[case::ratio(json!({ "memoryToRequestRatio": 200 }))]
#[case::ksm(json!({ "ksmConfiguration": { "enabled": false } }))]
#[case::selector(json!({ "ksmConfiguration": { "nodeLabelSelector": { "matchLabels": { "ksm": "on" } } } }))]
fn every_option_changes_the_plan(#[case] options: Value) {
    let mut world = Simulation::density();
    world.run();
    let before = world.digest();
    set(&mut world, Action::DryRun, &options);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    assert_ne!(world.digest(), before);

    let mut world = in_force();
    set(&mut world, Action::DryRun, &options);
    world.run();
    assert_eq!(world.phase(), Phase::ReviewRequired);
    set(&mut world, Action::Apply, &options);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.records.len(), 2);
    world.check_rest();
}

/// B11: the object is a target and not an input; edits of our fields name their manager, and other fields are ignored.
#[test]
fn edit_of_our_hyper_converged_fields_is_drift() {
    let mut world = in_force();
    world.migrations(20);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert!(world.status().inputs.is_empty());
    world.edit(
        &hyper_converged(),
        "admin",
        &json!({ "spec": { "higherWorkloadDensity": { "memoryOvercommitPercentage": 110 } } }),
    );
    world.run();
    assert_eq!(world.phase(), Phase::Drifted);
    let [drift] = world.status().drift.try_into().unwrap();
    assert_eq!(
        drift.path,
        "spec.higherWorkloadDensity.memoryOvercommitPercentage"
    );
    assert_eq!(drift.class, DriftClass::ExternalEdit);
    assert_eq!(drift.manager.as_deref(), Some("admin"));
    assert_eq!(
        (drift.applied, drift.live),
        (Some(json!(150)), Some(json!(110)))
    );
    assert_eq!(world.status_and_reason("InputDependencyDrift").0, "False");
    world.check_rest();
}

/// B15: swap and KSM are removed when they are disabled, and nothing else.
#[test]
fn disabled_options_are_removed() {
    let mut world = in_force();
    assert_eq!(
        world.live(&hyper_converged(), "/spec/ksmConfiguration"),
        json!({ "nodeLabelSelector": {} })
    );
    let off = json!({
        "enableSwap": false,
        "memoryToRequestRatio": 120,
        "ksmConfiguration": { "enabled": false },
    });
    set(&mut world, Action::DryRun, &off);
    world.run();
    let removal = world.item(&format!("remove-{SWAP}"));
    assert_eq!(removal.operation, Operation::Delete);
    let diff = world.item(DENSITY).diff.unwrap();
    assert!(diff.contains("-  ksmConfiguration:"), "{diff}");
    set(&mut world, Action::Apply, &off);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    let swap = machine_config("90-worker-kubelet-swap");
    assert!(world.cluster.get(&swap).is_none());
    assert_eq!(
        world.live(&hyper_converged(), "/spec"),
        json!({
            "higherWorkloadDensity": { "memoryOvercommitPercentage": 120 },
            "liveMigrationConfig": { "parallelMigrationsPerCluster": 5 },
        })
    );
    world.check_rest();
}
