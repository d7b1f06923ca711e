//! Properties under any sequence of events: the state machine converges, keeps order and locks, and a kill changes
//! nothing. Order and locks are checked at every execution.

use api::advisor::{Action, Approval, FailurePolicy};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

use super::Simulation;
use super::kills::{outcome, same};
use super::profiles::{Steps, config_map, machine_config};

/// An event.
#[derive(Debug, Clone)]
enum Event {
    Action(Action),
    Interval(i32),
    First(bool),
    Bypass(bool),
    Policy(FailurePolicy),
    Timeout(Option<&'static str>),
    Approve(Vec<&'static str>),
    /// Approves the plan in status by its digest.
    Pin(bool),
    Rollback(Option<i64>),
    Source(i64),
    /// Another manager edits a target, or corrects it.
    Edit(&'static str, i64),
    Reboot(i64),
    Delete(&'static str),
    Logic(i64),
    Refuse(bool),
    Wait(i64),
}

fn any_event() -> impl Strategy<Value = Event> {
    let action = prop_oneof![
        3 => Just(Action::Apply), 2 => Just(Action::DryRun), 1 => Just(Action::Ignore),
    ];
    let target = prop::sample::select(vec!["second", "third"]);
    let items = prop::sample::subsequence(vec!["first", "second", "third"], 0..=3);
    prop_oneof![
        4 => action.prop_map(Event::Action),
        2 => (60..63_i32).prop_map(Event::Interval),
        2 => any::<bool>().prop_map(Event::First),
        1 => any::<bool>().prop_map(Event::Bypass),
        1 => prop::sample::select(vec![FailurePolicy::Abort, FailurePolicy::Continue]).prop_map(Event::Policy),
        1 => prop::sample::select(vec![None, Some("1m"), Some("1h")]).prop_map(Event::Timeout),
        1 => items.prop_map(Event::Approve),
        1 => any::<bool>().prop_map(Event::Pin),
        1 => prop::option::of(1..4_i64).prop_map(Event::Rollback),
        2 => (5..7_i64).prop_map(Event::Source),
        3 => (target.clone(), 60..63_i64).prop_map(|(name, value)| Event::Edit(name, value)),
        1 => (0..2_i64).prop_map(|value| Event::Edit("first", value)),
        4 => prop::sample::select(vec![2, 10]).prop_map(Event::Reboot),
        1 => prop::sample::select(vec!["first", "second", "third"]).prop_map(Event::Delete),
        1 => (1..3_i64).prop_map(Event::Logic),
        1 => any::<bool>().prop_map(Event::Refuse),
        1 => prop::sample::select(vec![5, 90, 4000]).prop_map(Event::Wait),
    ]
}

fn happen(world: &mut Simulation, event: &Event) {
    match event {
        Event::Action(action) => world.action(*action),
        Event::Interval(seconds) => {
            world.options(|options| options.descheduling_interval_seconds = Some(*seconds));
        }
        Event::First(wanted) => world.options(|options| options.enable_psi_metrics = Some(*wanted)),
        Event::Bypass(bypass) => world.spec(|spec| spec.bypass_optimistic_lock = *bypass),
        Event::Policy(policy) => world.spec(|spec| spec.failure_policy = *policy),
        Event::Timeout(limit) => world.spec(|spec| spec.wait_timeout = limit.map(str::to_owned)),
        Event::Approve(items) => world.spec(|spec| {
            let approval: &mut Approval = spec.approval.get_or_insert_default();
            approval.items = items.iter().map(|&name| name.to_owned()).collect();
        }),
        Event::Pin(pin) => {
            let digest = world.status().plan_digest.filter(|_| *pin);
            world.spec(|spec| spec.approval.get_or_insert_default().plan_digest = digest);
        }
        Event::Rollback(revision) => world.spec(|spec| spec.rollback_to = *revision),
        Event::Source(limit) => {
            world.edit(
                &config_map("source"),
                "admin",
                &json!({ "data": { "limit": limit } }),
            );
        }
        Event::Edit("first", value) => {
            let patch = json!({ "spec": { "kernelArguments": [format!("psi={value}")] } });
            world.edit(&machine_config("first"), "admin", &patch);
        }
        Event::Edit(name, value) => {
            world.edit(
                &config_map(name),
                "admin",
                &json!({ "data": { "interval": value } }),
            );
        }
        Event::Reboot(updated) => world.roll_out("worker", *updated),
        Event::Delete("first") => world.cluster.delete(&machine_config("first")),
        Event::Delete(name) => world.cluster.delete(&config_map(name)),
        Event::Logic(logic) => {
            world.version = format!("v0.1.3{logic}");
            world.profile = Some(std::sync::Arc::new(Steps { logic: *logic }));
        }
        Event::Refuse(refuse) => {
            world.refusals.clear();
            if *refuse {
                world.refusals.insert("second".into(), "no".into());
            }
        }
        Event::Wait(seconds) => world.pass(SignedDuration::from_secs(*seconds)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The state machine always converges, and nothing happens afterwards without an event.
    #[test]
    fn state_machine_converges(events in prop::collection::vec(any_event(), 1..24)) {
        let mut world = Simulation::steps();
        for event in &events {
            happen(&mut world, event);
            world.run();
            let (effects, status) = (world.effects, world.status());
            world.run();
            prop_assert_eq!(world.effects, effects, "{:?}", world.trail);
            prop_assert_eq!(world.status(), status);
            let open = world.records.iter().filter(|record| record.outcome.is_none());
            prop_assert!(open.count() <= 1, "a plan that is over is not closed");
        }
    }

    /// Killed at any points, it ends as without the kills.
    #[test]
    fn kills_do_not_change_the_outcome(
        events in prop::collection::vec((any_event(), prop::option::of(1..9_usize)), 1..16),
    ) {
        let mut undisturbed = Simulation::steps();
        let mut killed = Simulation::steps();
        for (event, kill) in &events {
            happen(&mut undisturbed, event);
            undisturbed.run();
            happen(&mut killed, event);
            match kill {
                Some(after) => {
                    killed.run_with_kill(*after);
                }
                None => {
                    killed.run();
                }
            }
            same(&outcome(&killed), &outcome(&undisturbed), kill.unwrap_or_default());
        }
    }

    /// Applied in batches, it ends as one item after the other.
    #[test]
    fn batches_do_not_change_the_outcome(events in prop::collection::vec(any_event(), 1..16)) {
        let mut one_by_one = Simulation::steps();
        let mut batched = Simulation::steps();
        batched.batches = true;
        for event in &events {
            happen(&mut one_by_one, event);
            one_by_one.run();
            happen(&mut batched, event);
            batched.run();
            same(&outcome(&batched), &outcome(&one_by_one), 0);
            prop_assert_eq!(&batched.written, &one_by_one.written);
        }
    }

    /// With events while the operator is down it still converges, in order and under locks.
    #[test]
    fn events_while_down_are_handled(
        events in prop::collection::vec((any_event(), 1..9_usize), 1..16),
    ) {
        let mut world = Simulation::steps();
        for (event, kill) in &events {
            happen(&mut world, event);
            world.kill_after = Some(world.effects + kill);
            world.run_until_killed();
            world.kill_after = None;
        }
        world.run();
        let effects = world.effects;
        world.run();
        prop_assert_eq!(world.effects, effects);
    }
}
