//! `kubevirt.io/v1`: virtual machines, what runs them, their migrations, and how KubeVirt is set up.
//!
//! Words that are a choice of few (a phase, a policy) are texts here: an object with a word from a
//! later version can still be read, and is judged where it matters.

mod cluster;
mod instance;
mod machine;
mod migration;

#[cfg(test)]
mod tests;

pub use cluster::{Configuration, DeveloperConfiguration, KubeVirt, KubeVirtSpec, KubeVirtStatus};
pub use instance::{
    Cpu, Domain, Feature, MigrationState, VirtualMachineInstance, VirtualMachineInstanceSpec,
    VirtualMachineInstanceStatus,
};
pub use machine::{
    VirtualMachine, VirtualMachineSpec, VirtualMachineStatus, VirtualMachineTemplate,
};
pub use migration::{
    VirtualMachineInstanceMigration, VirtualMachineInstanceMigrationSpec,
    VirtualMachineInstanceMigrationStatus,
};

/// The group of the kinds.
pub const GROUP: &str = "kubevirt.io";
/// The version of the kinds.
pub const VERSION: &str = "v1";

/// What holds of an object of KubeVirt: like one of CDI, it may lack a reason and a message.
pub use crate::cdi::Condition;

/// Phases of a VirtualMachineInstance, as far as anybody here waits for them.
pub mod phases {
    /// It was accepted.
    pub const PENDING: &str = "Pending";
    /// Its pod exists.
    pub const SCHEDULING: &str = "Scheduling";
    /// Its pod is ready on a node, and belongs to virt-handler from now on.
    pub const SCHEDULED: &str = "Scheduled";
    /// It runs.
    pub const RUNNING: &str = "Running";
    /// It ended well.
    pub const SUCCEEDED: &str = "Succeeded";
    /// It ended badly.
    pub const FAILED: &str = "Failed";
}

/// Labels.
pub mod labels {
    /// What a pod of KubeVirt is: `virt-launcher` for one that runs a machine.
    pub const APP: &str = "kubevirt.io";
    /// The uid of the VirtualMachineInstance that a pod is for.
    pub const CREATED_BY: &str = "kubevirt.io/created-by";
    /// The uid of the migration that a pod is the target of.
    pub const MIGRATION: &str = "kubevirt.io/migrationJobUID";
    /// The node that an instance is on.
    pub const NODE_NAME: &str = "kubevirt.io/nodeName";
}

/// Annotations.
pub mod annotations {
    /// The VirtualMachineInstance that a pod is for, by name.
    pub const DOMAIN: &str = "kubevirt.io/domain";
    /// The migration that a pod is the target of, by name.
    pub const MIGRATION: &str = "kubevirt.io/migrationJobName";
}
