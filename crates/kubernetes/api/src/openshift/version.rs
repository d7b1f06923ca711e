//! `ClusterVersion`: the release a cluster runs or is updating to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::Rest;

/// The desired release.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterVersion",
    plural = "clusterversions",
    status = "ClusterVersionStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionSpec {
    /// The desired release, if it differs from the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_update: Option<DesiredUpdate>,
    /// The update channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Objects excluded from management.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<ComponentOverride>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A desired release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DesiredUpdate {
    /// `Multi`, or empty for the current architecture.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The pull specification of its payload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Whether verification and preconditions are skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An object excluded from management.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentOverride {
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// Its group.
    #[serde(default)]
    pub group: String,
    /// The namespace.
    #[serde(default)]
    pub namespace: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// Whether it is unmanaged.
    #[serde(default)]
    pub unmanaged: bool,
}

/// The observed release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionStatus {
    /// The release it runs or is updating to.
    #[serde(default)]
    pub desired: Release,
    /// Releases, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<UpdateHistory>,
    /// The observed generation.
    #[serde(default)]
    pub observed_generation: i64,
    /// Recommended updates; null if unknown.
    #[serde(default)]
    // Written even if null: OpenShift's CRD requires the field, and null says that updates could not be retrieved,
    // which an empty list would not.
    pub available_updates: Option<Vec<Release>>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// `Multi`, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The pull specification of its payload.
    #[serde(default)]
    pub image: String,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A release the cluster runs, ran, or was updating to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateHistory {
    /// `Completed`, or `Partial` if it was never completed.
    #[serde(default)]
    pub state: String,
    /// When it began.
    #[serde(default)]
    pub started_time: Option<Time>,
    /// When it was completed or superseded.
    #[serde(default)]
    pub completion_time: Option<Time>,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The pull specification of its payload.
    #[serde(default)]
    pub image: String,
    /// Whether its signature was verified.
    #[serde(default)]
    pub verified: bool,
    /// Risks that were accepted for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted_risks: String,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl UpdateHistory {
    /// The state of a completed release.
    pub const COMPLETED: &'static str = "Completed";
    /// The state of an incomplete release.
    pub const PARTIAL: &'static str = "Partial";

    /// Whether it was completed.
    pub fn is_completed(&self) -> bool {
        self.state == Self::COMPLETED
    }
}

impl ClusterVersion {
    /// A condition by type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }

    /// Releases, newest first.
    pub fn history(&self) -> &[UpdateHistory] {
        self.status
            .as_ref()
            .map_or(&[], |status| status.history.as_slice())
    }
}
