//! Killed after any effect, the operator resumes, with the same outcome as without the kill.

use api::advisor::{Action, Approval, FailurePolicy, Phase};
use rstest::rstest;
use serde_json::{Value, json};

use super::Simulation;
use super::profiles::config_map;

/// The complete outcome, without timestamps.
pub(super) fn outcome(world: &Simulation) -> Value {
    fn timeless(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for name in [
                    "lastTransitionTime",
                    "appliedAt",
                    "time",
                    "started",
                    "finished",
                    "since",
                ] {
                    map.remove(name);
                }
                map.values_mut().for_each(timeless);
            }
            Value::Array(all) => all.iter_mut().for_each(timeless),
            _ => {}
        }
    }
    let endings = world.records.iter().map(|record| record.outcome.as_ref());
    let mut all = json!({
        "status": world.status(),
        "cluster": world.cluster.content(),
        "records": world.records,
        "endings": endings.map(|ending| json!(ending)).collect::<Vec<_>>(),
        "written": world.written,
    });
    timeless(&mut all);
    all
}

type Play = fn(&mut Simulation, &mut dyn FnMut(&mut Simulation));

/// All three steps, with a rollout in between.
fn apply(world: &mut Simulation, go: &mut dyn FnMut(&mut Simulation)) {
    world.action(Action::Apply);
    go(world);
    world.roll_out("worker", 10);
    go(world);
}

/// As above, then one item is pruned and the others change.
fn prune(world: &mut Simulation, go: &mut dyn FnMut(&mut Simulation)) {
    apply(world, go);
    world.options(|options| {
        options.enable_psi_metrics = Some(false);
        options.descheduling_interval_seconds = Some(90);
    });
    go(world);
    world.roll_out("worker", 10);
    go(world);
}

fn undo(world: &mut Simulation, go: &mut dyn FnMut(&mut Simulation)) {
    world.edit(
        &config_map("third"),
        "",
        &json!({ "data": { "interval": 1 } }),
    );
    apply(world, go);
    world.spec(|spec| spec.rollback_to = Some(1));
    go(world);
    world.roll_out("worker", 10);
    go(world);
}

fn pause(world: &mut Simulation, go: &mut dyn FnMut(&mut Simulation)) {
    world.action(Action::Apply);
    go(world);
    world.action(Action::DryRun);
    go(world);
    world.roll_out("worker", 10);
    world.action(Action::Apply);
    go(world);
}

fn part(world: &mut Simulation, go: &mut dyn FnMut(&mut Simulation)) {
    world.spec(|spec| {
        spec.action = Action::Apply;
        spec.approval = Some(Approval {
            items: vec!["third".into()],
            ..Approval::default()
        });
    });
    go(world);
}

fn fail(world: &mut Simulation, go: &mut dyn FnMut(&mut Simulation)) {
    world.refusals.insert("second".into(), "no".into());
    world.spec(|spec| spec.failure_policy = FailurePolicy::Continue);
    apply(world, go);
}

fn correct(world: &mut Simulation, go: &mut dyn FnMut(&mut Simulation)) {
    apply(world, go);
    world.spec(|spec| spec.bypass_optimistic_lock = true);
    go(world);
    world.edit(
        &config_map("third"),
        "argocd",
        &json!({ "data": { "interval": 1 } }),
    );
    go(world);
}

fn input(world: &mut Simulation, go: &mut dyn FnMut(&mut Simulation)) {
    apply(world, go);
    world.edit(
        &config_map("source"),
        "admin",
        &json!({ "data": { "limit": 7 } }),
    );
    go(world);
    world.spec(|spec| spec.wait_timeout = Some("1h".into()));
    go(world);
}

#[rstest]
#[case::apply(apply, Phase::Completed)]
#[case::prune(prune, Phase::Completed)]
#[case::undo(undo, Phase::Completed)]
#[case::pause(pause, Phase::Completed)]
#[case::part(part, Phase::ReviewRequired)]
#[case::fail(fail, Phase::CompletedWithErrors)]
#[case::correct(correct, Phase::Completed)]
#[case::input(input, Phase::Completed)]
fn kill_does_not_change_the_outcome(#[case] play: Play, #[case] phase: Phase) {
    let mut undisturbed = Simulation::steps();
    play(&mut undisturbed, &mut |world| {
        world.run();
        world.check_rest();
    });
    assert_eq!(undisturbed.phase(), phase);
    let effects = undisturbed.effects;
    assert!(effects > 8, "{effects}");
    for after in 1..=effects {
        let mut world = Simulation::steps();
        let mut killed = false;
        play(&mut world, &mut |world| {
            if killed || world.effects >= after {
                world.run();
            } else {
                killed = world.run_with_kill(after - world.effects);
            }
        });
        assert!(killed, "after {after} of {effects}");
        same(&outcome(&world), &outcome(&undisturbed), after);
    }
}

/// Asserts that two outcomes are equal, and prints the differences.
pub(super) fn same(found: &Value, expected: &Value, after: usize) {
    if found == expected {
        return;
    }
    let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
    let (expected, found) = (text(expected), text(found));
    let diff = similar::TextDiff::from_lines(&expected, &found);
    panic!("killed after {after}:\n{}", diff.unified_diff());
}

/// An item that was applied before the kill, but not yet in the status, is removed if it is no longer desired.
#[test]
fn item_applied_before_the_kill_is_removed_when_unwanted() {
    let mut effects = Simulation::steps();
    effects.action(Action::Apply);
    effects.run();
    for after in 1..=effects.effects {
        let mut world = Simulation::steps();
        world.action(Action::Apply);
        world.kill_after = Some(after);
        let _ = world.run_until_killed();
        world.kill_after = None;
        // The options change while the operator is down.
        world.options(|options| options.enable_psi_metrics = Some(false));
        world.run();
        world.roll_out("worker", 10);
        world.run();
        assert_eq!(world.phase(), Phase::Completed, "{after}");
        let first = super::profiles::machine_config("first");
        assert!(
            world.cluster.get(&first).is_none(),
            "{after}: it is left behind"
        );
        world.check_rest();
    }
}
