//! What is answered about pods that are made.

use std::collections::BTreeMap;

use api::placement::PlacementPolicySpec;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Answer, Pass, admit, gated, remarked};
use crate::policy::Policies;
use crate::test_values::{cluster, known, pod};
use crate::{Policy, images};

pub(crate) fn policy(spec: &Value) -> Policy {
    let spec: PlacementPolicySpec = serde_json::from_value(spec.clone()).unwrap();
    let all = Policies::new([("default", &spec)], &BTreeMap::new());
    let found = all.select("shop", &BTreeMap::new(), &json!({}));
    found.unwrap().clone()
}

fn answered(image: &[&str], spec: &Value) -> Answer {
    let known = known(&[("a", image)]);
    let nodes = cluster(&["linux/amd64"]);
    admit(
        &pod(&["a"], &json!({})),
        &policy(spec),
        &known,
        &BTreeMap::new(),
        &nodes,
    )
}

fn passed(answer: Answer) -> Pass {
    match answer {
        Answer::Pass(pass) => pass,
        other => panic!("{other:?}"),
    }
}

fn why(pod: &Value) -> &str {
    pod["metadata"]["annotations"]["medley.dev/placement-reason"]
        .as_str()
        .unwrap_or_default()
}

#[test]
fn a_pod_that_fits_is_told_where() {
    let pass = passed(answered(&["linux/amd64", "linux/arm64"], &json!({})));
    let changed = pass.changed.unwrap();
    assert!(changed["spec"]["affinity"].is_object());
    assert_eq!(why(&changed), "Placed: its images run on amd64, arm64");
    assert_eq!(pass.warnings, Vec::<String>::new());
}

#[rstest]
#[case("Warn")]
#[case("Audit")]
fn who_only_looks_changes_nothing(#[case] mode: &str, #[values(true, false)] fits: bool) {
    let image = if fits { "linux/amd64" } else { "linux/s390x" };
    let spec = json!({ "mode": mode, "onNoMatch": "Reject" });
    let pass = passed(answered(&[image], &spec));
    assert_eq!(pass.changed, None);
    assert_eq!(pass.warnings.is_empty(), fits || mode == "Audit");
    let note = pass.note.unwrap();
    let expected = if fits { "Placed: " } else { "NoMatchingNode: " };
    assert!(note.starts_with(expected), "{note}");
}

#[test]
fn a_pod_that_fits_nowhere_is_refused_held_or_let_in_to_wait() {
    let refused = answered(&["linux/s390x"], &json!({ "onNoMatch": "Reject" }));
    let Answer::Refuse { reason, message } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason, "NoMatchingNode");
    assert!(
        message.contains("is for linux/s390x; the nodes are linux/amd64 (1)"),
        "{message}"
    );
    let held = passed(answered(&["linux/s390x"], &json!({ "onNoMatch": "Hold" })));
    let changed = held.changed.unwrap();
    assert_eq!(
        changed["spec"]["schedulingGates"],
        json!([{ "name": "medley.dev/placement" }])
    );
    assert_eq!(changed["spec"].get("affinity"), None);
    assert_eq!(why(&changed), format!("NoMatchingNode: {message}"));
    let warned = passed(answered(&["linux/s390x"], &json!({ "onNoMatch": "Warn" })));
    let changed = warned.changed.unwrap();
    assert_eq!(changed["spec"].get("schedulingGates"), None);
    assert!(
        changed["spec"]["affinity"].is_object(),
        "it waits for such a node"
    );
    assert_eq!(warned.warnings, [message]);
}

/// A gate of somebody else stays, and ours is there once.
#[test]
fn a_pod_waits_at_one_gate_of_ours() {
    let web = pod(
        &["a"],
        &json!({ "schedulingGates": [{ "name": "example.com/quota" }] }),
    );
    let once = gated(&web, &images(&web["spec"]));
    let twice = gated(&once, &images(&web["spec"]));
    let gates = json!([{ "name": "example.com/quota" }, { "name": "medley.dev/placement" }]);
    assert_eq!(twice["spec"]["schedulingGates"], gates);
    let annotations = serde_json::from_value(once["metadata"]["annotations"].clone()).unwrap();
    assert_eq!(
        remarked(&annotations),
        Some(("Waiting", "somebody looks what a is for"))
    );
}
