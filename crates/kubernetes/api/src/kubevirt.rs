//! `kubevirt.io/v1`: virtual machines, instances, migrations, and KubeVirt's configuration.
//!
//! Enumerations (a phase, a policy) are strings here: an object with a value from a later version can
//! still be read, and the value is checked where it is used.

mod cluster;
mod instance;
mod machine;
mod migration;

#[cfg(test)]
mod tests;

pub use cluster::{Configuration, DeveloperConfiguration, KubeVirt, KubeVirtSpec, KubeVirtStatus};
pub use instance::{
    Cpu, Domain, Feature, MachineType, MigrationState, VirtualMachineInstance,
    VirtualMachineInstanceSpec, VirtualMachineInstanceStatus,
};
pub use machine::{
    VirtualMachine, VirtualMachineSpec, VirtualMachineStatus, VirtualMachineTemplate,
};
pub use migration::{
    VirtualMachineInstanceMigration, VirtualMachineInstanceMigrationSpec,
    VirtualMachineInstanceMigrationStatus,
};

/// The API group.
pub const GROUP: &str = "kubevirt.io";
/// The API version.
pub const VERSION: &str = "v1";

/// A condition of KubeVirt: like one of CDI, it may lack a reason and a message.
pub use crate::cdi::Condition;

/// Phases of a VirtualMachineInstance that Medley uses.
pub mod phases {
    /// Its pod is ready on a node, and virt-handler takes over.
    pub const SCHEDULED: &str = "Scheduled";
    /// It is running.
    pub const RUNNING: &str = "Running";
    /// It ended successfully.
    pub const SUCCEEDED: &str = "Succeeded";
    /// It failed.
    pub const FAILED: &str = "Failed";
}

/// Labels.
pub mod labels {
    /// The component of a pod: `virt-launcher` for one that runs a VM.
    pub const APP: &str = "kubevirt.io";
    /// The uid of the VirtualMachineInstance of a pod.
    pub const CREATED_BY: &str = "kubevirt.io/created-by";
    /// The uid of the migration a pod is the target of.
    pub const MIGRATION: &str = "kubevirt.io/migrationJobUID";
    /// The node of an instance.
    pub const NODE_NAME: &str = "kubevirt.io/nodeName";
}

/// Annotations.
pub mod annotations {
    /// The name of the VirtualMachineInstance of a pod.
    pub const DOMAIN: &str = "kubevirt.io/domain";
    /// The name of the migration a pod is the target of.
    pub const MIGRATION: &str = "kubevirt.io/migrationJobName";
}
