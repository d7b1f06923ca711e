//! Admission decisions for new pods.

use std::collections::BTreeMap;

use api::placement::PlacementPolicySpec;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Admission, Allowed, admit, admit_uninspected, parse_reason, with_gate};
use crate::policy::Policies;
use crate::test_values::{cluster, known, pod};
use crate::{Policy, images};

pub(crate) fn policy(spec: &Value) -> Policy {
    let spec: PlacementPolicySpec = serde_json::from_value(spec.clone()).unwrap();
    let all = Policies::new([("default", &spec)], &BTreeMap::new());
    let found = all.select("shop", &BTreeMap::new(), &json!({}));
    found.unwrap().clone()
}

fn admitted(image: &[&str], spec: &Value) -> Admission {
    let known = known(&[("a", image)]);
    let nodes = cluster(&["linux/amd64"]);
    admit(
        &pod(&["a"], &json!({})),
        &policy(spec),
        &known,
        &BTreeMap::new(),
        &nodes,
    )
    .unwrap()
}

fn allowed(admission: Admission) -> Allowed {
    match admission {
        Admission::Allow(allowed) => allowed,
        denied @ Admission::Deny { .. } => panic!("{denied:?}"),
    }
}

fn why(pod: &Value) -> &str {
    pod["metadata"]["annotations"]["medley.dev/placement-reason"]
        .as_str()
        .unwrap_or_default()
}

#[test]
fn fitting_pod_gets_node_affinity() {
    let pass = allowed(admitted(&["linux/amd64", "linux/arm64"], &json!({})));
    let changed = pass.mutated.unwrap();
    assert!(changed["spec"]["affinity"].is_object());
    assert_eq!(why(&changed), "Placed: its images run on amd64, arm64");
    assert_eq!(pass.warnings, Vec::<String>::new());
}

#[rstest]
#[case("Warn")]
#[case("Audit")]
fn audit_and_warn_do_not_change_pods(#[case] mode: &str, #[values(true, false)] fits: bool) {
    let image = if fits { "linux/amd64" } else { "linux/s390x" };
    let spec = json!({ "mode": mode, "onNoMatch": "Reject" });
    let pass = allowed(admitted(&[image], &spec));
    assert_eq!(pass.mutated, None);
    assert_eq!(pass.warnings.is_empty(), fits || mode == "Audit");
    let note = pass.audit_note.unwrap();
    let expected = if fits { "Placed: " } else { "NoMatchingNode: " };
    assert!(note.starts_with(expected), "{note}");
}

#[test]
fn unfit_pod_is_denied_held_or_admitted() {
    let refused = admitted(&["linux/s390x"], &json!({ "onNoMatch": "Reject" }));
    let Admission::Deny { reason, message } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, "NoMatchingNode");
    assert!(
        message.contains("is for linux/s390x; the nodes are linux/amd64 (1)"),
        "{message}"
    );
    let held = allowed(admitted(&["linux/s390x"], &json!({ "onNoMatch": "Hold" })));
    let changed = held.mutated.unwrap();
    assert_eq!(
        changed["spec"]["schedulingGates"],
        json!([{ "name": "medley.dev/placement" }])
    );
    assert_eq!(changed["spec"].get("affinity"), None);
    assert_eq!(why(&changed), format!("NoMatchingNode: {message}"));
    let warned = allowed(admitted(&["linux/s390x"], &json!({ "onNoMatch": "Warn" })));
    let changed = warned.mutated.unwrap();
    assert_eq!(changed["spec"].get("schedulingGates"), None);
    assert!(
        changed["spec"]["affinity"].is_object(),
        "it waits for such a node"
    );
    assert_eq!(warned.warnings, [message]);
}

/// Gates of other controllers are kept, and ours is added once.
#[test]
fn gate_is_added_once() {
    let web = pod(
        &["a"],
        &json!({ "schedulingGates": [{ "name": "example.com/quota" }] }),
    );
    let once = with_gate(&web, &images(&web["spec"]));
    let twice = with_gate(&once, &images(&web["spec"]));
    let gates = json!([{ "name": "example.com/quota" }, { "name": "medley.dev/placement" }]);
    assert_eq!(twice["spec"]["schedulingGates"], gates);
    let annotations = serde_json::from_value(once["metadata"]["annotations"].clone()).unwrap();
    assert_eq!(
        parse_reason(&annotations),
        Some(("Waiting", "inspecting the platforms of a"))
    );
}

#[rstest]
#[case::gate(&json!({ "onMiss": "Gate" }), "Gated", true)]
#[case::sync(&json!({ "onMiss": "Sync" }), "Gated", true)]
#[case::ignore(&json!({ "onMiss": "Ignore" }), "NotKnown", false)]
#[case::warn(&json!({ "onMiss": "Gate", "mode": "Warn" }), "NotKnown", false)]
#[case::audit(&json!({ "onMiss": "Gate", "mode": "Audit" }), "NotKnown", false)]
fn uninspected_pod_is_gated_only_where_the_policy_mutates(
    #[case] spec: &Value,
    #[case] outcome: &str,
    #[case] is_gated: bool,
) {
    let web = pod(&["a"], &json!({}));
    let decision = allowed(admit_uninspected(
        &web,
        &policy(spec),
        &images(&web["spec"]),
    ));
    assert_eq!(decision.outcome, outcome);
    assert_eq!(decision.mutated.is_some(), is_gated);
}
