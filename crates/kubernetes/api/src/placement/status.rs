//! The status of PlacementPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

/// The observed pods a policy applies to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicyStatus {
    /// The `metadata.generation` this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The waiting pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<Pods>,
}

/// Pods that wait at a scheduling gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// Pods whose images are being inspected.
    pub gated: i32,
    /// Pods whose images run on no node.
    pub held: i32,
}
