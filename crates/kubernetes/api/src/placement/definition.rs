//! The CustomResourceDefinition of PlacementPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{GROUP, NAME, PLURAL, VERSION};
use crate::definition::{Definition, conditions};

/// A label value, architecture or operating system.
const WORD: &str = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";
/// The key of a label or taint.
const KEY: &str = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";
/// The name of a kind.
const KIND: &str = "^[A-Z][A-Za-z0-9]*$";
/// The name of a namespace.
const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The name of a RuntimeClass or a Secret.
const CLASS: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let kind = Definition {
        group: GROUP,
        version: VERSION,
        kind: "PlacementPolicy",
        plural: PLURAL,
        short: &["plp"],
        description: "PlacementPolicy configures which pods are placed by the platforms of their images, and how. If several policies select a pod, only the one with the highest priority applies; of equal priorities, the first by name; the policy named default comes last. Without a policy named default, pods that no policy selects are placed with the field defaults; with it, they are not changed.",
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
        "description": "The desired configuration.",
        "type": "object",
        "properties": {
            "priority": {
                "description": "If several policies select a pod, the one with the highest priority applies. The policy named default always comes last, regardless of this field.",
                "type": "integer", "format": "int32", "minimum": 0, "maximum": 1_000_000, "default": 0,
            },
            "namespaceSelector": selector("Selects pods by the labels of their namespace; all namespaces if absent. Namespaces whose names begin with kube- and the namespace of Medley are never selected."),
            "podSelector": selector("Selects pods by their labels; all pods if absent."),
            "ignoredOwners": {
                "description": "Pods controlled by these kinds are not changed, such as DaemonSet.",
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 63, "pattern": KIND },
            },
            "mode": {
                "description": "Whether pods are placed (Place), only an admission warning is returned for pods that run on no node (Warn), or the decision is only recorded in metrics and the audit log (Audit).",
                "type": "string", "enum": ["Place", "Warn", "Audit"], "default": "Place",
            },
            "onMiss": {
                "description": "What happens to a pod whose images have not been inspected yet: it is held at a scheduling gate (Gate), its admission waits for the inspection before it is gated (Sync), or it is admitted unchanged (Ignore).",
                "type": "string", "enum": ["Gate", "Sync", "Ignore"], "default": "Gate",
            },
            "onNoMatch": {
                "description": "What happens to a pod whose images run on no node: it is denied (Reject), held at a scheduling gate until a suitable node joins (Hold), or admitted with node affinity and a warning (Warn). A pod that exists already is held instead of denied.",
                "type": "string", "enum": ["Reject", "Hold", "Warn"], "default": "Warn",
            },
            "weights": {
                "description": "Preferences between the architectures a pod can run on.",
                "type": "array",
                "maxItems": 32,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["architecture"],
                "items": {
                    "type": "object",
                    "required": ["architecture", "weight"],
                    "properties": {
                        "architecture": word("The architecture, as in kubernetes.io/arch."),
                        "weight": { "description": "The weight, from 1 to 100.", "type": "integer", "format": "int32", "minimum": 1, "maximum": 100 },
                    },
                },
            },
            "fallbackArchitecture": word("The architecture assumed for images that cannot be inspected. If absent, such images do not restrict placement."),
            "operatingSystem": {
                "description": "The operating system to use for images that support several, if the pod does not select one.",
                "type": "string", "enum": ["linux", "windows"], "default": "linux",
            },
            "toleratedTaints": {
                "description": "Taint keys for which pods get a toleration, if nodes that can run their images have such taints. Defaults to kubernetes.io/arch.",
                "type": "array",
                "maxItems": 32,
                "x-kubernetes-list-type": "set",
                "items": { "type": "string", "minLength": 1, "maxLength": 317, "pattern": KEY },
            },
            "emulation": {
                "description": "Emulation of images that no node can run natively.",
                "type": "object",
                "properties": {
                    "runtimeClasses": {
                        "description": "RuntimeClasses that may be set on a pod without one if no node can run its images natively, in order of preference. As a RuntimeClass can only be set at creation, images are then inspected during admission, as with onMiss Sync.",
                        "type": "array",
                        "maxItems": 16,
                        "x-kubernetes-list-type": "atomic",
                        "items": { "type": "string", "minLength": 1, "maxLength": 253, "pattern": CLASS },
                    },
                },
            },
            "timeouts": {
                "description": "Timeouts of image inspection.",
                "type": "object",
                "properties": {
                    "gateSeconds": {
                        "description": "How long a pod may wait at the scheduling gate for a registry, in seconds. Afterwards it is placed by the fallback architecture, or not restricted if there is none.",
                        "type": "integer", "format": "int32", "minimum": 1, "maximum": 3600, "default": 10,
                    },
                    "syncMilliseconds": {
                        "description": "How long the admission of a pod may wait for a registry, in milliseconds. The API server limits the whole admission to ten seconds.",
                        "type": "integer", "format": "int32", "minimum": 10, "maximum": 8000, "default": 2000,
                    },
                },
            },
            "pullSecrets": {
                "description": "Which pull secrets are used to inspect images. Credentials given to the operator and the webhook by file are used in every mode.",
                "type": "object",
                "properties": {
                    "mode": {
                        "description": "Which Secrets are used: those of the pod, or of its ServiceAccount if it has none (Pods; needs the permission to get all Secrets), those named in this policy (Named), or none (None). An image that cannot be inspected without a Secret is treated as one whose registry denies access.",
                        "type": "string", "enum": ["Pods", "Named", "None"], "default": "Pods",
                    },
                    "named": {
                        "description": "The Secrets of mode Named. They are used for the images of all pods the policy applies to.",
                        "type": "array",
                        "maxItems": 32,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["namespace", "name"],
                        "items": {
                            "type": "object",
                            "required": ["namespace", "name"],
                            "properties": {
                                "namespace": { "description": "The namespace.", "type": "string", "minLength": 1, "maxLength": 63, "pattern": LABEL },
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
                "description": "What the API server does with pods while the placement webhook is unavailable: admit them without placement (Ignore) or deny them (Fail). Only the policy named default may set it. Defaults to Ignore.",
                "type": "string", "enum": ["Ignore", "Fail"],
            },
        },
    })
}

fn word(description: &str) -> Value {
    json!({ "description": description, "type": "string", "minLength": 1, "maxLength": 63, "pattern": WORD })
}

/// The schema of a `metav1.LabelSelector`, with the rules of `ValidateLabelSelector`.
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
        "description": "The observed state.",
        "type": "object",
        "properties": {
            "observedGeneration": { "type": "integer", "format": "int64" },
            "conditions": conditions(),
            "pods": {
                "description": "Pods the policy applies to that wait at a scheduling gate.",
                "type": "object",
                "required": ["gated", "held"],
                "properties": { "gated": count, "held": count },
            },
        },
    })
}
