//! `config.openshift.io/v1` and related groups: the release of a cluster, and the progress of its
//! operators.
//!
//! Enumerations (`Completed`, `True`, `Multi`) are strings here: an object with a value from a later
//! version can still be read, and the value is checked where it is used.

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
/// The API version.
pub const VERSION: &str = "v1";
/// Namespace of the ConfigMaps and Secrets that cluster settings name, such as CA certificates of proxies.
pub const CONFIG_NAMESPACE: &str = "openshift-config";
/// The name of the only ClusterVersion.
pub const CLUSTER_VERSION: &str = "version";

/// A condition. Unlike `metav1.Condition`, it may lack a reason and a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The condition type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The machine-readable reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Condition {
    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether the status is `False`.
    pub fn is_false(&self) -> bool {
        self.status == "False"
    }

    /// A condition by type.
    pub fn find<'a>(conditions: &'a [Self], kind: &str) -> Option<&'a Self> {
        conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// Release payloads stored as ConfigMaps, for clusters that cannot read the image: the keys of `data`
/// are the file names of `/release-manifests`.
pub mod payloads {
    /// Their namespace.
    pub const NAMESPACE: &str = "openshift-cluster-version";
    /// Their label, with the value [`LABELLED`].
    pub const LABEL: &str = "medley.dev/release-payload";
    /// The value of [`LABEL`].
    pub const LABELLED: &str = "true";
    /// The annotation with the pull specification of the release.
    pub const IMAGE: &str = "medley.dev/release-image";
}

/// Annotations.
pub mod annotations {
    /// Prefix of a cluster profile: `"true"` includes a manifest in clusters of that profile.
    pub const INCLUDE: &str = "include.release.openshift.io/";
    /// Prefix of an identifier: `"true"` excludes a manifest from clusters that have it.
    pub const EXCLUDE: &str = "exclude.release.openshift.io/";
    /// The feature sets a manifest is for.
    pub const FEATURE_SET: &str = "release.openshift.io/feature-set";
    /// The feature gates a manifest is for.
    pub const FEATURE_GATE: &str = "release.openshift.io/feature-gate";
    /// The major versions a manifest is for.
    pub const MAJOR_VERSION: &str = "release.openshift.io/major-version";
    /// The capabilities a manifest belongs to.
    pub const CAPABILITY: &str = "capability.openshift.io/name";
    /// On an image of a payload: `name=version` pairs of its contents.
    pub const BUILD_VERSIONS: &str = "io.openshift.build.versions";
    /// On a node: its current configuration.
    pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
    /// On a node: its desired configuration.
    pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
    /// On a node: the state of its machine config daemon.
    pub const CONFIG_STATE: &str = "machineconfiguration.openshift.io/state";
    /// On a node: why its machine config daemon is degraded.
    pub const CONFIG_REASON: &str = "machineconfiguration.openshift.io/reason";
    /// On a rendered MachineConfig: the release it came with.
    pub const RELEASE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
}
