//! What is planned, done and seen.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::ProfileOptions;

/// What is planned, done and seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtPlatformConfigStatus {
    /// Where the configuration is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The worst impact of all items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact_severity: Option<Impact>,
    /// The generation that the phase is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The targets when the plan was made; after it was carried out, when that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_snapshot_hash: Option<String>,
    /// Whose logic made the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,
    /// The options that the plan was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_options: Option<ProfileOptions>,
    /// The plan, in the order in which it is carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
    /// What holds and what does not, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Digest of everything that decides what the plan does. An approval is for one digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    /// Approvals that the plan needs, one entry for each policy that asks for some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_approvals: Vec<ApprovalRequirement>,
    /// What the plan was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// What may go wrong although the plan succeeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The entry of the history that records the plan that was last carried out, or is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// What is in force: everything that was applied and not taken back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<Applied>,
    /// Where the targets differ from what was applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// How often drift was corrected, when locks are bypassed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Enforcement>,
    /// When the next maintenance window opens that the plan waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_window: Option<Time>,
    /// The rollback that was carried out last: it is not carried out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_to: Option<i64>,
}

/// Approvals that one policy asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequirement {
    /// The policy: `ApprovalPolicy NAME`, or `spec.approvalPolicy`.
    pub source: String,
    /// Number of users.
    pub approvals: u32,
    /// Groups of which a user has to be in at least one; any user if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Whether approvals by authors of the plan are left out.
    #[serde(default)]
    pub authors_excluded: bool,
}

/// Where a configuration is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing has happened yet.
    Pending,
    /// The plan is being made.
    Drafting,
    /// Something is missing that the profile needs.
    PrerequisiteFailed,
    /// The plan waits for approval.
    ReviewRequired,
    /// The plan is being carried out.
    InProgress,
    /// The plan is in force.
    Completed,
    /// The plan was carried out, but for items that failed.
    CompletedWithErrors,
    /// The plan is in force, but this version would plan differently.
    CompletedWithUpgrade,
    /// The plan was not carried out.
    Failed,
    /// Somebody changed what had been applied.
    Drifted,
    /// Nobody is to do anything.
    Ignored,
}

impl Phase {
    /// All phases, in the order of the definition.
    pub const ALL: [Self; 11] = [
        Self::Pending,
        Self::Drafting,
        Self::PrerequisiteFailed,
        Self::ReviewRequired,
        Self::InProgress,
        Self::Completed,
        Self::CompletedWithErrors,
        Self::CompletedWithUpgrade,
        Self::Failed,
        Self::Drifted,
        Self::Ignored,
    ];

    /// The name, which is also the type of a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Drafting => "Drafting",
            Self::PrerequisiteFailed => "PrerequisiteFailed",
            Self::ReviewRequired => "ReviewRequired",
            Self::InProgress => "InProgress",
            Self::Completed => "Completed",
            Self::CompletedWithErrors => "CompletedWithErrors",
            Self::CompletedWithUpgrade => "CompletedWithUpgrade",
            Self::Failed => "Failed",
            Self::Drifted => "Drifted",
            Self::Ignored => "Ignored",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a change may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Impact {
    /// Nothing is disturbed.
    Low,
    /// The timing should be chosen with care.
    Medium,
    /// Workloads are disturbed; typically nodes reboot.
    High,
}

impl Impact {
    /// The name in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "Low",
            Self::Medium => "Medium",
            Self::High => "High",
        }
    }
}

impl fmt::Display for Impact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The object that an item changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace of a namespaced object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl fmt::Display for TargetRef {
    /// As in `KubeDescheduler openshift-kube-descheduler-operator/cluster`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// What an item does to its target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Applies the desired state.
    #[default]
    Apply,
    /// Gives fields back: the values of before, and their ownership.
    Restore,
    /// Deletes what a plan had created.
    Delete,
}

/// How far an item is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ItemState {
    /// It waits for those before it.
    #[default]
    Pending,
    /// It is applied, and not yet healthy.
    InProgress,
    /// It is applied and healthy.
    Completed,
    /// It could not be applied, or did not become healthy in time.
    Failed,
}

/// One step of a plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// What it is called; unique in the plan.
    pub name: String,
    /// What it changes.
    pub target_ref: TargetRef,
    /// What it may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact_severity: Option<Impact>,
    /// What changes, as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The object to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_state: Option<Value>,
    /// How far it is.
    #[serde(default)]
    pub state: ItemState,
    /// What is going on, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the state last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The fields that it manages, as dotted paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_fields: Vec<String>,
    /// What it does to the target (`Apply`).
    #[serde(default, skip_serializing_if = "is_apply")]
    pub operation: Operation,
    /// The items that have to be completed before it, besides their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// The managed fields when the plan was made; absent if there was no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BTreeMap<String, Value>>,
    /// The `metadata.uid` of the target when the plan was made: an object of the same name that was created later is
    /// another target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_uid: Option<String>,
    /// Whether the server's dry run changed nothing but Medley's marks; such an item has low impact.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// The fields that it takes from other managers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takeovers: Vec<Takeover>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_apply(operation: &Operation) -> bool {
    *operation == Operation::Apply
}

/// A field that an item takes from another manager.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Takeover {
    /// The field.
    pub path: String,
    /// Who owns it.
    pub manager: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Value>,
    /// What it is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Value>,
    /// Whether it was ours before, and is only taken back.
    #[serde(default)]
    pub reclaimed: bool,
}

/// Something that the plan was derived from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// What is derived (`evictionLimits.total`).
    pub name: String,
    /// Where it comes from.
    pub object: TargetRef,
    /// The field there.
    pub path: String,
    /// Its value; absent if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
    /// What was made of it.
    pub derived: Value,
}

/// Something in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// The item.
    pub name: String,
    /// What it changed.
    pub target_ref: TargetRef,
    /// The fields that it manages, with what they are to be.
    pub values: BTreeMap<String, Value>,
    /// Whether we created the object.
    #[serde(default)]
    pub created: bool,
    /// When it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<Time>,
    /// The entry of the history of the first plan that touched the target.
    pub revision: i64,
}

/// Where a target differs from what was applied, or would if what is wanted now were applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// The item.
    pub item: String,
    /// The field.
    pub path: String,
    /// What was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Value>,
    /// What it is; for changes of inputs and logic, what it would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Value>,
    /// Who owns it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// When it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Why it differs.
    pub class: DriftClass,
}

/// Why something differs from what was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriftClass {
    /// Somebody edited the target.
    ExternalEdit,
    /// What the plan was derived from changed.
    InputChange,
    /// This version plans differently.
    LogicUpgrade,
}

/// How often drift was corrected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enforcement {
    /// When; only what is recent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Time>,
    /// Whether we gave up: somebody else always wins. A change of the specification resumes.
    #[serde(default)]
    pub paused: bool,
    /// Who we fought with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// How often in a row too many corrections were wanted in too short a time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exhaustions: u32,
    /// Nothing is corrected before then, because there were too many corrections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_until: Option<Time>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
