use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use rstest::rstest;
use runtime::{Change, Key};
use serde_json::{Value, from_value, json};

use super::decide::{self, Wanted};
use super::memory::Memory;
use super::stale::stale_in;
use crate::workloads::pods::number_of;

const NOW: &str = "2026-01-01T00:10:00Z";

fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
    let mut object = json!({ "metadata": { "name": "web", "namespace": "here", "generation": 2 } });
    object["spec"] = spec;
    object["status"] = status;
    from_value(object).unwrap()
}

/// `a ready`, `b leaving`, `c`.
fn pod(text: &str) -> Arc<Pod> {
    let (name, state) = text.split_once(' ').unwrap_or((text, ""));
    let ready = if state.is_empty() { "False" } else { "True" };
    let mut pod: Pod = from_value(json!({
        "metadata": { "name": name, "namespace": "here" },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] },
    }))
    .unwrap();
    if state == "leaving" {
        pod.metadata.deletion_timestamp = from_value(json!(NOW)).unwrap();
    }
    Arc::new(pod)
}

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

#[rstest]
#[case::at_least(json!({ "minAvailable": 2 }), 5, 2)]
#[case::at_least_a_share(json!({ "minAvailable": "50%" }), 5, 3)]
#[case::at_most_down(json!({ "maxUnavailable": 1 }), 5, 4)]
#[case::at_most_a_share_down(json!({ "maxUnavailable": "30%" }), 5, 3)]
#[case::more_than_there_are(json!({ "maxUnavailable": 9 }), 5, 0)]
fn desired_healthy_pods_are_resolved(
    #[case] spec: Value,
    #[case] expected: i32,
    #[case] healthy: i32,
) {
    let wanted = decide::wanted(&budget(spec, json!({})), expected).unwrap();
    assert_eq!(wanted, Wanted { expected, healthy });
}

#[rstest]
#[case::all_well(&["a ready", "b ready", "c ready"], 2, json!({}), (3, 1))]
#[case::one_is_down(&["a ready", "b ready", "c"], 2, json!({}), (2, 0))]
#[case::too_few(&["a ready", "b"], 2, json!({}), (1, 0))]
#[case::one_leaves(&["a ready", "b ready", "c leaving"], 2, json!({}), (2, 0))]
#[case::one_was_let_go(
    &["a ready", "b ready", "c ready"], 2, json!({ "c": "2026-01-01T00:09:30Z" }), (2, 0)
)]
#[case::one_was_let_go_and_stayed(
    &["a ready", "b ready", "c ready"], 2, json!({ "c": "2026-01-01T00:07:00Z" }), (3, 1)
)]
fn allowed_disruptions_are_counted(
    #[case] pods: &[&str],
    #[case] healthy: i32,
    #[case] disrupted: Value,
    #[case] expected: (i32, i32),
) {
    let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
    let budget = budget(
        json!({ "minAvailable": healthy }),
        json!({ "disruptedPods": disrupted }),
    );
    let wanted = Wanted {
        expected: number_of(&pods),
        healthy,
    };
    let counted = decide::count(&budget, &pods, wanted, now());
    let status = &counted.status;
    assert_eq!(
        (status.current_healthy, status.disruptions_allowed),
        (Some(expected.0), Some(expected.1))
    );
    let condition = &status.conditions.as_ref().unwrap()[0];
    let (holds, reason) = match expected.1 {
        0 => ("False", "InsufficientPods"),
        _ => ("True", "SufficientPods"),
    };
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str()),
        (holds, reason)
    );
    assert_eq!(status.observed_generation, Some(2));
    // A second evaluation changes nothing.
    let mut again = budget.clone();
    again.status = Some(status.clone());
    assert_eq!(decide::count(&again, &pods, wanted, now()).status, *status);
}

#[test]
fn disrupted_pod_counts_again_after_its_timeout() {
    let pods = [pod("a ready")];
    let budget = budget(
        json!({ "minAvailable": 0 }),
        json!({ "disruptedPods": { "a": "2026-01-01T00:09:00Z", "gone": NOW } }),
    );
    let wanted = Wanted {
        expected: 1,
        healthy: 0,
    };
    let counted = decide::count(&budget, &pods, wanted, now());
    assert_eq!(counted.look_again, Some(Duration::from_secs(61)));
    let kept = counted.status.disrupted_pods.unwrap_or_default();
    assert_eq!(
        kept.keys().collect::<Vec<_>>(),
        ["a"],
        "those that are gone are forgotten"
    );
}

fn at<K: serde::de::DeserializeOwned>(object: &Value, revision: u64) -> Arc<K> {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = json!(revision.to_string());
    Arc::new(from_value(object).unwrap())
}

#[test]
fn successor_is_not_mistaken_for_the_disrupted_pod() {
    let memory = Memory::default();
    let key = Key::new("here", "web");
    let quiet = json!({ "metadata": { "namespace": "here", "name": "web" } });
    let mut naming = quiet.clone();
    naming["status"] = json!({ "disruptedPods": { "web-0": NOW } });
    let first = json!({ "metadata": { "namespace": "here", "name": "web-0", "uid": "first" } });
    let note = |old, new| {
        memory.note(&Change {
            old: Some(old),
            new: Some(new),
        });
    };

    note(at(&quiet, 1), at(&naming, 5));
    assert!(memory.stale_entries(&key).is_empty(), "it is still there");
    // Written again meanwhile with the same content.
    note(at(&naming, 5), at(&naming, 9));
    let gone = Change {
        old: Some(at(&first, 6)),
        new: None,
    };
    memory.see(&gone, now());
    assert_eq!(memory.stale_entries(&key), ["web-0".to_owned()].into());

    // The next pod of that name is disrupted, too, in the same second.
    note(at(&naming, 9), at(&quiet, 10));
    note(at(&quiet, 10), at(&naming, 11));
    assert!(memory.stale_entries(&key).is_empty());
}

#[test]
fn without_pods_no_disruption_is_allowed() {
    let budget = budget(json!({ "maxUnavailable": 1 }), json!({}));
    let wanted = decide::wanted(&budget, 0).unwrap();
    let status = decide::count(&budget, &[], wanted, now()).status;
    assert_eq!(status.disruptions_allowed, Some(0));
}

#[test]
fn unknown_scale_allows_no_disruption() {
    let budget = budget(
        json!({ "maxUnavailable": 1 }),
        json!({ "disruptionsAllowed": 3, "currentHealthy": 4, "observedGeneration": 1 }),
    );
    let status = decide::unknown(&budget, "why", now());
    assert_eq!(status.disruptions_allowed, Some(0));
    assert_eq!(status.current_healthy, Some(4));
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("SyncFailed", "why")
    );
}

#[rstest]
#[case::says_nothing(json!([]), None)]
#[case::just_said(
    json!([{ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": NOW }]),
    Some(120)
)]
#[case::said_long_ago(
    json!([{ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]),
    Some(0)
)]
#[case::said_by_its_node(
    json!([{ "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet" }]),
    None
)]
#[case::taken_back(json!([{ "type": "DisruptionTarget", "status": "False" }]), None)]
fn stale_disruption_condition_is_cleared(#[case] conditions: Value, #[case] seconds: Option<u64>) {
    let pod: Pod =
        from_value(json!({ "status": { "phase": "Running", "conditions": conditions } })).unwrap();
    assert_eq!(stale_in(&pod, now()), seconds.map(Duration::from_secs));
}
