//! The CustomResourceDefinition of GoldenImagePolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, NAME, PLURAL, VERSION};
use crate::definition::{DIGEST, Definition, conditions, only};
use crate::ssp::GOLDEN_NAMESPACE;

/// A non-negative Go duration.
const DURATION: &str = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$";
/// An architecture as in GOARCH.
const ARCHITECTURE: &str = "^[a-z0-9]([a-z0-9_]*[a-z0-9])?$";

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "GoldenImagePolicy",
        plural: PLURAL,
        short: &["gip"],
        description: "GoldenImagePolicy configures how golden images are imported and retained. Only the object named default is used; without it, the field defaults apply.",
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
        "description": "The desired configuration.",
        "type": "object",
        "properties": {
            "defaultArchitecture": architecture("The architecture that DataSource names without architecture refer to, if there are several. Defaults to that of the control plane, or else that of most nodes."),
            "gracePeriod": duration("How long images are kept after the last node of their architecture has been removed.", "1h"),
            "retention": {
                "description": "The retention of imports and history.",
                "type": "object",
                "properties": {
                    "importsToKeep": {
                        "description": "How many imports are kept for images that do not set importsToKeep.",
                        "type": "integer", "format": "int32", "minimum": 1, "maximum": 100,
                    },
                    "history": {
                        "description": "How many earlier versions are recorded in the history of a DataSource.",
                        "type": "integer", "format": "int32", "minimum": 0, "maximum": 50, "default": 10,
                    },
                },
            },
            "polling": {
                "description": "How registries are polled for new versions.",
                "type": "object",
                "properties": {
                    "jitter": duration("The maximum random delay of a poll after its scheduled time, which spreads the load on registries.", "5m"),
                },
            },
            "retry": {
                "description": "Backoff of failed imports and polls.",
                "type": "object",
                "properties": {
                    "initialDelay": duration("The delay after the first failure; it doubles with each further failure.", "30s"),
                    "maxDelay": duration("The longest delay between retries.", "1h"),
                },
            },
            "discovery": {
                "description": "How the architectures found in an image are used: not at all (Off), a template that declares others gets a condition (Report), or in addition a template that declares none gets them (Adopt).",
                "type": "string", "enum": ["Off", "Report", "Adopt"], "default": "Report",
            },
            "sniffing": {
                "description": "What happens if a disk boots on another architecture than its image declares: the disk is not checked (Off), a warning event is emitted (Warn), or no DataSource refers to the import (Refuse).",
                "type": "string", "enum": ["Off", "Warn", "Refuse"], "default": "Refuse",
            },
            "unchangedContent": {
                "description": "What happens with a new image version whose disk contents are unchanged.",
                "type": "string", "enum": ["Skip", "Import"], "default": "Skip",
            },
            "images": {
                "description": "Settings of single images, which override those of the policy.",
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
        "description": "Settings of one image.",
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "description": "The name of the DataSource without the architecture suffix.", "type": "string", "minLength": 1, "maxLength": 253 },
            "namespace": { "description": "The namespace.", "type": "string", "minLength": 1, "maxLength": 63, "default": GOLDEN_NAMESPACE },
            "defaultArchitecture": architecture("The architecture that the name without architecture refers to."),
            "pins": {
                "description": "Versions the DataSource stays at, regardless of newer imports.",
                "type": "array",
                "maxItems": 16,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["architecture"],
                "items": {
                    "type": "object",
                    "required": ["digest"],
                    "properties": {
                        "architecture": { "description": "The architecture; empty for an image without architecture.", "type": "string", "maxLength": 32, "default": "" },
                        "digest": { "description": "The version: the digest of the manifest.", "type": "string", "pattern": DIGEST },
                        "reason": { "description": "Why the version is pinned.", "type": "string", "maxLength": 1024 },
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
        "description": "The observed state.",
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
