//! What the API server accepts as a ReleasePolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, NAME, PLURAL, PayloadSource, VERSION};
use crate::definition::{Definition, conditions, only};

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "ReleasePolicy",
        plural: PLURAL,
        short: &["relp"],
        description: "ReleasePolicy says how Medley judges whether a cluster has arrived at a release, and what it found. Only the object called default counts; without it, the defaults of the fields do.",
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
        "An image with the release: a pull specification, or {} for the one that the cluster runs or is on its way to. It is read from its registry.",
        PayloadSource::DESIRED
    );
    json!({
        "description": "What is asked for.",
        "type": "object",
        "properties": {
            "mode": {
                "description": "What Medley does with the ClusterVersion: it looks on beside the cluster version operator and writes nothing there (Observe), or keeps its status where nobody else does (Own).",
                "type": "string", "enum": ["Observe", "Own"], "default": "Observe",
            },
            "payload": {
                "description": "Where the files of the release are. If nobody says: in a ConfigMap in the namespace openshift-cluster-version with the label medley.dev/release-payload=true, whose annotation medley.dev/release-image is the image of the release.",
                "type": "object",
                "properties": {
                    "configMap": {
                        "description": "A ConfigMap, whose keys are the names of the files.",
                        "type": "object",
                        "required": ["namespace", "name"],
                        "properties": {
                            "namespace": named("Where it is."),
                            "name": named("What it is called."),
                        },
                    },
                    "folder": {
                        "description": "A folder of the operator, below one that --payload-folder of `medley run` names.",
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
                "description": "Whether a release is complete before all machine config pools are: the machines of workers never hold it up, as upstream (Ignore), or they do (Require).",
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
        "description": "What is seen.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer", "format": "int64" },
            "conditions": conditions(),
            "target": {
                "description": "The release that the cluster runs or is on its way to.",
                "type": "object",
                "properties": {
                    "version": text, "image": text, "architecture": text, "change": text,
                    "startedTime": time, "completionTime": time,
                },
            },
            "progress": {
                "description": "How far it has come.",
                "type": "object",
                "required": ["operators", "arrived", "reporting", "manifests", "done"],
                "properties": {
                    "operators": count, "arrived": count, "reporting": count,
                    "manifests": count, "done": count,
                },
            },
            "operators": list("Every operator of the release.", "name", &operator),
            "pools": list("Every pool of machines.", "name", &pool),
            "history": list("How long operators were waited for, the last times.", "operator", &took),
        },
    })
}
