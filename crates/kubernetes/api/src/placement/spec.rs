//! The spec of PlacementPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::status::PlacementPolicyStatus;
use crate::mode::ModeSetting;

/// Which pods are placed by the platforms of their images, and how.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "medley.dev",
    version = "v1alpha1",
    kind = "PlacementPolicy",
    plural = "placementpolicies",
    status = "PlacementPolicyStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicySpec {
    /// If several policies select a pod, the highest priority applies (0). The policy `default` always
    /// comes last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Selects pods by namespace labels; all namespaces if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Selects pods by labels; all pods if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Pods controlled by these kinds are not changed, such as `DaemonSet`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_owners: Vec<String>,
    /// Whether pods are changed (`Place`) or only reported.
    #[serde(default)]
    pub mode: Mode,
    /// What happens to a pod whose images are not inspected yet (`Gate`).
    #[serde(default)]
    pub on_miss: OnMiss,
    /// What happens to a pod whose images run on no node (`Warn`).
    #[serde(default)]
    pub on_no_match: OnNoMatch,
    /// Preferences between architectures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<Weight>,
    /// The architecture assumed for images that cannot be inspected; without it, such images do not
    /// restrict placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_architecture: Option<String>,
    /// The operating system to use for images that support several, if the pod does not select one
    /// (`linux`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
    /// Taint keys for which pods get a toleration, on nodes that run their images
    /// (`kubernetes.io/arch`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerated_taints: Option<Vec<String>>,
    /// Emulation of images that no node can run natively.
    #[serde(default)]
    pub emulation: Emulation,
    /// Timeouts of image inspection.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Which pull secrets are used to inspect images (`Pods`).
    #[serde(default, skip_serializing_if = "PullSecrets::is_default")]
    pub pull_secrets: PullSecrets,
    /// What the API server does with pods while the webhook is unavailable (`Ignore`). Only `default`
    /// may set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// Namespaces whose pods are never placed, besides system namespaces: names, or the beginning of
    /// names and a star. Only `default` may set it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exempt_namespaces: Vec<String>,
    /// Whether pods are placed at all (`Auto`: those that no other operator places). Only `default` may set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_mode: Option<ModeSetting>,
}

/// Whether pods are changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Pods are changed.
    #[default]
    Place,
    /// Pods are not changed; the creator of a pod that runs on no node gets a warning.
    Warn,
    /// Pods are not changed; the decision is recorded in metrics and the audit log.
    Audit,
}

/// What happens to a pod whose images are not inspected yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnMiss {
    /// It is held at a scheduling gate until they are.
    #[default]
    Gate,
    /// Admission waits for the inspection, then the pod is gated.
    Sync,
    /// It is admitted unchanged.
    Ignore,
}

/// What happens to a pod whose images run on no node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnNoMatch {
    /// It is denied. A pod that exists already is held.
    Reject,
    /// It is held at a scheduling gate until a suitable node joins.
    Hold,
    /// It is admitted with node affinity, and the creator gets a warning.
    #[default]
    Warn,
}

/// What the API server does with pods while the webhook is unavailable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// They are admitted without placement.
    #[default]
    Ignore,
    /// They are denied.
    Fail,
}

/// Which pull secrets are used to inspect images. Credentials of nodes (`--authfile`) are used in every
/// mode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullSecrets {
    /// The source of the Secrets.
    #[serde(default)]
    pub mode: PullSecretsMode,
    /// The Secrets of mode `Named`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedSecret>,
}

impl PullSecrets {
    /// Whether it equals the default and need not be serialized.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The source of the Secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullSecretsMode {
    /// The pod, or its ServiceAccount if it has none, as for a kubelet. Needs the permission to get all
    /// Secrets.
    #[default]
    Pods,
    /// The policy: Secrets of pods are not read. The same Secrets are used for all pods of the policy.
    Named,
    /// None: images are inspected without any Secret.
    None,
}

/// A Secret named in a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedSecret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A preference for an architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Weight {
    /// The architecture.
    pub architecture: String,
    /// From 1 to 100.
    pub weight: i32,
}

/// Emulation of images that no node can run natively.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Emulation {
    /// RuntimeClasses that may be set on a pod without one if no node fits, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime_classes: Vec<String>,
}

/// Timeouts of image inspection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// How long a pod may wait at the gate for a registry, in seconds (10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_seconds: Option<i32>,
    /// How long admission may wait for a registry, in milliseconds (2000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_milliseconds: Option<i32>,
}
