//! The CustomResourceDefinition of PlacementPolicy.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::{NAME, PlacementPolicy};
use crate::definition::schema::{
    Schema, atomic_list, int32, int64, map_list, name, object, one_of, set, text,
};
use crate::definition::{Definition, conditions};
use crate::mode::ModeSetting;

/// A label value, architecture or operating system.
const WORD: &str = r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";
/// The key of a label or taint.
const KEY: &str = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";
/// The name of a kind.
const KIND: &str = "^[A-Z][A-Za-z0-9]*$";
/// The name of a namespace.
const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// The name of a namespace, or the beginning of names and a star.
const LABELS: &str = r"^[a-z0-9]([-a-z0-9]*([a-z0-9]|\*)|\*)?$";
/// The name of a RuntimeClass or a Secret.
const CLASS: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The CustomResourceDefinition.
pub fn definition() -> CustomResourceDefinition {
    let crd = Definition {
        short_names: &["plp"],
        description: "PlacementPolicy configures which pods are placed by the platforms of their images, and how. If several policies select a pod, only the one with the highest priority applies; of equal priorities, the first by name; the policy named default comes last. Without a policy named default, pods that no policy selects are placed with the field defaults; with it, they are not changed.",
        columns: &[
            ("Priority", ".spec.priority"),
            ("Mode", ".spec.mode"),
            ("On-Miss", ".spec.onMiss"),
            ("On-No-Match", ".spec.onNoMatch"),
            ("Held", ".status.pods.held"),
        ],
        name: (
            format!(
                "self.metadata.name == '{NAME}' || (!has(self.spec.failurePolicy) && !has(self.spec.exemptNamespaces) && !has(self.spec.operatorMode))"
            ),
            format!(
                "failurePolicy, exemptNamespaces and operatorMode are about all pods, also those of other policies: only the policy '{NAME}' can say it"
            ),
        ),
        spec: spec(),
        status: Some(status()),
    };
    crd.build::<PlacementPolicy>()
}

fn spec() -> Schema {
    let weight = object(json!({
        "architecture": word("The architecture, as in kubernetes.io/arch."),
        "weight": int32().range(1, 100).about("The weight, from 1 to 100."),
    }));
    let emulation = object(json!({
        "runtimeClasses": atomic_list(name(253).pattern(CLASS)).max_items(16)
            .about("RuntimeClasses that may be set on a pod without one if no node can run its images natively, in order of preference. As a RuntimeClass can only be set at creation, images are then inspected during admission, as with onMiss Sync."),
    }));
    let timeouts = object(json!({
        "gateSeconds": int32().range(1, 3600).default(10)
            .about("How long a pod may wait at the scheduling gate for a registry, in seconds. Afterwards it is placed by the fallback architecture, or not restricted if there is none."),
        // At most 8 of the 10 seconds that the webhook is registered with: the
        // decision and the way back need the rest.
        "syncMilliseconds": int32().range(10, 8000).default(2000)
            .about("How long the admission of a pod may wait for a registry, in milliseconds. The API server limits the whole admission to ten seconds."),
    }));
    let spec = object(json!({
        "priority": int32().range(0, 1_000_000).default(0)
            .about("If several policies select a pod, the one with the highest priority applies. The policy named default always comes last, regardless of this field."),
        "namespaceSelector": selector("Selects pods by the labels of their namespace; all namespaces if absent. System namespaces (kube-*, openshift-*, hypershift-*), those of exemptNamespaces and the namespace of Medley are never selected."),
        "podSelector": selector("Selects pods by their labels; all pods if absent."),
        "ignoredOwners": set(name(63).pattern(KIND)).max_items(64)
            .about("Pods controlled by these kinds are not changed, such as DaemonSet."),
        "mode": one_of(["Place", "Warn", "Audit"]).default("Place")
            .about("Whether pods are placed (Place), only an admission warning is returned for pods that run on no node (Warn), or the decision is only recorded in metrics and the audit log (Audit)."),
        "onMiss": one_of(["Gate", "Sync", "Ignore"]).default("Gate")
            .about("What happens to a pod whose images have not been inspected yet: it is held at a scheduling gate (Gate), its admission waits for the inspection before it is gated (Sync), or it is admitted unchanged (Ignore)."),
        "onNoMatch": one_of(["Reject", "Hold", "Warn"]).default("Warn")
            .about("What happens to a pod whose images run on no node: it is denied (Reject), held at a scheduling gate until a suitable node joins (Hold), or admitted with node affinity and a warning (Warn). A pod that exists already is held instead of denied."),
        "weights": map_list(&["architecture"], weight.required(&["architecture", "weight"])).max_items(32)
            .about("Preferences between the architectures a pod can run on."),
        "fallbackArchitecture": word("The architecture assumed for images that cannot be inspected. If absent, such images do not restrict placement."),
        "operatingSystem": one_of(["linux", "windows"]).default("linux")
            .about("The operating system to use for images that support several, if the pod does not select one."),
        // 317 characters: 253 of the prefix, a slash, and 63 of the name.
        "toleratedTaints": set(name(317).pattern(KEY)).max_items(32)
            .about("Taint keys for which pods get a toleration, if nodes that can run their images have such taints. Defaults to kubernetes.io/arch."),
        "emulation": emulation.about("Emulation of images that no node can run natively."),
        "timeouts": timeouts.about("Timeouts of image inspection."),
        "pullSecrets": pull_secrets(),
        "failurePolicy": one_of(["Ignore", "Fail"])
            .about("What the API server does with pods while the placement webhook is unavailable: admit them without placement (Ignore) or deny them (Fail). Only the policy named default may set it. Defaults to Ignore."),
        "exemptNamespaces": set(name(63).pattern(LABELS)).max_items(64)
            .about("Namespaces whose pods are never placed, besides system namespaces: names, or the beginning of names and a star, such as cattle-*. The API server does not send their pods to the webhook. Only the policy named default may set it."),
        "operatorMode": one_of(ModeSetting::VALUES)
            .about("Whether pods are placed at all. Auto: pods are placed, except those of namespaces that the multiarch-tuning-operator places. Assist: no pod is gated or changed, and clients get a warning for pods that run on no node. Off: pods are ignored. Pods that wait at the gate are released in every mode. Only the policy named default may set it. Defaults to Auto."),
    }));
    spec.about("The desired configuration.")
}

