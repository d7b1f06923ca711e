//! The spec of VirtPlatformConfig.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::options::ProfileOptions;
use super::status::VirtPlatformConfigStatus;

/// The desired configuration.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "advisor.kubevirt.io",
    version = "v1alpha1",
    kind = "VirtPlatformConfig",
    plural = "virtplatformconfigs",
    status = "VirtPlatformConfigStatus",
    schema = "disabled",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct VirtPlatformConfigSpec {
    /// The profile; immutable, and equal to the name of the object.
    pub profile: String,
    /// What to do with the plan (`DryRun`).
    #[serde(default)]
    pub action: Action,
    /// What to do when an item of the plan fails (`Abort`).
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Ignores changes of the targets since the plan was created, and re-applies on drift (false).
    #[serde(default)]
    pub bypass_optimistic_lock: bool,
    /// How long an item may take to become healthy, as a Go duration; no timeout if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_timeout: Option<String>,
    /// The options of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ProfileOptions>,
    /// The approval of a specific plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The required approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    /// When disruptive items may start; at any time if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenance_windows: Vec<MaintenanceWindow>,
    /// Rolls back the plan of this revision and all later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<i64>,
}

/// What to do with a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Create a plan and wait.
    #[default]
    DryRun,
    /// Create a plan and apply it.
    Apply,
    /// Do not manage the targets.
    Ignore,
}

/// What to do when an item fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// Stop; later items stay pending.
    #[default]
    Abort,
    /// Continue with the next item.
    Continue,
}

/// The approval of a specific plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The digest of the reviewed plan: no other plan is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    /// Items to apply, with their dependencies; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<String>,
    /// Consent to take over fields from other managers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takeovers: Vec<ConsentedTakeover>,
    /// A rejected plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejection>,
}

/// Consent to take over fields of an item from other managers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsentedTakeover {
    /// The name of the item.
    pub item: String,
    /// The field path as listed in the plan; all listed fields of the item if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The field manager to take the field over from; the one listed in the approved plan if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
}

/// A plan that was reviewed and rejected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    /// The digest of the plan.
    pub plan_digest: String,
    /// The reviewer's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The required approvals of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalPolicy {
    /// The number of approvals by the impact of the whole plan.
    #[serde(default)]
    pub required_approvals: RequiredApprovals,
    /// Whether approvals by authors of the plan count (false).
    #[serde(default)]
    pub author_may_approve: bool,
}

/// The number of approvals by impact of the plan (0 each).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequiredApprovals {
    /// For plans of low impact.
    #[serde(default)]
    pub low: u32,
    /// For plans of medium impact.
    #[serde(default)]
    pub medium: u32,
    /// For plans of high impact.
    #[serde(default)]
    pub high: u32,
}

/// A recurring window in which disruptive items may start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// When the window opens, as a cron schedule.
    pub schedule: String,
    /// How long it stays open, as a Go duration.
    pub duration: String,
    /// The time zone of the schedule, as an IANA name (`UTC`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}
