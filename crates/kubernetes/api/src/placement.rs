//! `medley.dev/v1alpha1` PlacementPolicy: which pods are placed by the platforms of their images, and
//! how.
//!
//! If several policies select a pod, only one applies: that with the highest priority; of equal ones
//! the first by name. The policy named `default` comes last. Without it, pods that no policy selects
//! are placed by `PlacementPolicySpec::default()`; with it, such pods are not changed.

mod definition;
mod spec;
mod status;

#[cfg(test)]
mod tests;

pub use definition::definition;
pub use spec::{
    Emulation, FailurePolicy, Mode, NamedSecret, OnMiss, OnNoMatch, PlacementPolicy,
    PlacementPolicySpec, PullSecrets, PullSecretsMode, Timeouts, Weight,
};
pub use status::{PlacementPolicyStatus, Pods};

/// The API group.
pub const GROUP: &str = "medley.dev";
/// The API version.
pub const VERSION: &str = "v1alpha1";
/// The plural resource name, as in URLs and RBAC rules.
pub const PLURAL: &str = "placementpolicies";
/// The name of the policy that comes last.
pub const NAME: &str = "default";
/// The webhook configuration for pods.
pub const WEBHOOK: &str = "medley-placement";
