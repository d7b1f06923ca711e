//! `advisor.kubevirt.io/v1alpha1` VirtPlatformConfig: governed changes to the configuration of other
//! operators.

mod definition;
mod options;
mod spec;
mod status;

#[cfg(test)]
mod tests;

pub use definition::{BUILT_IN_PROFILES, definition};
pub use options::{
    DeviationThresholds, KsmConfiguration, LoadAware, Mode, NodeHealth, ProfileOptions,
    VirtHigherDensity,
};
pub use spec::{
    Action, Approval, ApprovalPolicy, ConsentedTakeover, FailurePolicy, MaintenanceWindow,
    Rejection, RequiredApprovals, VirtPlatformConfig, VirtPlatformConfigSpec,
};
pub use status::{
    Applied, ApprovalRequirement, Capability, Deviation, DeviationClass, Drift, DriftClass,
    Enforcement, Impact, Input, Item, ItemState, Operation, Phase, Retry, Takeover, TargetRef,
    VirtPlatformConfigStatus,
};

/// The API group.
pub const GROUP: &str = "advisor.kubevirt.io";
/// The API version.
pub const VERSION: &str = "v1alpha1";
/// The plural resource name, as in URLs and RBAC rules.
pub const PLURAL: &str = "virtplatformconfigs";

/// The field manager of the fields a plan sets, in `managedFields` of its targets.
pub const FIELD_MANAGER: &str = "virt-advisor-operator";

/// The `MutatingWebhookConfiguration` of the admission webhook that records approvals.
pub const WEBHOOK: &str = "medley-governance";

/// Annotations and labels of configurations and of the objects they govern.
pub mod names {
    /// The purpose of a profile, in a sentence.
    pub const DESCRIPTION: &str = "advisor.kubevirt.io/description";
    /// The possible impact of a profile.
    pub const IMPACT_SUMMARY: &str = "advisor.kubevirt.io/impact-summary";
    /// The documentation of a profile.
    pub const DOCUMENTATION_URL: &str = "advisor.kubevirt.io/documentation-url";
    /// What has to be installed for a profile.
    pub const PREREQUISITES: &str = "advisor.kubevirt.io/prerequisites";
    /// The options of a profile with their defaults and ranges.
    pub const OPTIONS: &str = "advisor.kubevirt.io/options";
    /// Marks a configuration the operator created to advertise its profile.
    pub const AUTO_CREATED: &str = "advisor.kubevirt.io/auto-created";
    /// The category of a profile (a label).
    pub const CATEGORY: &str = "advisor.kubevirt.io/category";
    /// On a target: the configuration that governs it.
    pub const GOVERNED_BY: &str = "advisor.kubevirt.io/governed-by";
    /// On a target: the hash of the applied fields.
    pub const APPLIED_PROFILE_HASH: &str = "advisor.kubevirt.io/applied-profile-hash";
    /// Requests to record an approval of the plan with this digest. Admission turns it into an entry of
    /// [`APPROVALS`] with the name of the requesting user.
    pub const APPROVE: &str = "advisor.kubevirt.io/approve";
    /// The approvals of plans by user, as JSON. Only admission writes it.
    pub const APPROVALS: &str = "advisor.kubevirt.io/approvals";
    /// The users who requested the plan or changed its inputs, as a JSON list. Only admission writes
    /// it.
    pub const AUTHORS: &str = "advisor.kubevirt.io/authors";
    /// The last author. Written by earlier versions; admission removes it.
    pub const AUTHOR: &str = "advisor.kubevirt.io/author";
}
