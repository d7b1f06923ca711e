//! What the API server accepts as a GoldenImagePolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, NAME, PLURAL, VERSION};
use crate::definition::{DIGEST, Definition, conditions, only};
use crate::ssp::GOLDEN_NAMESPACE;

/// A Go duration of zero or more.
const DURATION: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$";
/// An architecture, in the words of Go.
const ARCHITECTURE: &str = "^[a-z0-9]([a-z0-9_]*[a-z0-9])?$";

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "GoldenImagePolicy",
        plural: PLURAL,
        short: &["gip"],
        description: "GoldenImagePolicy says how golden images are kept. Only the object called default counts; without it, the defaults of the fields do.",
        columns: &[
            ("Default", ".status.nodes.defaultArchitecture"),
            ("Reason", ".status.nodes.defaultReason"),
            ("Grace", ".spec.gracePeriod"),
        ],
        name: only("GoldenImagePolicy", NAME),
        spec: spec(),
        status: status(),
    };
    kind.build()
}

fn spec() -> Value {
    json!({
        "description": "What is asked for.",
        "type": "object",
        "properties": {
            "defaultArchitecture": architecture("The architecture that names without one stand for, where there is a choice. Without it: that of the control plane, or else that of most nodes."),
            "gracePeriod": duration("How long images stay after the last node of their architecture went.", "1h"),
            "retention": {
                "description": "What is kept.",
                "type": "object",
                "properties": {
                    "importsToKeep": {
                        "description": "How many imports are kept, for images that do not say it themselves.",
                        "type": "integer", "format": "int32", "minimum": 1, "maximum": 100,
                    },
                    "history": {
                        "description": "How many earlier versions a DataSource remembers.",
                        "type": "integer", "format": "int32", "minimum": 0, "maximum": 50, "default": 10,
                    },
                },
            },
            "polling": {
                "description": "How registries are asked.",
                "type": "object",
                "properties": {
                    "jitter": duration("By how much polls are spread after the minute that is scheduled.", "5m"),
                },
            },
            "retry": {
                "description": "When what failed is tried again.",
                "type": "object",
                "properties": {
                    "initialDelay": duration("After the first failure; it doubles with every one.", "30s"),
                    "maxDelay": duration("At the latest.", "1h"),
                },
            },
            "discovery": {
                "description": "What is done with the architectures that an image really has: nothing (Off), a template that says something else gets a condition (Report), and a template that says nothing gets them (Adopt).",
                "type": "string", "enum": ["Off", "Report", "Adopt"], "default": "Report",
            },
            "sniffing": {
                "description": "What is done if a disk is for another architecture than its image says: nobody looks (Off), it is told (Warn), nothing points to it (Refuse).",
                "type": "string", "enum": ["Off", "Warn", "Refuse"], "default": "Refuse",
            },
            "unchangedContent": {
                "description": "What is done with a new image whose disk is the old one.",
                "type": "string", "enum": ["Skip", "Import"], "default": "Skip",
            },
            "images": {
                "description": "What is different for single images.",
                "type": "array",
                "maxItems": 512,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["namespace", "name"],
                "items": image(),
            },
        },
    })
}

fn image() -> Value {
    json!({
        "description": "What is different for an image.",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "description": "The DataSource, without architecture.", "type": "string", "minLength": 1, "maxLength": 253 },
            "namespace": { "description": "Where it is.", "type": "string", "minLength": 1, "maxLength": 63, "default": GOLDEN_NAMESPACE },
            "defaultArchitecture": architecture("The architecture that the name stands for."),
            "pins": {
                "description": "Versions that are held on to, whatever is new.",
                "type": "array",
                "maxItems": 16,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["architecture"],
                "items": {
                    "type": "object",
                    "required": ["digest"],
                    "properties": {
                        "architecture": { "description": "For this architecture; for an image that has none, if empty.", "type": "string", "maxLength": 32, "default": "" },
                        "digest": { "description": "The version: the digest of the manifest.", "type": "string", "pattern": DIGEST },
                        "reason": { "description": "Why, for those who find it.", "type": "string", "maxLength": 1024 },
                    },
                },
            },
        },
    })
}

fn status() -> Value {
    let texts = json!({ "type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 64, "items": { "type": "string" } });
    let text = json!({ "type": "string" });
    json!({
        "description": "What is seen.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer", "format": "int64" },
            "conditions": conditions(),
            "nodes": {
                "description": "The architectures of the nodes.",
                "type": "object",
                "properties": {
                    "workload": texts, "controlPlane": texts, "ignored": texts,
                    "defaultArchitecture": text, "defaultReason": text,
                },
            },
            "images": {
                "description": "The images.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["namespace", "name"],
                    "properties": {
                        "namespace": text, "name": text,
                        "defaultArchitecture": text, "defaultReason": text,
                        "architectures": {
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": {
                                "type": "object",
                                "required": ["state"],
                                "properties": {
                                    "architecture": text, "dataSource": text, "state": text,
                                    "reason": text, "digest": text,
                                    "leavesAt": { "type": "string", "format": "date-time" },
                                },
                            },
                        },
                    },
                },
            },
        },
    })
}

fn architecture(description: &str) -> Value {
    json!({ "description": description, "type": "string", "maxLength": 32, "pattern": ARCHITECTURE })
}

fn duration(description: &str, default: &str) -> Value {
    let description = format!("{description} A Go duration such as 30s or 2h.");
    json!({ "description": description, "type": "string", "pattern": DURATION, "maxLength": 32, "default": default })
}
