//! `medley.dev/v1alpha1` CpuModelPolicy: how CPU models are chosen for virtual machines, where the
//! built-in ways do not suit.
//!
//! One object counts, the one called `default`. Without it, everything is as
//! `CpuModelPolicySpec::default()` says.

mod definition;
mod spec;
mod status;

#[cfg(test)]
mod tests;

pub use definition::definition;
pub use spec::{
    Bias, Counted, CpuModelPolicy, CpuModelPolicySpec, ForeignVendors, ModelOverride, NodeScope,
    Support, Threshold,
};
pub use status::{CpuModelPolicyStatus, Machines, NodeGroup};

/// The group of the kind.
pub const GROUP: &str = "medley.dev";
/// The version of the kind.
pub const VERSION: &str = "v1alpha1";
/// What the kind is called in URLs.
pub const PLURAL: &str = "cpumodelpolicies";
/// The one object that counts.
pub const NAME: &str = "default";
/// The registration of what has KubeVirt's objects carry the models that are chosen.
pub const WEBHOOK: &str = "medley-cpu-models";
