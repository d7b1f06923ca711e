//! What an administrator asks for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::status::PlacementPolicyStatus;

/// Which pods are placed by what their images are for, and how.
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
    /// Of several policies that select a pod, the one with the highest counts (0). The policy `default`
    /// comes last, whatever it says here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Pods of namespaces with these labels; of all, if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Pods with these labels; all, if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Kinds of owners whose pods are left alone, such as `DaemonSet`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_owners: Vec<String>,
    /// Whether pods are changed (`Place`), or somebody is only told.
    #[serde(default)]
    pub mode: Mode,
    /// What becomes of a pod with images that nobody has looked at yet (`Gate`).
    #[serde(default)]
    pub on_miss: OnMiss,
    /// What becomes of a pod whose images run on no node (`Warn`).
    #[serde(default)]
    pub on_no_match: OnNoMatch,
    /// How much pods should prefer architectures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<Weight>,
    /// The architecture of images that nobody can look at; without it, such an image does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_architecture: Option<String>,
    /// What is meant by images for several operating systems, if the pod does not say it (`linux`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operating_system: Option<String>,
    /// Keys of taints that pods are made to tolerate on nodes that run their images
    /// (`kubernetes.io/arch`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerated_taints: Option<Vec<String>>,
    /// What may run images that no node is made for.
    #[serde(default)]
    pub emulation: Emulation,
    /// How long is waited.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Which pull secrets images are inspected with (`Pods`).
    #[serde(default, skip_serializing_if = "PullSecrets::is_default")]
    pub pull_secrets: PullSecrets,
    /// What the API server does with pods while nobody answers (`Ignore`). Only `default` can say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
}

/// Whether pods are changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// They are.
    #[default]
    Place,
    /// They are not; who makes one that runs nowhere is warned.
    Warn,
    /// They are not; it is counted, and in the audit log.
    Audit,
}

/// What becomes of a pod with images that nobody has looked at yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnMiss {
    /// It waits at a scheduling gate until somebody has.
    #[default]
    Gate,
    /// Whoever makes it waits, and then it waits at a gate.
    Sync,
    /// It is left alone.
    Ignore,
}

/// What becomes of a pod whose images run on no node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnNoMatch {
    /// It is refused. One that exists already is held.
    Reject,
    /// It waits at a scheduling gate until there is such a node.
    Hold,
    /// It is let in, for nodes that could run it, and whoever makes it is warned.
    #[default]
    Warn,
}

/// What the API server does with pods while nobody answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// They are made, and go anywhere.
    #[default]
    Ignore,
    /// They are refused.
    Fail,
}

/// Which pull secrets images are inspected with. Credentials of nodes (`--authfile`) count in every mode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullSecrets {
    /// Where their names are from.
    #[serde(default)]
    pub mode: PullSecretsMode,
    /// The secrets of the mode `Named`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedSecret>,
}

impl PullSecrets {
    /// Whether it need not be written.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where the names of pull secrets are from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullSecretsMode {
    /// From the pod, or from its service account if it names none, as for a kubelet. Takes `get` on all Secrets.
    #[default]
    Pods,
    /// From the policy: those of pods are not read. The same for all pods of the policy.
    Named,
    /// From nowhere: images are inspected without any Secret.
    None,
}

/// A Secret that a policy names.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedSecret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How much pods should prefer an architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Weight {
    /// The architecture.
    pub architecture: String,
    /// From 1 to 100.
    pub weight: i32,
}

/// What may run images that no node is made for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Emulation {
    /// Runtime classes that a pod without one may be given when nothing else fits, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime_classes: Vec<String>,
}

/// How long is waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// The most seconds that a pod waits at the gate for a registry (10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_seconds: Option<i32>,
    /// The most milliseconds that whoever makes a pod waits for a registry (2000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_milliseconds: Option<i32>,
}
