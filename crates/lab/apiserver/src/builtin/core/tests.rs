//! The other core kinds.

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::event::{to_core, to_events_v1};
use crate::builtin::tests::{create_errors, created, find, update_errors};
use crate::builtin::value::Read;

fn service(spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" }, "spec": spec })
}

#[rstest]
#[case(json!({ "clusterIP": "None", "selector": { "a": "b" } }), json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "clusterIPs": ["None"] }))]
#[case(json!({ "clusterIP": "None" }), json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" }))]
#[case(json!({ "sessionAffinity": "ClientIP", "ports": [{ "port": 1 }] }), json!({ "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 10800 } } }))]
#[case(json!({ "type": "NodePort", "ports": [{ "port": 1, "targetPort": "web" }] }), json!({ "externalTrafficPolicy": "Cluster", "ports": [{ "port": 1, "protocol": "TCP", "targetPort": "web" }] }))]
fn services_are_defaulted(#[case] spec: Value, #[case] expected: Value) {
    let object = created(&service(&spec));
    for (field, value) in expected.entries("") {
        assert_eq!(object.at("spec").at(field), value, "{field}");
    }
}

#[rstest]
#[case(service(&json!({ "clusterIP": "10.0.0.9" })), &["spec.ports: Required value"])]
#[case(
    service(&json!({ "clusterIP": "10.0.0.9", "ports": [{ "port": 80 }, { "port": 80 }] })),
    &[
        "spec.ports[0].name: Required value",
        "spec.ports[1].name: Required value",
        "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}",
    ]
)]
#[case(
    service(&json!({ "clusterIP": "10.0.0.09", "ports": [{ "port": 80 }] })),
    &["spec.clusterIPs[0]: Invalid value: \"10.0.0.09\": must not have leading 0s"]
)]
#[case(
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": { "a b": "" } }),
    &["data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"]
)]
#[case(
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "type": "kubernetes.io/tls" }),
    &["data[tls.crt]: Required value", "data[tls.key]: Required value"]
)]
#[case(
    json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e" }, "involvedObject": { "namespace": "other" } }),
    &["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"]
)]
#[case(
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": { "taints": [{ "key": "k", "effect": "X" }] } }),
    &["metadata.taints[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\""]
)]
fn validation_errors_match_upstream(#[case] given: Value, #[case] expected: &[&str]) {
    assert_eq!(create_errors(&given), expected);
}

#[test]
fn immutable_data_is_kept() {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" },
        "data": { "a": "1" }, "immutable": true,
    });
    assert_eq!(
        update_errors(&map, &[("data", json!({ "a": "2" }))]),
        ["data: Forbidden: field is immutable when `immutable` is set"]
    );
}

#[test]
fn cluster_ip_is_immutable() {
    let given = service(&json!({ "clusterIP": "10.0.0.9", "ports": [{ "port": 80 }] }));
    let errors = update_errors(&given, &[("spec.clusterIP", json!("10.0.0.10"))]);
    assert_eq!(
        errors,
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.10\"]: may not change once set"]
    );
}

#[test]
fn claim_spec_is_immutable() {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "c" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let errors = update_errors(&claim, &[("spec.accessModes", json!(["ReadWriteMany"]))]);
    assert_eq!(
        errors,
        [
            "spec: Forbidden: spec is immutable after creation except resources.requests and \
          volumeAttributesClassName for bound claims\n@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \
          \"ReadWriteOnce\"\n+  \"ReadWriteMany\"\n  ],\n  \"Selector\": null,\n  \"Resources\": {\n"
        ]
    );
}

#[test]
fn string_data_is_merged_into_data() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" },
        "stringData": { "a": "b" },
    });
    let object = created(&secret);
    assert_eq!(object.at("data"), &json!({ "a": "Yg==" }));
    assert!(!object.has("stringData"));
}

#[test]
fn events_convert_in_both_directions() {
    let core = created(&json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e" }, "message": "m",
        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default" },
        "source": { "component": "kubelet" }, "count": 2, "reportingComponent": "kubelet",
        "firstTimestamp": "2026-11-15T21:00:00Z",
    }));
    let other = to_events_v1(&core);
    assert_eq!(other.text("apiVersion"), "events.k8s.io/v1");
    assert_eq!(other.text("note"), "m");
    assert_eq!(other.text("regarding.name"), "p");
    assert_eq!(other.number("deprecatedCount"), 2);
    assert_eq!(other.text("reportingController"), "kubelet");
    assert_eq!(to_core(&other), core);
}

#[test]
fn node_table_has_status_and_roles() {
    let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "n", "labels": { "node-role.kubernetes.io/worker": "" } },
        "spec": { "unschedulable": true },
        "status": {
            "conditions": [{ "type": "Ready", "status": "True" }],
            "nodeInfo": { "architecture": "arm64", "kernelVersion": "6.1" },
        },
    });
    let cells = find(&node).1.cells(&node, now);
    assert_eq!(cells[1], "Ready,SchedulingDisabled");
    assert_eq!(cells[2], "worker");
    assert_eq!(cells[8], "6.1 (arm64)");
}
