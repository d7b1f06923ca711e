//! The CustomResourceDefinition of ReleasePolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, NAME, PLURAL, PayloadSource, VERSION};
use crate::definition::{Definition, conditions, only};

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "ReleasePolicy",
        plural: PLURAL,
        short: &["relp"],
        description: "ReleasePolicy configures how Medley verifies that a cluster has completed the update to a release, and reports the result. Only the object named default is used; without it, the field defaults apply.",
        columns: &[
            ("Mode", ".spec.mode"),
            ("Version", ".status.target.version"),
            (
                "Complete",
                ".status.conditions[?(@.type==\"Complete\")].status",
            ),
            ("Agrees", ".status.conditions[?(@.type==\"Agrees\")].status"),
            (
                "Status",
                ".status.conditions[?(@.type==\"Progressing\")].message",
            ),
        ],
        name: only("ReleasePolicy", NAME),
        spec: spec(),
        status: status(),
    };
    kind.build()
}

fn spec() -> Value {
    let named = |description: &str| json!({ "description": description, "type": "string", "minLength": 1, "maxLength": 253 });
    let image = format!(
        "The release image: a pull specification, or {} for the release the cluster runs or is updating to. It is read from its registry.",
        PayloadSource::DESIRED
    );
    json!({
        "description": "The desired configuration.",
        "type": "object",
        "properties": {
            "mode": {
                "description": "What Medley does with the ClusterVersion: only read it, beside the cluster version operator (Observe), or maintain its status in clusters without that operator (Own).",
                "type": "string", "enum": ["Observe", "Own"], "default": "Observe",
            },
            "payload": {
                "description": "Where the manifests of the release are read from. Defaults to a ConfigMap in namespace openshift-cluster-version with the label medley.dev/release-payload=true whose annotation medley.dev/release-image is the release image.",
                "type": "object",
                "properties": {
                    "configMap": {
                        "description": "The ConfigMap with the release manifests; its keys are file names.",
                        "type": "object",
                        "required": ["namespace", "name"],
                        "properties": {
                            "namespace": named("The namespace."),
                            "name": named("The name."),
                        },
                    },
                    "folder": {
                        "description": "A folder in the operator's file system, below one given to `medley run --payload-folder`.",
                        "type": "string", "minLength": 1, "maxLength": 4096,
                    },
                    "image": { "description": image, "type": "string", "minLength": 1, "maxLength": 1024 },
                },
                "x-kubernetes-validations": [{
                    "rule": "[has(self.configMap), has(self.folder), has(self.image)].filter(it, it).size() <= 1",
                    "message": "say one of configMap, folder and image",
                }],
            },
            "workerPools": {
                "description": "Whether an update is complete before all MachineConfigPools are updated: worker pools do not block completion, as in OpenShift (Ignore), or they do (Require).",
                "type": "string", "enum": ["Ignore", "Require"], "default": "Ignore",
            },
        },
    })
}

fn status() -> Value {
    let text = json!({ "type": "string" });
    let count = json!({ "type": "integer", "format": "int32" });
    let time = json!({ "type": "string", "format": "date-time" });
    let yes = json!({ "type": "boolean" });
    let list = |description: &str, key: &str, items: &Value| {
        json!({
            "description": description,
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [key],
            "items": items,
        })
    };
    let undone = json!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["name", "to", "reason"],
            "properties": {
                "name": text, "from": text, "to": text, "reason": text, "message": text,
            },
        },
    });
    let operator = json!({
        "type": "object",
        "required": ["name", "state"],
        "properties": {
            "name": text, "state": text, "reportsImage": yes, "waitingSince": time, "undone": undone,
        },
    });
    let pool = json!({
        "type": "object",
        "required": ["name", "machines", "updated", "done"],
        "properties": {
            "name": text, "machines": count, "updated": count, "done": yes, "message": text,
        },
    });
    let took = json!({
        "type": "object",
        "required": ["operator"],
        "properties": {
            "operator": text,
            "tookSeconds": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": { "type": "integer", "format": "int64" },
            },
        },
    });
    json!({
        "description": "The observed state.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer", "format": "int64" },
            "conditions": conditions(),
            "target": {
                "description": "The release the cluster runs or is updating to.",
                "type": "object",
                "properties": {
                    "version": text, "image": text, "architecture": text, "change": text,
                    "startedTime": time, "completionTime": time,
                },
            },
            "progress": {
                "description": "The progress of the update.",
                "type": "object",
                "required": ["operators", "arrived", "reporting", "manifests", "done"],
                "properties": {
                    "operators": count, "arrived": count, "reporting": count,
                    "manifests": count, "done": count,
                },
            },
            "operators": list("The ClusterOperators of the release.", "name", &operator),
            "pools": list("The MachineConfigPools.", "name", &pool),
            "history": list("How long recent updates waited for operators.", "operator", &took),
        },
    })
}
