//! What the API server accepts as a PlacementPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, NAME, PLURAL, VERSION};
use crate::definition::{Definition, conditions};

/// A word as labels, architectures and operating systems are made of.
const WORD: &str = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";
/// The key of a label or taint.
const KEY: &str = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";
/// The name of a kind.
const KIND: &str = "^[A-Z][A-Za-z0-9]*$";
/// The name of a namespace.
const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The name of a RuntimeClass or a Secret.
const CLASS: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The definition of the kind.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "PlacementPolicy",
        plural: PLURAL,
        short: &["plp"],
        description: "PlacementPolicy says which pods are placed by what their images are for, and how. Of several that select a pod, the one with the highest priority counts, as a whole; of equals the first by name; the one called default comes last. Without default, pods that no policy selects are placed as the defaults of the fields say; with it, they are left alone.",
        columns: &[
            ("Priority", ".spec.priority"),
            ("Mode", ".spec.mode"),
            ("On-Miss", ".spec.onMiss"),
            ("On-No-Match", ".spec.onNoMatch"),
            ("Held", ".status.pods.held"),
        ],
        name: (
            format!("self.metadata.name == '{NAME}' || !has(self.spec.failurePolicy)"),
            format!(
                "failurePolicy is about all pods, also those of other policies: only the policy '{NAME}' can say it"
            ),
        ),
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
            "priority": {
                "description": "Of several policies that select a pod, the one with the highest priority counts. The policy called default comes last, whatever it says here.",
                "type": "integer", "format": "int32", "minimum": 0, "maximum": 1_000_000, "default": 0,
            },
            "namespaceSelector": selector("Pods of namespaces with these labels; of all namespaces, if it is not given. Namespaces whose names begin with kube-, and that of Medley, are always left alone."),
            "podSelector": selector("Pods with these labels; all, if it is not given."),
            "ignoredOwners": {
                "description": "Kinds of owners whose pods are left alone, such as DaemonSet.",
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 63, "pattern": KIND },
            },
            "mode": {
                "description": "Whether pods are changed (Place), whoever makes one that runs nowhere is warned (Warn), or it is counted and in the audit log only (Audit).",
                "type": "string", "enum": ["Place", "Warn", "Audit"], "default": "Place",
            },
            "onMiss": {
                "description": "What becomes of a pod with images that nobody has looked at yet: it waits at a scheduling gate (Gate), whoever makes it waits, and only then it waits at a gate (Sync), or it is left alone (Ignore).",
                "type": "string", "enum": ["Gate", "Sync", "Ignore"], "default": "Gate",
            },
            "onNoMatch": {
                "description": "What becomes of a pod whose images run on no node: it is refused (Reject), it waits at a scheduling gate until there is such a node (Hold), or it is let in for nodes that could run it, with a warning (Warn). A pod that exists already is not refused but held.",
                "type": "string", "enum": ["Reject", "Hold", "Warn"], "default": "Warn",
            },
            "weights": {
                "description": "How much pods should prefer architectures that they can run on.",
                "type": "array",
                "maxItems": 32,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["architecture"],
                "items": {
                    "type": "object",
                    "required": ["architecture", "weight"],
                    "properties": {
                        "architecture": word("The architecture, as in kubernetes.io/arch."),
                        "weight": { "description": "How much, from 1 to 100.", "type": "integer", "format": "int32", "minimum": 1, "maximum": 100 },
                    },
                },
            },
            "fallbackArchitecture": word("The architecture of images that nobody can look at. Without it, such an image does not count."),
            "operatingSystem": {
                "description": "What is meant by images for several operating systems, if the pod does not say it.",
                "type": "string", "enum": ["linux", "windows"], "default": "linux",
            },
            "toleratedTaints": {
                "description": "Keys of taints that pods are made to tolerate on nodes that run their images. If it is not given: kubernetes.io/arch.",
                "type": "array",
                "maxItems": 32,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 317, "pattern": KEY },
            },
            "emulation": {
                "description": "What may run images that no node is made for.",
                "type": "object",
                "properties": {
                    "runtimeClasses": {
                        "description": "RuntimeClasses that a pod without one may be given when nothing else fits, the best first. Since a class can be set only as a pod is made, images are then looked at while whoever makes it waits, as with onMiss Sync.",
                        "type": "array",
                        "maxItems": 16,
                        "x-kubernetes-list-type": "atomic",
                        "items": { "type": "string", "minLength": 1, "maxLength": 253, "pattern": CLASS },
                    },
                },
            },
            "timeouts": {
                "description": "How long is waited.",
                "type": "object",
                "properties": {
                    "gateSeconds": {
                        "description": "The most seconds that a pod waits at the gate for a registry. Afterwards it goes where the fallback architecture is, or anywhere if there is none.",
                        "type": "integer", "format": "int32", "minimum": 1, "maximum": 3600, "default": 10,
                    },
                    "syncMilliseconds": {
                        "description": "The most milliseconds that whoever makes a pod waits for a registry. The API server waits ten seconds for everything.",
                        "type": "integer", "format": "int32", "minimum": 10, "maximum": 8000, "default": 2000,
                    },
                },
            },
            "pullSecrets": {
                "description": "Which pull secrets images are inspected with. Credentials that the operator and the admission check are given by file count in every mode.",
                "type": "object",
                "properties": {
                    "mode": {
                        "description": "Where the names of pull secrets are from: the pod, or its service account if it names none (Pods; takes get on all Secrets), this policy (Named), or nowhere (None). Images that cannot be inspected without a secret are treated as those of a registry that refuses access.",
                        "type": "string", "enum": ["Pods", "Named", "None"], "default": "Pods",
                    },
                    "named": {
                        "description": "The secrets of the mode Named. They are used for the images of all pods that the policy is for.",
                        "type": "array",
                        "maxItems": 32,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["namespace", "name"],
                        "items": {
                            "type": "object",
                            "required": ["namespace", "name"],
                            "properties": {
                                "namespace": { "description": "Its namespace.", "type": "string", "minLength": 1, "maxLength": 63, "pattern": LABEL },
                                "name": { "description": "Its name.", "type": "string", "minLength": 1, "maxLength": 253, "pattern": CLASS },
                            },
                        },
                    },
                },
                "x-kubernetes-validations": [{
                    "rule": "has(self.named) && size(self.named) > 0 ? has(self.mode) && self.mode == 'Named' : !has(self.mode) || self.mode != 'Named'",
                    "message": "named goes with the mode Named, which needs at least one secret",
                }],
            },
            "failurePolicy": {
                "description": "What the API server does with pods while nobody answers: they are made and go anywhere (Ignore), or they are refused (Fail). Only the policy called default can say it; Ignore if nobody does.",
                "type": "string", "enum": ["Ignore", "Fail"],
            },
        },
    })
}

fn word(description: &str) -> Value {
    json!({ "description": description, "type": "string", "minLength": 1, "maxLength": 63, "pattern": WORD })
}

/// A `metav1.LabelSelector`, with what `ValidateLabelSelector` has to say of it.
fn selector(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": { "type": "string", "maxLength": 63 },
            },
            "matchExpressions": {
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string", "minLength": 1, "maxLength": 317, "pattern": KEY },
                        "operator": { "type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"] },
                        "values": {
                            "type": "array",
                            "maxItems": 256,
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string", "maxLength": 63 },
                        },
                    },
                    "x-kubernetes-validations": [{
                        "rule": "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
                        "message": "In and NotIn need values, Exists and DoesNotExist take none",
                    }],
                },
            },
        },
    })
}

fn status() -> Value {
    let count = json!({ "type": "integer", "format": "int32" });
    json!({
        "description": "What is seen.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer", "format": "int64" },
            "conditions": conditions(),
            "pods": {
                "description": "The pods that the policy counts for and that wait at the gate.",
                "type": "object",
                "required": ["gated", "held"],
                "properties": { "gated": count, "held": count },
            },
        },
    })
}
