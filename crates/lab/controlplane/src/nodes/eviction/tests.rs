//! How long pods stay on tainted nodes.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{EvictionVerdict, verdict};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[rstest::rstest]
#[case::nothing_to_tolerate(json!([]), json!([]), EvictionVerdict::Stay)]
#[case::another_effect(json!([{ "key": "k", "effect": "NoSchedule" }]), json!([]), EvictionVerdict::Stay)]
#[case::not_tolerated(json!([{ "key": "k", "effect": "NoExecute" }]), json!([]), EvictionVerdict::Until(Timestamp::MIN))]
#[case::for_ever(json!([{ "key": "k", "effect": "NoExecute" }]), json!([{ "operator": "Exists" }]), EvictionVerdict::Stay)]
#[case::for_a_while(
    json!([{ "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" }]),
    json!([{ "key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 }]),
    EvictionVerdict::Until(at("2026-01-01T00:05:00Z"))
)]
#[case::from_when_it_was_seen(
    json!([{ "key": "k", "effect": "NoExecute" }]),
    json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": 60 }]),
    EvictionVerdict::Until(at("2026-01-01T12:01:00Z"))
)]
#[case::the_shortest_counts(
    json!([
        { "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" },
        { "key": "l", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" },
    ]),
    json!([
        { "key": "k", "operator": "Exists", "tolerationSeconds": 300 },
        { "key": "l", "operator": "Exists", "tolerationSeconds": 30 },
    ]),
    EvictionVerdict::Until(at("2026-01-01T00:00:30Z"))
)]
#[case::one_of_two_not_tolerated(
    json!([{ "key": "k", "effect": "NoExecute" }, { "key": "l", "effect": "NoExecute" }]),
    json!([{ "key": "k", "operator": "Exists" }]),
    EvictionVerdict::Until(Timestamp::MIN)
)]
#[case::less_than_nothing(
    json!([{ "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" }]),
    json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": -5 }]),
    EvictionVerdict::Until(at("2026-01-01T00:00:00Z"))
)]
fn pods_stay_for_their_toleration_seconds(
    #[case] taints: Value,
    #[case] tolerations: Value,
    #[case] expected: EvictionVerdict,
) {
    let taints: Vec<_> = serde_json::from_value(taints).unwrap();
    let tolerations: Vec<_> = serde_json::from_value(tolerations).unwrap();
    let arrived = at("2025-12-31T00:00:00Z");
    let first_seen = at("2026-01-01T12:00:00Z");
    assert_eq!(
        verdict(&taints, &tolerations, arrived, first_seen),
        expected
    );
}

#[test]
fn toleration_seconds_count_from_the_later_of_pod_and_taint() {
    let taints: Vec<_> = serde_json::from_value(json!([
        { "key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" },
    ]))
    .unwrap();
    let tolerations: Vec<_> =
        serde_json::from_value(json!([{ "operator": "Exists", "tolerationSeconds": 60 }])).unwrap();
    let arrived = at("2026-01-01T10:00:00Z");
    let found = verdict(&taints, &tolerations, arrived, arrived);
    assert_eq!(found, EvictionVerdict::Until(at("2026-01-01T10:01:00Z")));
}
