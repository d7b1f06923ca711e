//! Workloads: selectors, templates, strategies.

use rstest::rstest;
use serde_json::{Value, json};

use crate::builtin::tests::{context, create_errors, created, find, update_errors};
use crate::builtin::value::{Read, set};
use crate::kind::Part;

fn workload(kind: &str, changes: &[(&str, Value)]) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "w" },
        "spec": {
            "selector": { "matchLabels": { "app": "w" } },
            "template": {
                "metadata": { "labels": { "app": "w" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] },
            },
        },
    });
    for (path, value) in changes {
        set(&mut object, path, value.clone());
    }
    object
}

#[rstest]
#[case("spec.template.spec.containers", json!([]), &["spec.template.spec.containers: Required value"])]
#[case(
    "spec.selector",
    json!({ "matchLabels": { "x": "y" } }),
    &["spec.template.metadata.labels: Invalid value: {\"app\":\"w\"}: `selector` does not match template `labels`"]
)]
#[case(
    "spec.replicas",
    json!(-1),
    &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]
)]
#[case(
    "spec.strategy",
    json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } }),
    &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"]
)]
#[case(
    "spec.template.spec.restartPolicy",
    json!("Never"),
    &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""]
)]
fn invalid_deployments_are_rejected(
    #[case] path: &str,
    #[case] value: Value,
    #[case] expected: &[&str],
) {
    assert_eq!(
        create_errors(&workload("Deployment", &[(path, value)])),
        expected
    );
}

#[test]
fn selectors_are_immutable() {
    let change = [(
        "spec.selector",
        json!({ "matchLabels": { "app": "other" } }),
    )];
    let errors = update_errors(&workload("Deployment", &[]), &change);
    assert_eq!(
        errors,
        [
            "spec.template.metadata.labels: Invalid value: {\"app\":\"w\"}: `selector` does not \
             match template `labels`",
            "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"other\"}}: field is immutable",
        ]
    );
}

#[test]
fn stateful_set_service_name_is_immutable() {
    let given = workload("StatefulSet", &[("spec.serviceName", json!("s"))]);
    assert_eq!(
        update_errors(&given, &[("spec.replicas", json!(3))]),
        [""; 0]
    );
    let errors = update_errors(&given, &[("spec.serviceName", json!("t"))]);
    assert_eq!(
        errors,
        [
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', \
          'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', \
          'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        ]
    );
}

#[test]
fn deployment_annotations_start_a_generation() {
    let old = created(&workload("Deployment", &[]));
    let strategy = find(&old).1;
    let mut new = old.clone();
    set(&mut new, "metadata.annotations", json!({ "a": "b" }));
    assert!(strategy.new_generation(&new, &old, Part::Main));
    assert!(!strategy.new_generation(&new, &old, Part::Status));
    assert!(!strategy.new_generation(&old, &old, Part::Main));
}

#[test]
fn daemon_set_template_change_is_counted() {
    let old = created(&workload("DaemonSet", &[]));
    let strategy = find(&old).1;
    let key = "deprecated.daemonset.template.generation";
    for (path, value, expected) in [
        ("spec.minReadySeconds", json!(1), "1"),
        ("spec.template.spec.hostNetwork", json!(true), "2"),
    ] {
        let mut new = old.clone();
        set(&mut new, path, value);
        strategy.prepare_update(&mut new, &old, Part::Main, context());
        assert_eq!(new.annotation(key), Some(expected), "{path}");
    }
}
