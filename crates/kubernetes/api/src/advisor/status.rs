//! The status of VirtPlatformConfig: the plan, its progress, and drift.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::ProfileOptions;

/// The plan, its progress, and drift.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtPlatformConfigStatus {
    /// The phase of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The highest impact of all items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact_severity: Option<Impact>,
    /// The generation the phase refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The hash of the targets when the plan was created; after it was applied, at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_snapshot_hash: Option<String>,
    /// The version of the operator that created the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,
    /// The hash of the PlatformProfile that the plan was generated from; absent for a built-in profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_hash: Option<String>,
    /// The options the plan was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_options: Option<ProfileOptions>,
    /// The plan, in the order it is applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Item>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The digest of everything that determines the effect of the plan. An approval is for one digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<String>,
    /// The approvals the plan needs, one entry per policy that requires any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_approvals: Vec<ApprovalRequirement>,
    /// The inputs the plan was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Risks that remain although the plan succeeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The history revision of the plan that is being or was last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The applied items that are in force: not rolled back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<Applied>,
    /// The differences between the targets and the applied fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// The CustomResourceDefinitions that the plan was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// The digest of the plan that was under review when the action was set to `Apply`: consent to the takeovers that
    /// it lists. Only written where admission does not record approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed_digest: Option<String>,
    /// Corrections of drift, if optimistic locks are bypassed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcement: Option<Enforcement>,
    /// When the next maintenance window opens that the plan waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_window: Option<Time>,
    /// The last completed rollback, which is not repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_to: Option<i64>,
    /// When a failed plan is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// The next attempt at a plan that failed, or that waits for a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How often it has failed so far.
    pub attempts: u32,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// The approvals one policy requires.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequirement {
    /// The policy: `ApprovalPolicy NAME`, or `spec.approvalPolicy`.
    pub source: String,
    /// The number of users.
    pub approvals: u32,
    /// An approver has to be in at least one of these groups; any user if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Whether approvals by authors of the plan do not count.
    #[serde(default)]
    pub authors_excluded: bool,
}

/// The phase of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Not reconciled yet.
    Pending,
    /// The plan is being created.
    Drafting,
    /// A prerequisite of the profile is missing.
    PrerequisiteFailed,
    /// The plan waits for approval.
    ReviewRequired,
    /// The plan is being applied.
    InProgress,
    /// The plan is in force.
    Completed,
    /// The plan was applied, except for items that failed.
    CompletedWithErrors,
    /// The plan is in force, but this operator version would plan differently.
    CompletedWithUpgrade,
    /// The plan was not applied.
    Failed,
    /// Applied fields were changed by another field manager.
    Drifted,
    /// The action is `Ignore`.
    Ignored,
}

impl Phase {
    /// All phases, in the order of the CRD.
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

    /// The name, which is also a condition type.
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

/// The impact of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Impact {
    /// No disruption.
    Low,
    /// The timing should be chosen with care.
    Medium,
    /// Workloads are disrupted; typically nodes reboot.
    High,
}

impl Impact {
    /// The value in manifests.
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

/// The object an item changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// The group and version.
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
    /// Restores the previous values and the ownership of fields.
    Restore,
    /// Deletes an object that a plan created.
    Delete,
}

/// The progress of an item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ItemState {
    /// It waits for earlier items.
    #[default]
    Pending,
    /// It is applied, and not yet healthy.
    InProgress,
    /// It is applied and healthy.
    Completed,
    /// It could not be applied, or did not become healthy in time.
    Failed,
}

