//! When the descheduler runs with its configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::snapshot::Kind;

const NAMESPACE: &str = "openshift-kube-descheduler-operator";
const PSI: &str = "profile KubeVirtRelieveAndMigrate can only be used when PSI metrics are enabled for the worker nodes";

/// The third generation of a configuration, with these conditions.
fn live(conditions: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
        "metadata": { "name": "cluster", "namespace": NAMESPACE, "generation": 3 },
        "spec": {}, "status": { "conditions": conditions },
    }))
    .unwrap()
}

fn accepted() -> Value {
    json!([{ "type": DEGRADED, "status": "False" }])
}

fn rejected() -> Value {
    json!([{ "type": DEGRADED, "status": "True", "reason": PSI }])
}

/// A Deployment in its second generation that was made from a generation of the configuration and runs.
fn deployment(made_from: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": OPERAND, "namespace": NAMESPACE, "generation": 2 },
        "spec": { "replicas": 1, "template": { "metadata": { "annotations": { GENERATION: made_from } } } },
        "status": { "observedGeneration": 2, "conditions": [{ "type": "Available", "status": "True" }] },
    })
}

fn health(conditions: &Value, deployment: Option<Value>) -> Health {
    let mut snapshot = Snapshot::default();
    let objects = deployment.into_iter().map(|value| {
        let key = (NAMESPACE.to_owned(), OPERAND.to_owned());
        (key, Arc::new(serde_json::from_value(value).unwrap()))
    });
    let kind = Kind {
        version: "v1".to_owned(),
        plural: "deployments".to_owned(),
        definition: None,
        objects: objects.collect::<BTreeMap<_, _>>(),
    };
    snapshot.insert(DEPLOYMENT, kind);
    runs(&live(conditions), &snapshot)
}

#[test]
fn descheduler_that_runs_the_generation_is_healthy() {
    let verdict = health(&accepted(), Some(deployment("3")));
    assert_eq!(verdict, Health::Healthy("Applied successfully".to_owned()));
}

#[track_caller]
fn assert_waits(verdict: &Health, expected: &str) {
    assert!(matches!(verdict, Health::Waiting { .. }), "{verdict:?}");
    assert_eq!(verdict.message(), expected);
}

/// Only a fault is unhealthy once the descheduler was running.
#[rstest]
#[case::rejected(rejected(), Some(deployment("3")), true)]
#[case::takes_up(accepted(), Some(deployment("2")), false)]
fn faults_and_progress_differ(
    #[case] conditions: Value,
    #[case] deployment: Option<Value>,
    #[case] expected: bool,
) {
    let verdict = health(&conditions, deployment);
    assert!(
        matches!(verdict, Health::Waiting { fault, .. } if fault == expected),
        "{verdict:?}"
    );
}

#[test]
fn deployment_that_cannot_be_read_is_not_judged() {
    let mut snapshot = Snapshot::default();
    snapshot.insert_unreadable(DEPLOYMENT, "forbidden".to_owned());
    let verdict = runs(&live(&accepted()), &snapshot);
    let why = "Deployment descheduler cannot be read: forbidden";
    assert_eq!(verdict, Health::unseen(why.to_owned()));
}

const TAKE_UP: &str = "Waiting for the descheduler operator to take up generation 3";

#[rstest]
#[case::nothing_yet(json!([]), None, TAKE_UP)]
#[case::no_deployment(accepted(), None, TAKE_UP)]
#[case::earlier_generation(accepted(), Some(deployment("2")), TAKE_UP)]
#[case::unreadable_generation(accepted(), Some(deployment("x")), TAKE_UP)]
#[case::never_reported(
    json!([]), Some(deployment("3")),
    "Waiting for the descheduler operator to report TargetConfigControllerDegraded"
)]
#[case::rejected(rejected(), None, &format!("KubeDescheduler is degraded: {PSI}"))]
#[case::rejected_later(rejected(), Some(deployment("3")), &format!("KubeDescheduler is degraded: {PSI}"))]
fn descheduler_is_waited_for(
    #[case] conditions: Value,
    #[case] deployment: Option<Value>,
    #[case] expected: &str,
) {
    assert_waits(&health(&conditions, deployment), expected);
}

#[rstest]
#[case::scaled_to_zero("/spec/replicas", json!(0), "Deployment descheduler is scaled to zero")]
#[case::not_rolled_out(
    "/status/observedGeneration", json!(1),
    "Waiting for Deployment descheduler to become available"
)]
#[case::no_pod_runs(
    "/status/conditions/0",
    json!({ "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable" }),
    "Waiting for Deployment descheduler to become available: MinimumReplicasUnavailable"
)]
#[case::no_status("/status", json!(null), "Waiting for Deployment descheduler to become available")]
fn deployment_has_to_be_available(
    #[case] field: &str,
    #[case] value: Value,
    #[case] expected: &str,
) {
    let mut changed = deployment("3");
    *changed.pointer_mut(field).unwrap() = value;
    assert_waits(&health(&accepted(), Some(changed)), expected);
}

#[test]
fn rejection_of_a_running_configuration_is_a_regression() {
    assert_eq!(degraded(&live(&accepted())), None);
    assert_eq!(degraded(&live(&json!([]))), None);
    let expected = format!("KubeDescheduler is degraded: {PSI}");
    assert_eq!(degraded(&live(&rejected())), Some(expected));
}

proptest! {
    /// Healthy requires the complete proof.
    #[test]
    fn degraded_descheduler_is_never_healthy(
        condition in prop::option::of(any::<bool>()),
        made_from in 2..4_i64,
        replicas in 0..2_i64,
        observed in 1..3_i64,
        available in any::<bool>(),
    ) {
        let text = |holds: bool| if holds { "True" } else { "False" };
        let conditions = condition.map(|holds| json!({ "type": DEGRADED, "status": text(holds) }));
        let conditions: Vec<Value> = conditions.into_iter().collect();
        let mut deployment = deployment(&made_from.to_string());
        deployment["spec"]["replicas"] = json!(replicas);
        deployment["status"]["observedGeneration"] = json!(observed);
        deployment["status"]["conditions"][0]["status"] = json!(text(available));
        let proven = condition == Some(false) && made_from == 3 && replicas == 1 && observed == 2 && available;
        let verdict = health(&json!(conditions), Some(deployment));
        prop_assert_eq!(matches!(verdict, Health::Healthy(_)), proven, "{:?}", verdict);
    }
}
