//! Which policy applies to a pod.

use std::collections::BTreeMap;
use std::time::Duration;

use api::placement::{FailurePolicy, Mode, OnMiss, OnNoMatch, PlacementPolicySpec};
use rstest::rstest;
use serde_json::{Value, json};

use super::{Policies, Policy, Skip};
use crate::RuntimeClass;
use crate::multiarch::MultiarchTuning;

fn policies(all: &[(&str, Value)]) -> Policies {
    let read: Vec<(&str, PlacementPolicySpec)> = all
        .iter()
        .map(|(name, spec)| (*name, serde_json::from_value(spec.clone()).unwrap()))
        .collect();
    let classes = BTreeMap::from([("emulated".to_owned(), RuntimeClass::default())]);
    Policies::new(read.iter().map(|(name, spec)| (*name, spec)), &classes)
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn pod(labels: &Value) -> Value {
    json!({ "metadata": { "name": "web", "labels": labels }, "spec": {} })
}

fn chosen(policies: &Policies, namespace: &[(&str, &str)], pod: &Value) -> Result<String, Skip> {
    let found = policies.select("shop", &labels(namespace), pod);
    found.map(|policy| policy.name.clone())
}

/// Defaults must not break a cluster: pods are admitted even if no registry answers.
#[test]
fn without_policies_the_built_in_one_applies() {
    let none = policies(&[]);
    let policy = none
        .select("shop", &BTreeMap::new(), &pod(&json!({})))
        .unwrap();
    assert_eq!(*policy, Policy::default());
    assert_eq!(policy.mode, Mode::Place);
    assert_eq!(policy.on_miss, OnMiss::Gate);
    assert_eq!(policy.on_no_match, OnNoMatch::Warn);
    assert_eq!(policy.gate, Duration::from_secs(10));
    assert_eq!(none.failure_policy(), FailurePolicy::Ignore);
}

#[test]
fn policies_are_ordered_by_priority_then_name() {
    let team = json!({ "matchLabels": { "team": "shop" } });
    let all = policies(&[
        (
            "default",
            json!({ "priority": 1_000_000, "failurePolicy": "Fail" }),
        ),
        ("b", json!({ "namespaceSelector": team })),
        ("a", json!({ "namespaceSelector": team })),
        (
            "web",
            json!({ "priority": 5, "podSelector": { "matchLabels": { "tier": "web" } } }),
        ),
    ]);
    let shop = [("team", "shop")];
    let web = pod(&json!({ "tier": "web" }));
    let plain = pod(&json!({}));
    assert_eq!(chosen(&all, &shop, &web), Ok("web".to_owned()));
    assert_eq!(chosen(&all, &shop, &plain), Ok("a".to_owned()));
    assert_eq!(chosen(&all, &[], &plain), Ok("default".to_owned()));
    assert_eq!(all.failure_policy(), FailurePolicy::Fail);
}

/// A `default` policy with selectors does not apply to other namespaces.
#[test]
fn default_policy_with_selectors_is_limited() {
    let some = json!({ "namespaceSelector": { "matchLabels": { "team": "shop" } } });
    let all = policies(&[("default", some.clone())]);
    let plain = pod(&json!({}));
    assert_eq!(chosen(&all, &[], &plain), Err(Skip::NotSelected));
    let other = policies(&[("shop", some)]);
    assert_eq!(chosen(&other, &[], &plain), Ok(String::new()));
}

#[rstest]
#[case::namespace(&[("medley.dev/placement", "off")], json!({ "metadata": {} }))]
#[case::label(&[], json!({ "metadata": { "labels": { "medley.dev/placement": "off" } } }))]
#[case::annotation(&[], json!({ "metadata": { "annotations": { "medley.dev/placement": "off" } } }))]
fn opted_out_pods_are_skipped(#[case] namespace: &[(&str, &str)], #[case] pod: Value) {
    let all = policies(&[]);
    assert_eq!(chosen(&all, namespace, &pod), Err(Skip::SwitchedOff));
}

#[test]
fn system_namespaces_and_ignored_owners_are_skipped() {
    let all = policies(&[("default", json!({ "ignoredOwners": ["DaemonSet"] }))]);
    let owned = |kind: &str| json!({ "metadata": { "ownerReferences": [{ "kind": kind }] } });
    let of = |kind: &str| chosen(&all, &[], &owned(kind));
    assert_eq!(of("DaemonSet"), Err(Skip::IgnoredOwner));
    assert_eq!(of("ReplicaSet"), Ok("default".to_owned()));
    let system = all.select("kube-system", &BTreeMap::new(), &owned("ReplicaSet"));
    assert_eq!(system.unwrap_err(), Skip::SystemNamespace);
}

/// Two gates on one pod, of which one operator lifts its own only, would hold it if either operator is removed.
#[test]
fn pods_of_the_multiarch_tuning_operator_are_skipped_unless_already_gated() {
    let registration = json!({ "webhooks": [{
        "name": "pod-placement-scheduling-gate.multiarch.openshift.io",
        "namespaceSelector": { "matchLabels": { "team": "shop" } },
    }] });
    let all = policies(&[]).beside(MultiarchTuning::read(&registration));
    let plain = pod(&json!({}));
    let shop = [("team", "shop")];
    assert_eq!(
        chosen(&all, &shop, &plain),
        Err(Skip::PlacedByMultiarchTuning)
    );
    assert_eq!(chosen(&all, &[], &plain), Ok(String::new()));
    let gated = json!({ "spec": { "schedulingGates": [{ "name": "medley.dev/placement" }] } });
    assert_eq!(chosen(&all, &shop, &gated), Ok(String::new()));
    let off = pod(&json!({ "medley.dev/placement": "off" }));
    assert_eq!(chosen(&all, &shop, &off), Err(Skip::SwitchedOff));
}

#[test]
fn invalid_selectors_are_reported_and_select_nothing() {
    let all = policies(&[
        (
            "wrong",
            json!({ "podSelector": { "matchLabels": { "a b": "c" } } }),
        ),
        (
            "classes",
            json!({ "priority": 1, "podSelector": { "matchLabels": { "x": "y" } },
                "emulation": { "runtimeClasses": ["emulated", "gone"] } }),
        ),
    ]);
    let [complaint] = all.complaints("wrong") else {
        panic!("{:?}", all.complaints("wrong"));
    };
    assert!(
        complaint.starts_with("spec.podSelector selects nothing"),
        "{complaint}"
    );
    assert_eq!(
        all.complaints("classes"),
        ["spec.emulation.runtimeClasses: there is no RuntimeClass gone"]
    );
    assert_eq!(chosen(&all, &[], &pod(&json!({}))), Ok(String::new()));
    let policy = all.select("shop", &BTreeMap::new(), &pod(&json!({ "x": "y" })));
    let policy = policy.unwrap();
    assert_eq!(policy.settings.offered.len(), 1);
    assert!(policy.later.offered.is_empty());
    assert!(
        policy.admission_wait().is_some(),
        "a class can be given only as a pod is made"
    );
}

#[test]
fn default_policy_exempts_namespaces_of_the_cluster() {
    let all = policies(&[(
        "default",
        json!({ "exemptNamespaces": ["calico-system", "cattle-*", "no such'"] }),
    )]);
    let web = pod(&json!({}));
    for (namespace, expected) in [
        ("calico-system", Some(Skip::SystemNamespace)),
        ("cattle-fleet", Some(Skip::SystemNamespace)),
        ("openshift-ovn-kubernetes", Some(Skip::SystemNamespace)),
        ("hypershift", Some(Skip::SystemNamespace)),
        ("shop", None),
    ] {
        let found = all.select(namespace, &BTreeMap::new(), &web);
        assert_eq!(found.err(), expected, "{namespace}");
    }
    let complaints = all.complaints("default").join("");
    assert!(complaints.contains("no such'"), "{complaints}");
}

/// The webhook has one namespace selector, so the CRD accepts the field in the default policy only.
#[test]
fn other_policies_exempt_nothing() {
    let all = policies(&[("team", json!({ "exemptNamespaces": ["shop"] }))]);
    assert!(!all.exempt().contains("shop"));
}

fn gated(mut pod: Value) -> Value {
    pod["spec"]["schedulingGates"] = json!([{ "name": crate::names::GATE }]);
    pod
}

/// A policy that would gate, hold and reject does none of it, and pods that it holds leave the gate.
#[rstest]
#[case::assist("Assist", Ok("default"))]
#[case::off("Off", Err(Skip::ModeOff))]
fn operator_mode_stands_back(#[case] mode: &str, #[case] expected: Result<&str, Skip>) {
    let all = policies(&[
        (
            "default",
            json!({ "operatorMode": mode, "failurePolicy": "Fail" }),
        ),
        (
            "a",
            json!({
                "onMiss": "Sync", "onNoMatch": "Hold", "emulation": { "runtimeClasses": ["emulated"] },
                "podSelector": { "matchLabels": { "tier": "web" } },
            }),
        ),
        (
            "b",
            json!({ "mode": "Audit", "podSelector": { "matchLabels": { "tier": "db" } } }),
        ),
    ]);
    assert_eq!(all.failure_policy(), FailurePolicy::Ignore);
    let plain = pod(&json!({}));
    assert_eq!(chosen(&all, &[], &plain), expected.map(str::to_owned));
    for (tier, standing_back) in [("web", Mode::Warn), ("db", Mode::Audit)] {
        let new = pod(&json!({ "tier": tier }));
        if let Ok(policy) = all.select("shop", &BTreeMap::new(), &new) {
            assert_eq!(policy.mode, standing_back);
            assert_eq!(policy.admission_wait(), None);
        }
        let leaving = all.select("shop", &BTreeMap::new(), &gated(new)).unwrap();
        assert_eq!(leaving.on_no_match, OnNoMatch::Warn, "{tier}");
    }
    let held = gated(pod(&json!({ "tier": "web" })));
    let leaving = all.select("shop", &BTreeMap::new(), &held).unwrap();
    assert_eq!((leaving.name.as_str(), leaving.mode), ("a", Mode::Place));
}

/// Of all pods and states of both operators, none is gated by both, and one that the other operator does not place is
/// Medley's, unless the user decided otherwise.
#[rstest]
fn exactly_one_operator_gates_a_pod(
    #[values("Auto", "Assist", "Off")] mode: &str,
    #[values(false, true)] registered: bool,
    #[values(false, true)] selected: bool,
    #[values(false, true)] of_daemon_set: bool,
) {
    let tuning = MultiarchTuning::read(&json!({ "webhooks": [{
        "name": "pod-placement-scheduling-gate.multiarch.openshift.io",
        "namespaceSelector": { "matchLabels": { "tuned": "yes" } },
    }] }));
    let all = policies(&[("default", json!({ "operatorMode": mode }))])
        .beside(tuning.filter(|_| registered));
    let mut new = pod(&json!({}));
    if of_daemon_set {
        new["metadata"]["ownerReferences"] = json!([{ "kind": "DaemonSet", "controller": true }]);
    }
    let namespace = if selected {
        labels(&[("tuned", "yes")])
    } else {
        labels(&[])
    };
    let policy = all.select("shop", &namespace, &new);
    let ours =
        policy.is_ok_and(|policy| policy.mode == Mode::Place && policy.on_miss == OnMiss::Gate);
    let theirs = registered && selected && !of_daemon_set;
    assert!(!(ours && theirs), "gated by both");
    assert_eq!(ours, mode == "Auto" && !theirs);
}
