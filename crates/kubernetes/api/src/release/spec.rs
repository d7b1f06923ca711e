//! What an administrator asks for.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::status::ReleasePolicyStatus;

/// How releases are judged.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "medley.dev",
    version = "v1alpha1",
    kind = "ReleasePolicy",
    plural = "releasepolicies",
    status = "ReleasePolicyStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePolicySpec {
    /// Whether Medley keeps the ClusterVersion, or looks on (`Observe`).
    #[serde(default)]
    pub mode: Mode,
    /// Where the files of the release are. If nobody says: in a ConfigMap that bears its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSource>,
    /// Whether a release is complete before all pools of machines are (`Ignore`).
    #[serde(default)]
    pub worker_pools: Gate,
}

/// What Medley does with the ClusterVersion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// It looks on beside the cluster version operator, and writes nothing there.
    #[default]
    Observe,
    /// It keeps its status, where no cluster version operator does.
    Own,
}

/// Where the files of a release are: one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayloadSource {
    /// In a ConfigMap, whose keys are the names of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapReference>,
    /// In a folder of the operator, below one that its administrator names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// In an image: a pull specification, or [`PayloadSource::DESIRED`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl PayloadSource {
    /// Instead of an image: the one that the cluster runs or is on its way to, from its registry.
    pub const DESIRED: &'static str = "Desired";
}

/// A ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigMapReference {
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
}

/// Whether something holds completion up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gate {
    /// It does not, as upstream.
    #[default]
    Ignore,
    /// It does.
    Require,
}
