//! The spec of ReleasePolicy.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::status::ReleasePolicyStatus;

/// How the completion of updates is verified.
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
    /// Whether Medley maintains the ClusterVersion or only reads it (`Observe`).
    #[serde(default)]
    pub mode: Mode,
    /// Where the release manifests are read from. Defaults to a ConfigMap annotated with the release
    /// image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSource>,
    /// Whether an update is complete before all MachineConfigPools are updated (`Ignore`).
    #[serde(default)]
    pub worker_pools: Gate,
}

/// What Medley does with the ClusterVersion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// It only reads it, beside the cluster version operator.
    #[default]
    Observe,
    /// It maintains its status, in clusters without the cluster version operator.
    Own,
}

/// Where release manifests are read from; one member is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayloadSource {
    /// A ConfigMap whose keys are file names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapReference>,
    /// A folder in the operator's file system, below one given by `--payload-folder`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// An image: a pull specification, or [`PayloadSource::DESIRED`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl PayloadSource {
    /// Instead of a pull specification: the release the cluster runs or is updating to.
    pub const DESIRED: &'static str = "Desired";
}

/// A ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigMapReference {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Whether something blocks completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gate {
    /// It does not, as in OpenShift.
    #[default]
    Ignore,
    /// It does.
    Require,
}
