use std::cell::RefCell;
use std::sync::Arc;

use futures::executor::block_on;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rstest::rstest;
use serde_json::{Value, json};

use super::claim::{Claim, decide};
use super::*;

fn pod(object: Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(object).unwrap())
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter()
        .map(|pod| pod.metadata.name.as_deref().unwrap())
        .collect()
}

const NOW: &str = "2026-01-01T12:00:00Z";

/// A running, ready pod on a node, with `change` merged into it.
fn running(name: &str, change: &Value) -> Arc<Pod> {
    let mut object = json!({
        "metadata": {
            "name": name, "uid": name, "creationTimestamp": "2026-01-01T10:00:00Z", "annotations": {},
        },
        "spec": { "nodeName": name, "containers": [] },
        "status": {
            "phase": "Running",
            "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T10:00:00Z" },
            ],
            "containerStatuses": [
                { "name": "web", "restartCount": 0, "image": "", "imageID": "", "ready": true },
            ],
        },
    });
    for (path, value) in change.as_object().unwrap() {
        *object.pointer_mut(path).unwrap() = value.clone();
    }
    pod(object)
}

#[rstest]
#[case::unassigned("/spec", json!({ "containers": [] }))]
#[case::pending("/status/phase", json!("Pending"))]
#[case::not_ready("/status/conditions/0/status", json!("False"))]
#[case::cheap("/metadata/annotations", json!({ "controller.kubernetes.io/pod-deletion-cost": "-1" }))]
#[case::ready_for_less_time("/status/conditions/0/lastTransitionTime", json!("2026-01-01T11:59:00Z"))]
#[case::restarted("/status/containerStatuses/0/restartCount", json!(3))]
#[case::younger("/metadata/creationTimestamp", json!("2026-01-01T11:59:00Z"))]
fn less_useful_pod_is_deleted_first(#[case] path: &str, #[case] value: Value) {
    let lesser = running("b", &json!({ path: value }));
    let better = running("a", &json!({}));
    for pods in [
        vec![lesser.clone(), better.clone()],
        vec![better.clone(), lesser.clone()],
    ] {
        assert_eq!(names(&first_to_go(pods, &[], 1, at(NOW))), ["b"]);
    }
}

#[test]
fn crowded_nodes_are_relieved_first() {
    let alone = running("a", &json!({ "/spec/nodeName": "quiet" }));
    let crowded = running("b", &json!({ "/spec/nodeName": "busy" }));
    let other = running("c", &json!({ "/spec/nodeName": "busy" }));
    let pods = vec![alone.clone(), crowded.clone()];
    let related = [alone, crowded, other];
    assert_eq!(names(&first_to_go(pods, &related, 1, at(NOW))), ["b"]);
}

#[test]
fn earlier_rules_outweigh_later_ones() {
    let dear_but_not_ready = running(
        "b",
        &json!({
            "/status/conditions/0/status": "False",
            "/metadata/annotations": { "controller.kubernetes.io/pod-deletion-cost": "100" },
        }),
    );
    let pods = vec![running("a", &json!({})), dear_but_not_ready];
    assert_eq!(names(&first_to_go(pods, &[], 1, at(NOW))), ["b"]);
}

#[rstest]
#[case("+5")]
#[case("05")]
#[case("five")]
fn malformed_costs_count_as_none(#[case] cost: &str) {
    let annotations = json!({ "controller.kubernetes.io/pod-deletion-cost": cost });
    let malformed = running("b", &json!({ "/metadata/annotations": annotations }));
    let annotations = json!({ "controller.kubernetes.io/pod-deletion-cost": "1" });
    let costly = running("a", &json!({ "/metadata/annotations": annotations }));
    assert_eq!(
        names(&first_to_go(vec![costly, malformed], &[], 1, at(NOW))),
        ["b"]
    );
}

#[rstest]
#[case(0, true, None)]
#[case(7200, true, None)]
#[case(7201, false, Some(1))]
fn availability_takes_time(
    #[case] min_ready: i32,
    #[case] available: bool,
    #[case] seconds: Option<u64>,
) {
    let pod = running("a", &json!({}));
    assert_eq!(is_available(&pod, min_ready, at(NOW)), available);
    let wait = available_in(&pod, min_ready, at(NOW));
    assert_eq!(wait.map(|wait| wait.as_secs()), seconds);
}

