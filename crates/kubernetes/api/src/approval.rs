//! `medley.dev/v1alpha1` ApprovalPolicy: the floor for approvals of VirtPlatformConfigs.
//!
//! A configuration states its own requirements in `spec.approvalPolicy`, but the people who edit it can edit those, too.
//! An ApprovalPolicy is a separate object with RBAC of its own: neither editors nor approvers of configurations can
//! change it, and deleting or re-creating a configuration does not affect it.
//!
//! All policies that select a configuration apply at the same time; none overrides another, and each has to be met.

mod definition;
mod spec;

#[cfg(test)]
mod tests;

pub use definition::definition;
pub use spec::{
    ApprovalPolicy, ApprovalPolicySpec, GateObjects, GatePreset, InFlightGate, NotificationFormat,
    Receiver,
};

/// The API group.
pub const GROUP: &str = "medley.dev";
/// The API version.
pub const VERSION: &str = "v1alpha1";
/// The plural of the kind, as in URLs and RBAC rules.
pub const PLURAL: &str = "approvalpolicies";
