//! The spec of ApprovalPolicy.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use crate::advisor::{Impact, MaintenanceWindow};

/// Which plans need which approvals, by whom, and when they may run.
///
/// Configurations are selected by profile because the name of a configuration equals its profile and is
/// immutable. Labels are not suitable: an editor of the configuration could remove the label and with
/// it the requirement.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "medley.dev",
    version = "v1alpha1",
    kind = "ApprovalPolicy",
    plural = "approvalpolicies",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalPolicySpec {
    /// The profiles the policy applies to; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// The impacts the policy applies to; all if empty. Approvals are required by the impact of the
    /// plan, windows by that of the item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impacts: Vec<Impact>,
    /// The number of users who have to approve a plan.
    #[serde(default)]
    pub required_approvals: u32,
    /// An approver has to be in at least one of these groups; any user with the verb `approve` if
    /// empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Whether approvals by authors of the plan count (false).
    #[serde(default)]
    pub authors_may_approve: bool,
    /// Selected items start only within these windows, in addition to those of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenance_windows: Vec<MaintenanceWindow>,
    /// The lifetime of an unused approval, as a Go duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_expire_after: Option<String>,
}
