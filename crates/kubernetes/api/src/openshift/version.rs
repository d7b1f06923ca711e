//! `ClusterVersion`: the release that a cluster runs, or is on its way to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::Rest;

/// What is asked of a cluster.
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
    /// The release that is wanted, if another than there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_update: Option<DesiredUpdate>,
    /// Where releases come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Objects that are left to somebody else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<ComponentOverride>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A release that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DesiredUpdate {
    /// `Multi`, or empty for what there is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Its payload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Whether checks are skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An object that is left to somebody else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentOverride {
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// Its group.
    #[serde(default)]
    pub group: String,
    /// Where it is.
    #[serde(default)]
    pub namespace: String,
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// Whether it is left alone.
    #[serde(default)]
    pub unmanaged: bool,
}

/// What a cluster runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionStatus {
    /// The release that it runs or is on its way to.
    #[serde(default)]
    pub desired: Release,
    /// Releases, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<UpdateHistory>,
    /// The generation that was looked at.
    #[serde(default)]
    pub observed_generation: i64,
    /// What could be updated to; null if nobody knows.
    #[serde(default)]
    pub available_updates: Option<Vec<Release>>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// `Multi`, if it is known to be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Its payload.
    #[serde(default)]
    pub image: String,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A release that the cluster runs, ran, or was on its way to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateHistory {
    /// `Completed`, or `Partial` if it was never all there.
    #[serde(default)]
    pub state: String,
    /// When it began.
    #[serde(default)]
    pub started_time: Option<Time>,
    /// When it was complete, or was given up.
    #[serde(default)]
    pub completion_time: Option<Time>,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Its payload.
    #[serde(default)]
    pub image: String,
    /// Whether its signature was checked.
    #[serde(default)]
    pub verified: bool,
    /// Risks that somebody took.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted_risks: String,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

impl UpdateHistory {
    /// The word for a release that is all there.
    pub const COMPLETED: &'static str = "Completed";
    /// The word for a release that is not.
    pub const PARTIAL: &'static str = "Partial";

    /// Whether it was all there.
    pub fn is_completed(&self) -> bool {
        self.state == Self::COMPLETED
    }
}

impl ClusterVersion {
    /// A condition by type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }

    /// Releases, the newest first.
    pub fn history(&self) -> &[UpdateHistory] {
        self.status
            .as_ref()
            .map_or(&[], |status| status.history.as_slice())
    }
}
