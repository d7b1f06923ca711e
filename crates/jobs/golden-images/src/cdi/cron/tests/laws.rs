//! What holds whatever happens.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{World, digest, name};
use crate::action::Kind;
use crate::cdi::failure::Reason;

/// Something that happens.
#[derive(Debug, Clone)]
enum Event {
    /// The registry has a version.
    Poll(char, Option<&'static str>),
    /// The registry says no.
    Refuse(Reason),
    /// All imports that run succeed.
    Succeed,
    /// All imports that run fail.
    Fail(&'static str),
    /// All snapshots can be used.
    Ready,
    /// A version is held on to, or none.
    Pin(Option<char>),
    /// So many imports are kept.
    Keep(i32),
    /// A version is being cloned, or none.
    Busy(Option<char>),
    /// Somebody deletes a version.
    Vanish(char),
    /// What imports are kept as.
    Snapshots(bool),
    /// Whether there are nodes of the architecture.
    Nodes(bool),
    Later(i64),
}

fn letter() -> impl Strategy<Value = char> {
    prop_oneof![Just('a'), Just('b'), Just('c'), Just('d')]
}

fn event() -> impl Strategy<Value = Event> {
    let content = prop_oneof![Just(None), Just(Some("one")), Just(Some("other"))];
    let reasons = prop_oneof![
        Just(Reason::RateLimited),
        Just(Reason::ArchitectureNotFound)
    ];
    prop_oneof![
        4 => (letter(), content).prop_map(|(letter, content)| Event::Poll(letter, content)),
        1 => reasons.prop_map(Event::Refuse),
        6 => Just(Event::Succeed),
        2 => prop_oneof![Just("Error"), Just("TooSmall")].prop_map(Event::Fail),
        4 => Just(Event::Ready),
        2 => proptest::option::of(letter()).prop_map(Event::Pin),
        1 => (0_i32..4).prop_map(Event::Keep),
        1 => proptest::option::of(letter()).prop_map(Event::Busy),
        1 => letter().prop_map(Event::Vanish),
        1 => any::<bool>().prop_map(Event::Snapshots),
        1 => any::<bool>().prop_map(Event::Nodes),
        1 => (1_i64..100_000).prop_map(Event::Later),
    ]
}

fn running(world: &World) -> Vec<String> {
    let volumes = world.names(Kind::DataVolume).into_iter();
    volumes
        .filter(|name| {
            let key = (Kind::DataVolume, (*name).to_owned());
            world.objects[&key]["status"]["phase"] != "Succeeded"
        })
        .map(str::to_owned)
        .collect()
}

fn happen(world: &mut World, event: &Event) {
    match event {
        Event::Poll(letter, content) => world.answer(*letter, *content),
        Event::Refuse(reason) => world.refuse(*reason),
        Event::Succeed => {
            for name in running(world) {
                world.phase(&name, "Succeeded");
            }
        }
        Event::Fail(reason) => {
            for name in running(world) {
                world.fail(&name, reason, "it failed");
            }
        }
        Event::Ready => {
            for ((kind, _), object) in &mut world.objects {
                if *kind == Kind::Snapshot {
                    object["status"] = json!({ "readyToUse": true });
                }
            }
        }
        Event::Pin(letter) => {
            let pins = letter.iter();
            let pins: Vec<Value> = pins
                .map(|it| json!({ "architecture": "arm64", "digest": digest(*it) }))
                .collect();
            world.policy(json!({ "images": [{
                "name": "fedora", "namespace": "images", "pins": pins,
            }] }));
        }
        Event::Keep(count) => world.cron["spec"]["importsToKeep"] = json!(count),
        Event::Busy(letter) => world.busy = letter.iter().map(|it| name(*it)).collect(),
        Event::Vanish(letter) => {
            for kind in [Kind::DataVolume, Kind::Claim, Kind::Snapshot] {
                world.objects.remove(&(kind, name(*letter)));
            }
        }
        Event::Snapshots(on) => world.storage.snapshots = *on,
        Event::Nodes(there) => {
            let all = there.then(|| "arm64".to_owned());
            world.nodes = all.into_iter().collect();
        }
        Event::Later(seconds) => world.now += seconds,
    }
}

/// Versions of which there is something that can be cloned.
fn versions(world: &World) -> BTreeSet<String> {
    let claims = world.names(Kind::Claim).into_iter();
    let unfinished = running(world);
    let claims = claims.filter(|it| !unfinished.iter().any(|other| other == it));
    let all = claims.chain(world.names(Kind::Snapshot));
    all.map(str::to_owned).collect()
}

/// What the DataSource stands for.
fn pointed(world: &World) -> Option<String> {
    let source = world.stands_for();
    let of = [&source["pvc"], &source["snapshot"]];
    let mut names = of.into_iter().filter_map(|it| it["name"].as_str());
    names.next().map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// There is an end, and what is done is not done again (`settle`); no step takes away what the
    /// DataSource stands for (`carry_out`); what is kept beyond the number is in use; and what happened
    /// decides what comes of it.
    #[test]
    fn imports_come_to_an_end(events in proptest::collection::vec(event(), 1..24)) {
        let mut world = World::new();
        let mut again = World::new();
        for event in &events {
            let before = pointed(&world);
            happen(&mut world, event);
            let decision = world.settle();
            prop_assert_eq!(&world.decide().actions, &Vec::new());

            // Whatever fails, what was there before goes on being there.
            let now = pointed(&world);
            prop_assert!(before.is_none() || now.is_some(), "the DataSource stands for nothing");
            if before != now {
                let now = now.clone().unwrap_or_default();
                prop_assert!(versions(&world).contains(&now), "{now} is not there");
            }

            let current = world.cron["status"]["currentImports"][0]["DataVolumeName"].as_str();
            let current = current.unwrap_or_default().to_owned();
            let keep = world.cron["spec"]["importsToKeep"].as_u64().unwrap_or(0);
            let besides = versions(&world)
                .into_iter()
                .filter(|it| *it != current && Some(it) != now.as_ref() && !world.busy.contains(it))
                .count();
            if world.condition("UpToDate").0 == "True" {
                prop_assert!(decision.failure.is_none());
                prop_assert_eq!(Some(&current), now.as_ref(), "what is newest is what is cloned");
                prop_assert!((besides as u64) < keep.max(1), "{besides} beyond {keep}");
            }

            happen(&mut again, event);
            again.settle();
            prop_assert_eq!(&again.cron, &world.cron);
            prop_assert_eq!(&again.objects, &world.objects);
        }
    }
}
