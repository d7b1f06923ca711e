//! Properties that hold for any sequence of events.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{CronFixture, digest, name};
use crate::action::Kind;
use crate::cdi::failure::Reason;

/// An external event.
#[derive(Debug, Clone)]
enum Event {
    /// The source offers a version.
    Poll(char, Option<&'static str>),
    /// The poll fails.
    Refuse(Reason),
    /// All running imports succeed.
    Succeed,
    /// All running imports fail.
    Fail(&'static str),
    /// All snapshots become ready.
    Ready,
    /// A version is pinned, or none.
    Pin(Option<char>),
    /// `importsToKeep` changes.
    Keep(i32),
    /// A version is being cloned, or none.
    Busy(Option<char>),
    /// The objects of a version are deleted.
    Vanish(char),
    /// The import format changes.
    Snapshots(bool),
    /// Whether exist are nodes of the architecture.
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

fn running(fixture: &CronFixture) -> Vec<String> {
    let volumes = fixture.names(Kind::DataVolume).into_iter();
    volumes
        .filter(|name| {
            let key = (Kind::DataVolume, (*name).to_owned());
            fixture.objects[&key]["status"]["phase"] != "Succeeded"
        })
        .map(str::to_owned)
        .collect()
}

fn apply_event(fixture: &mut CronFixture, event: &Event) {
    match event {
        Event::Poll(letter, content) => fixture.answer(*letter, *content),
        Event::Refuse(reason) => fixture.refuse(*reason),
        Event::Succeed => {
            for name in running(fixture) {
                fixture.phase(&name, "Succeeded");
            }
        }
        Event::Fail(reason) => {
            for name in running(fixture) {
                fixture.fail(&name, reason, "it failed");
            }
        }
        Event::Ready => {
            for ((kind, _), object) in &mut fixture.objects {
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
            fixture.policy(json!({ "images": [{
                "name": "fedora", "namespace": "images", "pins": pins,
            }] }));
        }
        Event::Keep(count) => fixture.cron["spec"]["importsToKeep"] = json!(count),
        Event::Busy(letter) => fixture.busy = letter.iter().map(|it| name(*it)).collect(),
        Event::Vanish(letter) => {
            for kind in [Kind::DataVolume, Kind::Claim, Kind::Snapshot] {
                fixture.objects.remove(&(kind, name(*letter)));
            }
        }
        Event::Snapshots(on) => fixture.storage.snapshots = *on,
        Event::Nodes(exist) => {
            let all = exist.then(|| "arm64".to_owned());
            fixture.nodes = all.into_iter().collect();
        }
        Event::Later(seconds) => fixture.now += seconds,
    }
}

/// Versions with something to clone.
fn versions(fixture: &CronFixture) -> BTreeSet<String> {
    let claims = fixture.names(Kind::Claim).into_iter();
    let unfinished = running(fixture);
    let claims = claims.filter(|it| !unfinished.iter().any(|other| other == it));
    let all = claims.chain(fixture.names(Kind::Snapshot));
    all.map(str::to_owned).collect()
}

/// The object that the DataSource refers to.
fn pointed(fixture: &CronFixture) -> Option<String> {
    let source = fixture.managed_source();
    let of = [&source["pvc"], &source["snapshot"]];
    let mut names = of.into_iter().filter_map(|it| it["name"].as_str());
    names.next().map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Decisions converge and are idempotent (`settle`); no step deletes what the DataSource refers
    /// to (`apply`); surplus imports are in use; and equal events lead to equal states.
    #[test]
    fn imports_converge(events in proptest::collection::vec(event(), 1..24)) {
        let mut fixture = CronFixture::new();
        let mut again = CronFixture::new();
        for event in &events {
            let before = pointed(&fixture);
            apply_event(&mut fixture, event);
            let decision = fixture.settle();
            prop_assert_eq!(&fixture.decide().actions, &Vec::new());

            // On any failure, the previous import stays available.
            let now = pointed(&fixture);
            prop_assert!(before.is_none() || now.is_some(), "the DataSource refers to nothing");
            if before != now {
                let now = now.clone().unwrap_or_default();
                prop_assert!(versions(&fixture).contains(&now), "{now} does not exist");
            }

            let current = fixture.cron["status"]["currentImports"][0]["DataVolumeName"].as_str();
            let current = current.unwrap_or_default().to_owned();
            let keep = fixture.cron["spec"]["importsToKeep"].as_u64().unwrap_or(0);
            let besides = versions(&fixture)
                .into_iter()
                .filter(|it| *it != current && Some(it) != now.as_ref() && !fixture.busy.contains(it))
                .count();
            if fixture.condition("UpToDate").0 == "True" {
                prop_assert!(decision.failure.is_none());
                prop_assert_eq!(Some(&current), now.as_ref(), "what is newest is what is cloned");
                prop_assert!((besides as u64) < keep.max(1), "{besides} beyond {keep}");
            }

            apply_event(&mut again, event);
            again.settle();
            prop_assert_eq!(&again.cron, &fixture.cron);
            prop_assert_eq!(&again.objects, &fixture.objects);
        }
    }
}