fn pull_secrets() -> Schema {
    let secret = object(json!({
        "namespace": name(63).pattern(LABEL).about("The namespace."),
        "name": name(253).pattern(CLASS).about("Its name."),
    }));
    let secret = secret.required(&["namespace", "name"]);
    let secrets = object(json!({
        "mode": one_of(["Pods", "Named", "None"]).default("Pods")
            .about("Which Secrets are used: those of the pod, or of its ServiceAccount if it has none (Pods; needs the permission to get all Secrets), those named in this policy (Named), or none (None). An image that cannot be inspected without a Secret is treated as one whose registry denies access."),
        "named": map_list(&["namespace", "name"], secret).max_items(32)
            .about("The Secrets of mode Named. They are used for the images of all pods the policy applies to."),
    }));
    secrets
        .about("Which pull secrets are used to inspect images. Credentials given to the operator and the webhook by file are used in every mode.")
        .rule(
            "has(self.named) && size(self.named) > 0 ? has(self.mode) && self.mode == 'Named' : !has(self.mode) || self.mode != 'Named'",
            "named goes with the mode Named, which needs at least one secret",
        )
}

fn word(description: &str) -> Schema {
    name(63).pattern(WORD).about(description)
}

/// The schema of a `metav1.LabelSelector`, with the rules of `ValidateLabelSelector`.
fn selector(description: &str) -> Schema {
    let value = || text().with("maxLength", 63);
    let expression = object(json!({
        "key": name(317).pattern(KEY),
        "operator": one_of(["In", "NotIn", "Exists", "DoesNotExist"]),
        // Bounded like all lists here: the API server estimates the cost of the rule below for the largest possible
        // list, and rejects the CRD if it exceeds its limit.
        "values": atomic_list(value()).max_items(256),
    }));
    let expression = expression.required(&["key", "operator"]).rule(
        "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
        "In and NotIn need values, Exists and DoesNotExist take none",
    );
    let selector = object(json!({
        "matchLabels": { "type": "object", "maxProperties": 64, "additionalProperties": value() },
        "matchExpressions": atomic_list(expression).max_items(64),
    }));
    selector.atomic().about(description)
}

fn status() -> Schema {
    let pods = object(json!({ "gated": int32(), "held": int32() }));
    let status = object(json!({
        "observedGeneration": int64(),
        "conditions": conditions(),
        "pods": pods.required(&["gated", "held"])
            .about("Pods the policy applies to that wait at a scheduling gate."),
    }));
    status.about("The observed state.")
}
