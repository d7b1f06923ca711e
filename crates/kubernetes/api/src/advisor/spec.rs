//! What an administrator asks for.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::options::ProfileOptions;
use super::status::VirtPlatformConfigStatus;

/// What an administrator asks for.
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
    /// The profile; never changes, and is the name of the object.
    pub profile: String,
    /// What to do (`DryRun`).
    #[serde(default)]
    pub action: Action,
    /// What to do when an item of the plan fails (`Abort`).
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Applies whatever has changed since, and keeps applying (false).
    #[serde(default)]
    pub bypass_optimistic_lock: bool,
    /// How long an item may take to become healthy, as a Go duration; for ever if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_timeout: Option<String>,
    /// What can be tuned about the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ProfileOptions>,
    /// What exactly is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// How many have to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    /// When disruptive items may start; always if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenance_windows: Vec<MaintenanceWindow>,
    /// Undoes the plan of this revision and all later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<i64>,
}

/// What to do with a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Make a plan and wait.
    #[default]
    DryRun,
    /// Make a plan and carry it out.
    Apply,
    /// Do nothing at all.
    Ignore,
}

/// What to do when an item fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// Stop; the items behind it stay pending.
    #[default]
    Abort,
    /// Go on with the next item.
    Continue,
}

/// What exactly is approved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The plan, as it was reviewed: nothing else is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    /// Items to carry out, with those they depend on; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<String>,
    /// Fields that may be taken from other managers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takeovers: Vec<ConsentedTakeover>,
    /// A plan that was looked at and refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejection>,
}

/// Fields of an item that may be taken from other managers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsentedTakeover {
    /// The item.
    pub item: String,
    /// The field as the plan lists it; all listed fields of the item if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The field manager that gives up the field; the one that the approved plan lists if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
}

/// A plan that was looked at and refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    /// The plan.
    pub plan_digest: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How many have to approve.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalPolicy {
    /// By the impact of the whole plan.
    #[serde(default)]
    pub required_approvals: RequiredApprovals,
    /// Whether the approval of whoever last changed the specification counts (false).
    #[serde(default)]
    pub author_may_approve: bool,
}

/// How many have to approve a plan of each impact (0 each).
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

/// When disruptive items may start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// When the window opens, as a cron schedule.
    pub schedule: String,
    /// How long it stays open, as a Go duration.
    pub duration: String,
    /// By whose clocks, as an IANA name (`UTC`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}
