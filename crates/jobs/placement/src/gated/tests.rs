//! Decisions for gated pods.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use super::{GatedDecision, changes, decide_gated, is_gated, release_abandoned};
use crate::admit::tests::policy;
use crate::test_values::{cluster, known, pod};
use crate::{Inspection, Uninspectable};

fn waiting(more: &Value) -> Value {
    let mut spec = json!({ "schedulingGates": [{ "name": "medley.dev/placement" }] });
    machinery::patch::merge_patch(&mut spec, more).unwrap();
    pod(&["a"], &spec)
}

fn released(settled: GatedDecision) -> (Value, &'static str, bool) {
    match settled {
        GatedDecision::Release { pod, notice } => (pod, notice.reason, notice.warning),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fitting_pod_is_released_with_affinity() {
    let web = waiting(&json!({}));
    let images = known(&[("a", &["linux/arm64"])]);
    let nodes = cluster(&["linux/amd64", "linux/arm64"]);
    let settled = decide_gated(
        &web,
        Some(&policy(&json!({}))),
        &images,
        &BTreeMap::new(),
        &nodes,
    );
    let (after, reason, warning) = released(settled);
    assert_eq!((reason, warning), ("Placed", false));
    assert!(is_gated(&web) && !is_gated(&after));
    let patch = changes(&web, &after);
    let paths: Vec<&str> = patch.iter().filter_map(|it| it["path"].as_str()).collect();
    assert_eq!(
        paths,
        [
            "/metadata/annotations",
            "/spec/affinity",
            "/spec/schedulingGates"
        ]
    );
    assert_eq!(patch[2]["op"], "remove");
}

#[rstest]
#[case("Reject")]
#[case("Hold")]
fn unfit_gated_pod_is_held(#[case] on_no_match: &str) {
    let web = waiting(&json!({}));
    let images = known(&[("a", &["linux/arm64"])]);
    let policy = policy(&json!({ "onNoMatch": on_no_match }));
    let nodes = cluster(&["linux/amd64"]);
    let settled = decide_gated(&web, Some(&policy), &images, &BTreeMap::new(), &nodes);
    let GatedDecision::Hold { pod, notice } = settled else {
        panic!("{settled:?}");
    };
    assert!(is_gated(&pod));
    assert_eq!(notice.reason, "NoMatchingNode");
    // The pod is released when a matching node joins.
    let nodes = cluster(&["linux/amd64", "linux/arm64"]);
    let (after, reason, _) = released(decide_gated(
        &pod,
        Some(&policy),
        &images,
        &BTreeMap::new(),
        &nodes,
    ));
    assert_eq!(reason, "Placed");
    assert!(!is_gated(&after));
}

#[test]
fn uninspectable_image_is_reported() {
    let web = waiting(&json!({}));
    let dead = Inspection::Uninspectable(Uninspectable {
        message: "no answer".to_owned(),
        transient: true,
    });
    let images = BTreeMap::from([("a".to_owned(), dead)]);
    let nodes = cluster(&["linux/amd64", "linux/arm64"]);
    let settled = |spec: &Value| {
        let policy = policy(spec);
        released(decide_gated(
            &web,
            Some(&policy),
            &images,
            &BTreeMap::new(),
            &nodes,
        ))
    };
    let (after, reason, warning) = settled(&json!({}));
    assert_eq!((reason, warning), ("ImageNotInspected", true));
    assert_eq!(after["spec"].get("affinity"), None);
    let (after, reason, _) = settled(&json!({ "fallbackArchitecture": "amd64" }));
    assert_eq!(reason, "ImageNotInspected");
    let reason = after["metadata"]["annotations"]["medley.dev/placement-reason"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(
        reason,
        "ImageNotInspected: image a of container \"c0\" cannot be inspected: no answer; assuming amd64"
    );
    assert!(after["spec"]["affinity"].is_object());
}

#[rstest]
#[case::no_policy(None)]
#[case::other_mode(Some(json!({ "mode": "Audit" })))]
fn unselected_gated_pod_is_released_unchanged(#[case] spec: Option<Value>) {
    let web = waiting(&json!({}));
    let policy = spec.as_ref().map(policy);
    let settled = decide_gated(
        &web,
        policy.as_ref(),
        &BTreeMap::new(),
        &BTreeMap::new(),
        &cluster(&[]),
    );
    let (after, reason, _) = released(settled);
    assert_eq!(reason, "NotPlaced");
    assert_eq!(after["spec"].get("affinity"), None);
    assert!(!is_gated(&after));
}

/// Gates of other controllers are kept.
#[test]
fn only_our_gate_is_removed() {
    let gates = json!([{ "name": "example.com/quota" }, { "name": "medley.dev/placement" }]);
    let web = pod(&["a"], &json!({ "schedulingGates": gates }));
    let (after, ..) = released(decide_gated(
        &web,
        None,
        &BTreeMap::new(),
        &BTreeMap::new(),
        &cluster(&[]),
    ));
    assert_eq!(
        after["spec"]["schedulingGates"],
        json!([{ "name": "example.com/quota" }])
    );
}

/// Whatever is known of its images and whatever its policy says: a pod that no controller will release is released.
#[rstest]
fn abandoned_pod_is_always_released(
    #[values(None, Some("Warn"), Some("Hold"), Some("Reject"))] on_no_match: Option<&str>,
    #[values(
        None,
        Some(&["linux/amd64"][..]),
        Some(&["linux/s390x"][..]),
        Some(&["linux/amd64", "linux/s390x"][..])
    )]
    platforms: Option<&[&str]>,
) {
    let web = waiting(&json!({ "schedulingGates": [
        { "name": "example.com/quota" }, { "name": "medley.dev/placement" },
    ] }));
    let policy = on_no_match.map(|it| policy(&json!({ "onNoMatch": it })));
    let images = platforms.map(|platforms| known(&[("a", platforms)]));
    let images = images.unwrap_or_default();
    let nodes = cluster(&["linux/amd64"]);
    let (after, notice) =
        release_abandoned(&web, policy.as_ref(), &images, &BTreeMap::new(), &nodes);
    assert!(!is_gated(&after), "{after}");
    // Gates of other controllers stay.
    let gates = &after["spec"]["schedulingGates"];
    assert_eq!(gates, &json!([{ "name": "example.com/quota" }]));
    let is_explained =
        api::reasons::has_event(crate::reasons::EVENTS, notice.reason, notice.warning);
    assert!(is_explained, "{notice:?}");
    assert!(
        notice
            .message
            .ends_with("no placement controller is running"),
        "{notice:?}"
    );
    let why = after["metadata"]["annotations"]["medley.dev/placement-reason"].as_str();
    assert_eq!(
        why.unwrap(),
        format!("{}: {}", notice.reason, notice.message)
    );
    // Where the platforms are known, the pod gets no other node than a controller would have allowed.
    let is_placed = policy.is_some() && platforms.is_some();
    assert_eq!(after["spec"]["affinity"].is_object(), is_placed, "{after}");
}