/// One item of a plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The name; unique in the plan.
    pub name: String,
    /// The object it changes.
    pub target_ref: TargetRef,
    /// Its impact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact_severity: Option<Impact>,
    /// The change as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The object to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_state: Option<Value>,
    /// Its progress.
    #[serde(default)]
    pub state: ItemState,
    /// The current activity or error, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the state last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The fields it manages, as dotted paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_fields: Vec<String>,
    /// What it does to the target (`Apply`).
    #[serde(default, skip_serializing_if = "is_apply")]
    pub operation: Operation,
    /// The items that have to be completed first, besides the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// The managed fields when the plan was created; absent if there was no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BTreeMap<String, Value>>,
    /// The `metadata.uid` of the target when the plan was created: an object of the same name created
    /// later is another target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_uid: Option<String>,
    /// Whether the dry run changed nothing but Medley's annotations; such an item has low impact.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// The fields it takes over from other managers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takeovers: Vec<Takeover>,
    /// What the API server keeps instead of what the item requests: by the dry run, and after the item was applied,
    /// by the response to the write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<Deviation>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
fn is_apply(operation: &Operation) -> bool {
    *operation == Operation::Apply
}

/// A field an item takes over from another manager.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Takeover {
    /// The field path.
    pub path: String,
    /// The current field manager.
    pub manager: String,
    /// Since when it owns the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The live value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Value>,
    /// The desired value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Value>,
    /// Whether Medley owned it before, and only takes it back.
    #[serde(default)]
    pub reclaimed: bool,
}

/// A field that the API server keeps with another value than the one that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deviation {
    /// The field path.
    pub path: String,
    /// The cause.
    pub class: DeviationClass,
    /// The value that was sent; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Value>,
    /// The value that is kept; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Value>,
    /// The admission webhooks and policies that may have changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Why the API server keeps another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviationClass {
    /// The schema of the CustomResourceDefinition does not declare the field.
    PrunedBySchema,
    /// Mutating admission changed the value.
    ChangedByAdmission,
    /// The field was not sent, and has the default of the schema.
    Defaulted,
}

impl DeviationClass {
    /// All classes, in the order of the CRD.
    pub const ALL: [Self; 3] = [
        Self::PrunedBySchema,
        Self::ChangedByAdmission,
        Self::Defaulted,
    ];
}

/// A CustomResourceDefinition that a plan was derived from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// The name of the CustomResourceDefinition.
    pub name: String,
    /// The version that the plan uses.
    pub version: String,
    /// Its uid and generation, which change with its schema.
    pub revision: String,
}

/// An input of the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The derived setting (`evictionLimits.total`).
    pub name: String,
    /// The object it is derived from.
    pub object: TargetRef,
    /// The field path in that object.
    pub path: String,
    /// The value of the field; absent if it was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Value>,
    /// The derived value.
    pub derived: Value,
}

/// An applied item that is in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// The name of the item.
    pub name: String,
    /// The object it changed.
    pub target_ref: TargetRef,
    /// The managed fields with their desired values.
    pub values: BTreeMap<String, Value>,
    /// Whether Medley created the object.
    #[serde(default)]
    pub created: bool,
    /// When it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<Time>,
    /// The history revision of the first plan that changed the target.
    pub revision: i64,
    /// What the API server keeps instead of the desired values; not drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<Deviation>,
}

/// A difference between a target and the applied fields, or between the applied fields and the current
/// plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// The name of the item.
    pub item: String,
    /// The field path.
    pub path: String,
    /// The applied value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Value>,
    /// The live value; for changes of inputs, logic and capabilities, the value that would be applied now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Value>,
    /// The field manager that changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// When it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// The cause of the difference.
    pub class: DriftClass,
}

/// The cause of drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriftClass {
    /// The target was edited.
    ExternalEdit,
    /// An input of the plan changed.
    InputChange,
    /// This operator version plans differently.
    LogicUpgrade,
    /// A CustomResourceDefinition changed: the plan differs, or the schema no longer has the field.
    CapabilityChange,
}

/// Corrections of drift.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enforcement {
    /// The times of recent corrections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Time>,
    /// Whether correction is suspended because another manager keeps reverting it. A change of the spec
    /// resumes it.
    #[serde(default)]
    pub paused: bool,
    /// The conflicting field manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
}
