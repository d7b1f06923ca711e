//! The OpenShift kinds that describe the release of a cluster, with the fields needed in tests.

use serde_json::{Value, json};

/// The CRDs of ClusterVersion, ClusterOperator and MachineConfigPool.
pub fn openshift_crds() -> [Value; 3] {
    [
        ("config.openshift.io", "ClusterVersion", "clusterversions"),
        ("config.openshift.io", "ClusterOperator", "clusteroperators"),
        (
            "machineconfiguration.openshift.io",
            "MachineConfigPool",
            "machineconfigpools",
        ),
    ]
    .map(|(group, kind, plural)| definition(group, kind, plural))
}

/// A CRD like OpenShift's, as far as tests need it.
fn definition(group: &str, kind: &str, plural: &str) -> Value {
    let text = || json!({ "type": "string" });
    let open = || json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let conditions = json!({ "type": "array", "items": {
        "type": "object", "required": ["type", "status"], "properties": {
            "type": text(), "status": text(), "reason": text(), "message": text(),
            "lastTransitionTime": { "type": "string", "format": "date-time" },
        },
    } });
    let release = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "version": text(), "image": text(),
        "architecture": { "type": "string", "enum": ["Multi", ""] },
    } });
    let (spec, status) = match kind {
        "ClusterVersion" => (
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "required": ["clusterID"], "properties": { "desiredUpdate": {
                    "type": "object", "properties": {
                        "architecture": { "type": "string", "enum": ["Multi", ""] },
                        "version": text(), "image": text(), "force": { "type": "boolean" },
                    },
                    "x-kubernetes-validations": [
                        { "rule": "has(self.architecture) && has(self.image) ? (self.architecture == \"\" || self.image == \"\") : true",
                          "message": "cannot set both Architecture and Image" },
                        { "rule": "has(self.architecture) && self.architecture != \"\" ? self.version != \"\" : true",
                          "message": "Version must be set if Architecture is set" },
                    ],
                } } }),
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "desired": release, "conditions": conditions,
                "availableUpdates": { "type": "array", "nullable": true, "items": open() },
                "history": { "type": "array", "items": {
                    "type": "object", "required": ["state", "startedTime", "image", "verified"],
                    "properties": {
                        "state": text(), "version": text(), "image": text(),
                        "verified": { "type": "boolean" }, "acceptedRisks": text(),
                        "startedTime": { "type": "string", "format": "date-time" },
                        "completionTime": { "type": "string", "format": "date-time", "nullable": true },
                    },
                } },
            } }),
        ),
        "ClusterOperator" => (
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": {
                "conditions": conditions,
                "versions": { "type": "array", "items": {
                    "type": "object", "required": ["name", "version"],
                    "properties": { "name": text(), "version": text() },
                } },
                "relatedObjects": { "type": "array", "items": {
                    "type": "object", "required": ["group", "resource", "name"], "properties": {
                        "group": text(), "resource": text(), "namespace": text(), "name": text(),
                    },
                } },
                "extension": { "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true },
            } }),
        ),
        _ => (open(), open()),
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "required": ["spec"],
                    "properties": { "spec": spec, "status": status },
                } },
            }],
        },
    })
}