#[test]
fn pods_that_are_not_ready_are_never_available() {
    let pod = running("a", &json!({ "/status/conditions/0/status": "False" }));
    assert!(!is_available(&pod, 0, at(NOW)));
    assert_eq!(available_in(&pod, 9000, at(NOW)), None);
}

#[rstest]
#[case::ours_and_wanted(Some("me"), true, false, false, Claim::Keep)]
#[case::ours_and_wanted_by_one_that_goes(Some("me"), true, true, false, Claim::Keep)]
#[case::ours_no_more(Some("me"), false, false, false, Claim::Release)]
#[case::one_that_goes_releases_nothing(Some("me"), false, true, false, Claim::Leave)]
#[case::of_another(Some("other"), true, false, false, Claim::Leave)]
#[case::orphan(None, true, false, false, Claim::Adopt)]
#[case::orphan_not_wanted(None, false, false, false, Claim::Leave)]
#[case::one_that_goes_adopts_nothing(None, true, true, false, Claim::Leave)]
#[case::orphan_that_goes(None, true, false, true, Claim::Leave)]
fn claims_follow_owner_and_selector(
    #[case] controller: Option<&str>,
    #[case] wanted: bool,
    #[case] owner_goes: bool,
    #[case] object_goes: bool,
    #[case] expected: Claim,
) {
    let gone = |gone: bool| gone.then_some("2026-01-01T00:00:00Z");
    let owner: ObjectMeta =
        serde_json::from_value(json!({ "uid": "me", "deletionTimestamp": gone(owner_goes) }))
            .unwrap();
    let references: Vec<Value> = controller
        .iter()
        .map(|uid| json!({ "apiVersion": "v1", "kind": "K", "name": "n", "uid": uid, "controller": true }))
        .collect();
    let object: ObjectMeta = serde_json::from_value(
        json!({ "ownerReferences": references, "deletionTimestamp": gone(object_goes) }),
    )
    .unwrap();
    assert_eq!(decide(&owner, &object, wanted), expected);
}

#[test]
fn pods_follow_their_template_and_reference_their_owner() {
    let owner: ReplicaSet = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u" },
    }))
    .unwrap();
    let template: PodTemplateSpec = serde_json::from_value(json!({
        "metadata": { "labels": { "app": "web" }, "annotations": { "a": "b" }, "finalizers": ["x/y"] },
        "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
    }))
    .unwrap();
    assert_eq!(
        serde_json::to_value(pod_from_template(&owner, &template)).unwrap(),
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "web-",
                "namespace": "shop",
                "labels": { "app": "web" },
                "annotations": { "a": "b" },
                "finalizers": ["x/y"],
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
        })
    );
}

#[test]
fn slow_start_doubles_until_a_failure() {
    let rounds = RefCell::new(Vec::new());
    let (done, failure) = block_on(slow_start(20, |number| {
        rounds.borrow_mut().push(number);
        async move { if number == 5 { Err(number) } else { Ok(number) } }
    }));
    // The batches 1, 2 and 3 to 6 were attempted, the last of them together with the failure.
    assert_eq!(done, [0, 1, 2, 3, 4, 6]);
    assert_eq!(failure, Some(5));
    assert_eq!(rounds.into_inner(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn invalid_selectors_are_reported() {
    let written = serde_json::from_value(json!({
        "matchExpressions": [{ "key": "app", "operator": "Like", "values": ["x"] }]
    }))
    .unwrap();
    let error = selector(&written).unwrap_err();
    assert!(error.to_string().contains("\"Like\""), "{error}");
}

#[rstest]
#[case(json!(3), 10, true, Some(3))]
#[case(json!("25%"), 10, true, Some(3))]
#[case(json!("25%"), 10, false, Some(2))]
#[case(json!("25%"), 0, true, Some(0))]
#[case(json!("100%"), 7, false, Some(7))]
#[case(json!("a quarter"), 10, true, None)]
fn percentages_are_resolved(
    #[case] of: Value,
    #[case] total: i32,
    #[case] round_up: bool,
    #[case] expected: Option<i32>,
) {
    let of = serde_json::from_value(of).unwrap();
    assert_eq!(portion(&of, total, round_up), expected);
}
