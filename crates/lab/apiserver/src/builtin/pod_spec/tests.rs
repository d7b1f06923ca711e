//! Pod specs: errors and warnings.

use rstest::rstest;
use serde_json::{Value, json};

use crate::builtin::tests::{create_errors, created, find};
use crate::builtin::value::{Read, set};

fn pod(path: &str, value: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "img" }] },
    });
    set(&mut pod, path, value);
    pod
}

fn container(fields: &Value) -> Value {
    let mut container = json!({ "name": "c", "image": "img" });
    for (key, value) in fields.entries("") {
        set(&mut container, key, value.clone());
    }
    pod("spec.containers", json!([container]))
}

#[rstest]
#[case(pod("spec.containers", json!([])), &["spec.containers: Required value"])]
#[case(pod("spec.containers", json!([{ "name": "c" }])), &["spec.containers[0].image: Required value"])]
#[case(
    pod("spec.containers", json!([{ "name": "c", "image": "a" }, { "name": "c", "image": "b" }])),
    &["spec.containers[1].name: Duplicate value: \"c\""]
)]
#[case(
    pod("spec.restartPolicy", json!("Sometimes")),
    &["spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\""]
)]
#[case(
    container(&json!({ "ports": [{ "containerPort": 0 }, { "containerPort": 70000 }] })),
    &[
        "spec.containers[0].ports[0].containerPort: Required value",
        "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ]
)]
#[case(
    container(&json!({ "volumeMounts": [{ "name": "v", "mountPath": "/d" }] })),
    &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""]
)]
#[case(
    container(&json!({ "env": [{ "name": "A=B", "value": "1" }] })),
    &["spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='"]
)]
#[case(
    container(&json!({ "livenessProbe": {} })),
    &["spec.containers[0].livenessProbe: Required value: must specify a handler type"]
)]
#[case(
    container(&json!({ "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1" } } })),
    &["spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"]
)]
#[case(
    pod("spec.volumes", json!([{ "name": "v", "emptyDir": {}, "hostPath": { "path": "/x" } }])),
    &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"]
)]
#[case(
    pod("spec.tolerations", json!([{ "operator": "Equal", "value": "x" }])),
    &["spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\""]
)]
#[case(
    pod("spec.os", json!({ "name": "beos" })),
    &["spec.os: Unsupported value: \"beos\": supported values: \"linux\", \"windows\""]
)]
fn validation_errors_match_upstream(#[case] given: Value, #[case] expected: &[&str]) {
    assert_eq!(create_errors(&given), expected);
}

#[test]
fn windows_pod_rejects_linux_settings() {
    let mut given = pod("spec.os", json!({ "name": "windows" }));
    set(
        &mut given,
        "spec.securityContext",
        json!({ "runAsUser": 1, "fsGroup": 2 }),
    );
    assert_eq!(
        create_errors(&given),
        [
            "spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
            "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
        ]
    );
}

#[rstest]
#[case("img", "Always")]
#[case("img:latest", "Always")]
#[case("img:1", "IfNotPresent")]
#[case("host:5000/img", "Always")]
#[case("img@sha256:aa", "IfNotPresent")]
#[case("Img", "IfNotPresent")]
fn pull_policy_follows_the_tag(#[case] image: &str, #[case] expected: &str) {
    let object = created(&container(&json!({ "image": image })));
    assert_eq!(
        object.items("spec.containers")[0].text("imagePullPolicy"),
        expected
    );
}

#[rstest]
#[case(
    pod("spec.nodeSelector", json!({ "beta.kubernetes.io/os": "linux" })),
    "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"
)]
#[case(
    container(&json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2" }] })),
    "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply"
)]
fn suspicious_fields_cause_warnings(#[case] given: Value, #[case] expected: &str) {
    let findings = find(&given).1.validate_create(&created(&given));
    assert_eq!(findings.warnings, [expected]);
}
