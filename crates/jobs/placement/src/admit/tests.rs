//! Admission decisions for new pods.

use std::collections::BTreeMap;

use api::placement::PlacementPolicySpec;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Admission, Allowed, admit, admit_uninspected, parse_reason, with_gate};
use crate::liveness::Controller;
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
    admitted_while(Controller::Running, image, spec)
}

fn admitted_while(controller: Controller, image: &[&str], spec: &Value) -> Admission {
    let known = known(&[("a", image)]);
    let nodes = cluster(&["linux/amd64"]);
    admit(
        &pod(&["a"], &json!({})),
        &policy(spec),
        controller,
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
        Controller::Running,
        &images(&web["spec"]),
    ));
    assert_eq!(decision.outcome, outcome);
    assert_eq!(decision.mutated.is_some(), is_gated);
}

fn is_gated(admitted: &Allowed) -> bool {
    let changed = admitted.mutated.as_ref();
    changed.is_some_and(crate::is_gated)
}

/// The gate is a promise that a controller removes it.
#[rstest]
fn no_pod_is_gated_without_a_controller(
    #[values("Gate", "Sync", "Ignore")] on_miss: &str,
    #[values("Hold", "Warn")] on_no_match: &str,
    #[values("Place", "Warn", "Audit")] mode: &str,
) {
    let spec = json!({ "onMiss": on_miss, "onNoMatch": on_no_match, "mode": mode });
    let web = pod(&["a"], &json!({}));
    let unknown = images(&web["spec"]);
    let gone = Controller::NotRunning;
    let uninspected = allowed(admit_uninspected(&web, &policy(&spec), gone, &unknown));
    assert!(!is_gated(&uninspected), "{uninspected:?}");
    let unfit = allowed(admitted_while(gone, &["linux/s390x"], &spec));
    assert!(!is_gated(&unfit), "{unfit:?}");
}

#[test]
fn pod_that_is_not_gated_says_why() {
    let web = pod(&["a"], &json!({}));
    let policy = policy(&json!({}));
    let unknown = images(&web["spec"]);
    let admission = admit_uninspected(&web, &policy, Controller::NotRunning, &unknown);
    let admitted = allowed(admission);
    assert_eq!(admitted.outcome, "NotGated");
    let changed = admitted.mutated.unwrap();
    let expected = "the platforms of a are not known yet, and no placement controller is running to release the pod from the scheduling gate; it may be scheduled to a node that cannot run it";
    assert_eq!(why(&changed), format!("NotGated: {expected}"));
    assert_eq!(admitted.warnings, [expected]);
    assert_eq!(
        admitted.audit_note.unwrap(),
        format!("NotGated: {expected}")
    );
}

/// The scheduler holds it instead: no node matches its affinity.
#[test]
fn pod_that_would_be_held_is_restricted_without_a_controller() {
    let spec = json!({ "onNoMatch": "Hold" });
    let gone = Controller::NotRunning;
    let admitted = allowed(admitted_while(gone, &["linux/s390x"], &spec));
    assert!(!is_gated(&admitted));
    let changed = admitted.mutated.unwrap();
    assert!(changed["spec"]["affinity"].is_object(), "{changed}");
    assert!(
        why(&changed).ends_with("it is not held, because no placement controller is running"),
        "{}",
        why(&changed)
    );
    assert_eq!(admitted.warnings.len(), 1);
}

/// A policy that rejects pods which run nowhere does so by what the webhook knows.
#[test]
fn unfit_pod_is_denied_without_a_controller_as_well() {
    let spec = json!({ "onNoMatch": "Reject" });
    let refused = admitted_while(Controller::NotRunning, &["linux/s390x"], &spec);
    assert!(matches!(refused, Admission::Deny { .. }), "{refused:?}");
}

/// A pod of a DaemonSet cannot be placed anywhere else, and its node may need it.
#[rstest]
fn pod_for_one_node_is_not_gated_for_an_inspection(
    #[values(Controller::Running, Controller::NotRunning)] controller: Controller,
    #[values("Gate", "Sync")] on_miss: &str,
) {
    let terms = json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["node-0"] }] },
        ] },
    } } });
    let agent = pod(&["a"], &terms);
    let policy = policy(&json!({ "onMiss": on_miss }));
    let unknown = images(&agent["spec"]);
    let admitted = allowed(admit_uninspected(&agent, &policy, controller, &unknown));
    assert_eq!(admitted, Allowed::unchanged("OneNode"));
}
