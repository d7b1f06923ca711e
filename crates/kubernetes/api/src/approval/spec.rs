//! The spec of ApprovalPolicy.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use crate::advisor::{Impact, MaintenanceWindow, Phase};

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
    /// Work in the cluster that holds disruptive items until it has finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight_gates: Vec<InFlightGate>,
    /// Whom to notify about the selected configurations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Receiver>,
}

/// Work in the cluster that a disruptive item would interrupt: a preset, or objects and an expression.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlightGate {
    /// Identifies the gate in messages.
    pub name: String,
    /// A ready-made gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<GatePreset>,
    /// The kind of the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<GateObjects>,
    /// A CEL expression over `object`: true while the object is in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
}

/// A ready-made gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatePreset {
    /// VirtualMachineInstanceMigrations that have not finished.
    Migrations,
    /// DataVolumes and DataImportCrons that import or clone.
    Imports,
    /// Backups and Restores of Velero that have not finished.
    Backups,
}

/// The kind of the objects of a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateObjects {
    /// The group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// A receiver of notifications. Its URL and keys are in a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receiver {
    /// Names the receiver, and its keys in the Secret.
    pub name: String,
    /// What is sent.
    #[serde(default)]
    pub format: NotificationFormat,
    /// The phases of which the receiver is notified; those that need a person if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// The URL of the console, for links.
    #[serde(
        rename = "consoleURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub console_url: Option<String>,
}

/// The payload of a notification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotificationFormat {
    /// A CloudEvent in structured mode.
    #[default]
    CloudEvents,
    /// An incoming webhook of Slack.
    Slack,
    /// A Teams workflow: a message with an adaptive card.
    Teams,
    /// The API of Alertmanager.
    Alertmanager,
}
