//! `medley.dev/v1alpha1` ReleasePolicy: how Medley judges whether a cluster has truly arrived at a release,
//! and what it found.
//!
//! One object counts, the one called `default`. Without it, everything is as
//! `ReleasePolicySpec::default()` says; the operator then makes it, to have a place for its verdict.

mod definition;
mod spec;
mod status;

#[cfg(test)]
mod tests;

pub use definition::definition;
pub use spec::{ConfigMapReference, Gate, Mode, PayloadSource, ReleasePolicy, ReleasePolicySpec};
pub use status::{
    OperatorHistory, OperatorState, PoolState, Progress, ReleasePolicyStatus, TargetRelease,
    UndoneVersion,
};

/// The group of the kind.
pub const GROUP: &str = "medley.dev";
/// The version of the kind.
pub const VERSION: &str = "v1alpha1";
/// What the kind is called in URLs.
pub const PLURAL: &str = "releasepolicies";
/// The one object that counts.
pub const NAME: &str = "default";
