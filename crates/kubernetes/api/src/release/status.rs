//! The status of ReleasePolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

/// The observed release and its verification.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePolicyStatus {
    /// The `metadata.generation` this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The release the cluster runs or is updating to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetRelease>,
    /// The progress of the update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The ClusterOperators of the release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<OperatorState>,
    /// The MachineConfigPools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolState>,
    /// How long recent updates waited for each operator.
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
    /// The pull specification of its payload.
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
    /// When it was verified as complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}

/// The progress of an update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The number of ClusterOperators.
    pub operators: i32,
    /// Those that have reached the release.
    pub arrived: i32,
    /// Those that have to report their image: only for these the release is known exactly.
    pub reporting: i32,
    /// The number of manifests.
    pub manifests: i32,
    /// Those that are applied.
    pub done: i32,
}

/// The state of a ClusterOperator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorState {
    /// The name.
    pub name: String,
    /// `Arrived`, `Updating`, `NotReached`, `NotAvailable`, `Degraded`, `NotFound` or `NoVersions`.
    pub state: String,
    /// Whether it has to report its image.
    #[serde(default)]
    pub reports_image: bool,
    /// Since when the update waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// Versions it does not report yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<UndoneVersion>,
}

/// A version an operator has to report and does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UndoneVersion {
    /// Its name.
    pub name: String,
    /// The version reported instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The expected version.
    pub to: String,
    /// The machine-readable reason.
    pub reason: String,
    /// The message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The state of a MachineConfigPool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolState {
    /// The name.
    pub name: String,
    /// The number of machines.
    pub machines: i32,
    /// Machines with the desired configuration.
    pub updated: i32,
    /// Whether the update of the pool is complete.
    pub done: bool,
    /// Why it is not complete.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How long updates waited for an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorHistory {
    /// The name.
    pub operator: String,
    /// In seconds, latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub took_seconds: Vec<i64>,
}
