//! Which status is reported when, and which parts are kept.

use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn versions(image: &str) -> Versions {
    let versions = Versions::default().with("operator", "4.18.0").unwrap();
    versions.with("operator-image", image).unwrap()
}

fn underway() -> Rollout {
    Rollout::Underway {
        why: "1 of 2 pods are updated".to_owned(),
        available: true,
    }
}

fn reported(status: &ClusterOperatorStatus) -> Vec<(&str, &str)> {
    let versions = status.versions.iter();
    versions
        .map(|it| (it.name.as_str(), it.version.as_str()))
        .collect()
}

#[test]
fn old_versions_stay_until_rollout_is_done() {
    let old = versions("a");
    let first = next(
        &ClusterOperatorStatus::default(),
        &old,
        &State::of(&Rollout::Done, &old),
        at(1),
    );
    assert_eq!(
        reported(&first),
        [("operator", "4.18.0"), ("operator-image", "a")]
    );
    let new = versions("b");
    let during = next(&first, &new, &State::of(&underway(), &new), at(2));
    assert_eq!(reported(&during), reported(&first), "{during:?}");
    let progressing = Condition::find(&during.conditions, "Progressing").unwrap();
    assert_eq!(
        progressing.message,
        "Working towards 4.18.0: 1 of 2 pods are updated"
    );
    let available = Condition::find(&during.conditions, "Available").unwrap();
    assert_eq!(
        available.message, "Cluster has deployed [{operator 4.18.0} {operator-image a}]",
        "the new one is not deployed yet"
    );
    let more = State::of(&Rollout::Done, &new).working(&new, "pools");
    let more = next(&during, &new, &more, at(3));
    assert_eq!(reported(&more), reported(&first), "pools are not done");
    let wrong = State::of(&Rollout::Done, &new).degraded("Broken", "it is");
    let wrong = next(&more, &new, &wrong, at(4));
    assert_eq!(reported(&wrong), reported(&first), "something is wrong");
    let done = next(&wrong, &new, &State::of(&Rollout::Done, &new), at(5));
    assert_eq!(
        reported(&done),
        [("operator", "4.18.0"), ("operator-image", "b")]
    );
    let available = Condition::find(&done.conditions, "Available").unwrap();
    assert_eq!(
        available.message,
        "Cluster has deployed [{operator 4.18.0} {operator-image b}]"
    );
}

#[test]
fn new_operator_reports_no_versions_before_rollout() {
    let versions = versions("a");
    let status = next(
        &ClusterOperatorStatus::default(),
        &versions,
        &State::of(&underway(), &versions),
        at(1),
    );
    assert!(status.versions.is_empty());
    assert_eq!(status.conditions.len(), 3);
}

#[test]
fn condition_keeps_time_of_last_transition() {
    let versions = versions("a");
    let done = State::of(&Rollout::Done, &versions);
    let first = next(&ClusterOperatorStatus::default(), &versions, &done, at(1));
    let again = next(&first, &versions, &done, at(9));
    assert_eq!(again, first, "nothing has changed");
    let during = next(&first, &versions, &State::of(&underway(), &versions), at(5));
    let since = |status: &ClusterOperatorStatus, kind: &str| {
        let found = Condition::find(&status.conditions, kind).unwrap();
        found.last_transition_time.clone().unwrap().0
    };
    assert_eq!(since(&during, "Progressing"), at(5));
    assert_eq!(since(&during, "Available"), at(1));
}

#[test]
fn conditions_of_other_managers_stay() {
    let old: ClusterOperatorStatus = serde_json::from_value(json!({
        "conditions": [{ "type": "Upgradeable", "status": "True" }],
        "relatedObjects": [{ "group": "", "resource": "namespaces", "name": "openshift-dns" }],
        "extension": { "mine": 1 },
    }))
    .unwrap();
    let versions = versions("a");
    let status = next(
        &old,
        &versions,
        &State::of(&Rollout::Done, &versions),
        at(1),
    );
    assert_eq!(status.conditions[0].kind, "Upgradeable");
    assert_eq!(status.related_objects, old.related_objects);
    assert_eq!(status.rest, old.rest);
}

#[test]
fn unavailable_operator_has_not_arrived() {
    let versions = versions("a");
    let dead = Rollout::UnrunnablePod {
        why: "timed out".to_owned(),
        available: false,
    };
    let state = State::of(&dead, &versions);
    assert!(!state.has_arrived());
    assert!(!state.available.holds);
    assert_eq!(state.degraded.message, "timed out");
}
