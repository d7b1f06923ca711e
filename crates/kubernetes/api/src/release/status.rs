//! What is seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

/// What is seen of a release, and what Medley holds of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePolicyStatus {
    /// The generation that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The release that the cluster runs or is on its way to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetRelease>,
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Every operator of the release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<OperatorState>,
    /// Every pool of machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolState>,
    /// How long operators were waited for, the last times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<OperatorHistory>,
}

/// A release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetRelease {
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Its payload.
    #[serde(default)]
    pub image: String,
    /// `Multi`, if it is for several architectures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// What kind of change it is: `Install`, `Update`, `SingleToMulti`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_time: Option<Time>,
    /// When it had truly arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}

/// How far a release has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Operators that there are.
    pub operators: i32,
    /// Those that have arrived.
    pub arrived: i32,
    /// Those that have to report their image: only of these is it known exactly.
    pub reporting: i32,
    /// Manifests that there are.
    pub manifests: i32,
    /// Those that are done.
    pub done: i32,
}

/// An operator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorState {
    /// What it is called.
    pub name: String,
    /// `Arrived`, `Updating`, `NotReached`, `NotAvailable`, `Degraded`, `NotFound` or `NoVersions`.
    pub state: String,
    /// Whether it has to report its image.
    #[serde(default)]
    pub reports_image: bool,
    /// Since when it is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// Versions that it does not report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<UndoneVersion>,
}

/// A version that an operator has to report and does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UndoneVersion {
    /// Its name.
    pub name: String,
    /// What is reported instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What has to be reported.
    pub to: String,
    /// Why it is not, in a word.
    pub reason: String,
    /// Why it is not, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A pool of machines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolState {
    /// What it is called.
    pub name: String,
    /// Machines that there are.
    pub machines: i32,
    /// Those that run what is wanted.
    pub updated: i32,
    /// Whether there is nothing left to do.
    pub done: bool,
    /// Why there is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How long an operator was waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorHistory {
    /// What it is called.
    pub operator: String,
    /// In seconds, the last time first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub took_seconds: Vec<i64>,
}
