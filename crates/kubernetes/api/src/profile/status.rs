//! The status of PlatformProfile.

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

/// Whether a profile can be used, and what it needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlatformProfileStatus {
    /// The `metadata.generation` this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The hash of the spec. Plans are made for one hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What the static check found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The permissions that the operator needs for the profile. It never grants them itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_rules: Vec<PolicyRule>,
    /// Those of them that it does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_rules: Vec<PolicyRule>,
}

/// What the static check found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The field.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
    /// Whether the profile cannot be used.
    pub error: bool,
}
