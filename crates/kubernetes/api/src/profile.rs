//! `medley.dev/v1alpha1` PlatformProfile: a profile of VirtPlatformConfigs as data.
//!
//! A profile consists of expressions (CEL) and templates. What they mean, and what is checked before any of them is
//! evaluated, is part of the governance crate; this is only their form.

mod definition;
mod spec;
mod status;

#[cfg(test)]
mod tests;

pub use definition::definition;
pub use spec::{
    Adoption, Dependency, HealthRule, HealthState, ImpactLevel, ImpactRule, InputSpec, ItemSpec,
    KindSpec, ObjectName, PlatformProfile, PlatformProfileSpec, ReadSpec, RefusalSpec, Requirement,
    TargetSpec, VariableSpec, WarningSpec,
};
pub use status::{Finding, PlatformProfileStatus};

/// The API group.
pub const GROUP: &str = "medley.dev";
/// The API version.
pub const VERSION: &str = "v1alpha1";
/// The plural of the kind, as in URLs and RBAC rules.
pub const PLURAL: &str = "platformprofiles";
/// The condition that is true while configurations can use a profile.
pub const READY: &str = "Ready";
