//! `medley.dev/v1alpha1` ReleasePolicy: how Medley verifies that a cluster has completed an update, and
//! the result.
//!
//! Only the object named `default` is used. Without it, `ReleasePolicySpec::default()` applies; the
//! operator then creates it to report the result in its status.

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

/// The API group.
pub const GROUP: &str = "medley.dev";
/// The API version.
pub const VERSION: &str = "v1alpha1";
/// The plural resource name, as in URLs and RBAC rules.
pub const PLURAL: &str = "releasepolicies";
/// The name of the only object that is used.
pub const NAME: &str = "default";
