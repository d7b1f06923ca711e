//! `config.openshift.io/v1` and neighbours: what says which release a cluster runs, and which of its
//! operators have arrived there.
//!
//! Words that are a choice of few (`Completed`, `True`, `Multi`) are texts here: an object with a word
//! from a later version can still be read, and is judged where it matters.

mod image_stream;
mod operator;
mod pool;
#[cfg(test)]
mod tests;
mod version;

pub use image_stream::{ImageStream, ImageStreamSpec, TagReference, TagSource};
pub use operator::{
    ClusterOperator, ClusterOperatorSpec, ClusterOperatorStatus, OPERATOR, OPERATOR_IMAGE,
    ObjectReference, OperandVersion, reporter_rules,
};
pub use pool::{
    MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus, PoolConfiguration,
};
pub use version::{
    ClusterVersion, ClusterVersionSpec, ClusterVersionStatus, ComponentOverride, DesiredUpdate,
    Release, UpdateHistory,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::Rest;

/// The group of ClusterVersion and ClusterOperator.
pub const GROUP: &str = "config.openshift.io";
/// The version of the kinds.
pub const VERSION: &str = "v1";
/// The one ClusterVersion that counts.
pub const CLUSTER_VERSION: &str = "version";

/// What holds of an object. Unlike `metav1.Condition`, it may lack a reason and a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// When the status became what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Condition {
    /// Whether it holds.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether it is known not to hold.
    pub fn is_false(&self) -> bool {
        self.status == "False"
    }

    /// One of several, by type.
    pub fn find<'a>(conditions: &'a [Self], kind: &str) -> Option<&'a Self> {
        conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// Releases that a cluster keeps as ConfigMaps, for those who cannot open an image: the keys of `data` are
/// the names of the files of `/release-manifests`.
pub mod payloads {
    /// Where they are.
    pub const NAMESPACE: &str = "openshift-cluster-version";
    /// The label that they have, with the value [`LABELLED`].
    pub const LABEL: &str = "medley.dev/release-payload";
    /// The value of [`LABEL`].
    pub const LABELLED: &str = "true";
    /// The annotation with the pull specification of the release.
    pub const IMAGE: &str = "medley.dev/release-image";
}

/// Annotations.
pub mod annotations {
    /// Before the name of a cluster profile: `"true"` puts a manifest into clusters of that profile.
    pub const INCLUDE: &str = "include.release.openshift.io/";
    /// Before an identifier: `"true"` keeps a manifest out of clusters that have it.
    pub const EXCLUDE: &str = "exclude.release.openshift.io/";
    /// For which feature sets a manifest is.
    pub const FEATURE_SET: &str = "release.openshift.io/feature-set";
    /// For which feature gates a manifest is.
    pub const FEATURE_GATE: &str = "release.openshift.io/feature-gate";
    /// For which major versions a manifest is.
    pub const MAJOR_VERSION: &str = "release.openshift.io/major-version";
    /// The capabilities that a manifest belongs to.
    pub const CAPABILITY: &str = "capability.openshift.io/name";
    /// On an image of a payload: `name=version` pairs of what is in it.
    pub const BUILD_VERSIONS: &str = "io.openshift.build.versions";
    /// On a node: the configuration that it runs.
    pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
    /// On a node: the configuration that it is to run.
    pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
    /// On a node: what its daemon does.
    pub const CONFIG_STATE: &str = "machineconfiguration.openshift.io/state";
    /// On a node: why its daemon does not get on.
    pub const CONFIG_REASON: &str = "machineconfiguration.openshift.io/reason";
    /// On a rendered MachineConfig: the release that it came with.
    pub const RELEASE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
}
