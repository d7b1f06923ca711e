//! `medley.dev/v1alpha1` PlacementPolicy: which pods are placed by what their images are for, and how.
//!
//! Of several policies that select a pod, one counts, as a whole: that of the highest priority, and of
//! equals the first by name. The policy called `default` comes after all others. Without it, pods that
//! no policy selects are placed as `PlacementPolicySpec::default()` says; with it, such pods are left
//! alone.

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

/// The group of the kind.
pub const GROUP: &str = "medley.dev";
/// The version of the kind.
pub const VERSION: &str = "v1alpha1";
/// What the kind is called in URLs.
pub const PLURAL: &str = "placementpolicies";
/// The policy that comes after all others.
pub const NAME: &str = "default";
/// The registration of what has the API server ask about pods.
pub const WEBHOOK: &str = "medley-placement";
