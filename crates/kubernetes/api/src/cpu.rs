//! `medley.dev/v1alpha1` CpuModelPolicy: how CPU models are chosen for virtual machines.
//!
//! Only the object named `default` is used. Without it, `CpuModelPolicySpec::default()` applies.

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

/// The API group.
pub const GROUP: &str = "medley.dev";
/// The API version.
pub const VERSION: &str = "v1alpha1";
/// The plural resource name, as in URLs and RBAC rules.
pub const PLURAL: &str = "cpumodelpolicies";
/// The name of the only object that is used.
pub const NAME: &str = "default";
/// The webhook configuration that sets the chosen models on KubeVirt's objects.
pub const WEBHOOK: &str = "medley-cpu-models";
