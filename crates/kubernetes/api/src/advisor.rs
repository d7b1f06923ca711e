//! `advisor.kubevirt.io/v1alpha1`: the tuning of operators that others own.

mod definition;
mod options;
mod spec;
mod status;

#[cfg(test)]
mod tests;

pub use definition::definition;
pub use options::{
    DeviationThresholds, KsmConfiguration, LoadAware, Mode, NodeHealth, ProfileOptions,
    VirtHigherDensity,
};
pub use spec::{
    Action, Approval, ApprovalPolicy, ConsentedTakeover, FailurePolicy, MaintenanceWindow,
    Rejection, RequiredApprovals, VirtPlatformConfig, VirtPlatformConfigSpec,
};
pub use status::{
    Applied, ApprovalRequirement, Drift, DriftClass, Enforcement, Impact, Input, Item, ItemState,
    Operation, Phase, Takeover, TargetRef, VirtPlatformConfigStatus,
};

/// The group of the kind.
pub const GROUP: &str = "advisor.kubevirt.io";
/// The version of the kind.
pub const VERSION: &str = "v1alpha1";
/// What the kind is called in URLs.
pub const PLURAL: &str = "virtplatformconfigs";

/// Who owns the fields that a plan sets, in `managedFields` of its targets.
pub const FIELD_MANAGER: &str = "virt-advisor-operator";

/// The `MutatingWebhookConfiguration` of the admission check that records who approves.
pub const WEBHOOK: &str = "medley-governance";

/// Annotations and labels, on configurations and on the objects they govern.
pub mod names {
    /// What a profile is for, in a sentence.
    pub const DESCRIPTION: &str = "advisor.kubevirt.io/description";
    /// What a profile may cost.
    pub const IMPACT_SUMMARY: &str = "advisor.kubevirt.io/impact-summary";
    /// Where a profile is documented.
    pub const DOCUMENTATION_URL: &str = "advisor.kubevirt.io/documentation-url";
    /// What has to be installed for a profile.
    pub const PREREQUISITES: &str = "advisor.kubevirt.io/prerequisites";
    /// Marks a configuration that nobody asked for: it advertises its profile.
    pub const AUTO_CREATED: &str = "advisor.kubevirt.io/auto-created";
    /// What a profile is about (a label).
    pub const CATEGORY: &str = "advisor.kubevirt.io/category";
    /// On a target: the configuration that governs it.
    pub const GOVERNED_BY: &str = "advisor.kubevirt.io/governed-by";
    /// On a target: the hash of what was applied.
    pub const APPLIED_PROFILE_HASH: &str = "advisor.kubevirt.io/applied-profile-hash";
    /// A request to record an approval: the digest of the plan. Admission turns it into an entry of
    /// [`APPROVALS`] in the name of the user who asked.
    pub const APPROVE: &str = "advisor.kubevirt.io/approve";
    /// Who approved which plan, as JSON. Only admission writes it.
    pub const APPROVALS: &str = "advisor.kubevirt.io/approvals";
    /// Users who requested the plan or changed what it is made from, as a JSON list. Only admission writes it.
    pub const AUTHORS: &str = "advisor.kubevirt.io/authors";
    /// The last author. Written by earlier versions; admission removes it.
    pub const AUTHOR: &str = "advisor.kubevirt.io/author";
}
