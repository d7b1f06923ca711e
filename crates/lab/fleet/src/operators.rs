//! Other people's operators, simulated: what is governed needs somebody who acts on it.
//!
//! ```text
//! MachineConfigs --render--> rendered-<pool>-<hash> --roll out--> nodes, one after the other
//! KubeDescheduler/cluster --> accepted, or refused while worker nodes lack PSI
//! HyperConverged, NodeHealthCheck --> conditions
//! StorageClass --> StorageProfile: how its volumes are best claimed and kept
//! ClusterVersion --> Deployments of cluster operators --> ClusterOperators, in the order of a release
//! VirtualMachine --> VirtualMachineInstance --> launcher pod, running, migrating; labels of nodes
//! ```
//!
//! Kinds, names, fields, defaults, rules and conditions are those of the real operators, in the words
//! they use. What they do to machines is simulated: a node is cordoned, a reboot takes a while, and it
//! is back.

mod conditions;
mod definitions;
mod descheduler;
mod hyperconverged;
mod importer;
mod install;
mod kinds;
mod kubevirt;
mod machine_config;
pub mod names;
mod node_health;
pub(crate) mod release;
mod report;
mod start;

pub use definitions::{DeschedulerVintage, HyperConvergedVersion, definitions};
pub use install::install;
pub(crate) use install::{install_with, namespace};
pub use kinds::{
    MachineConfig, MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus,
    MachineConfigSpec, OperatorCondition, PoolConfiguration, hyperconverged, importer,
    kube_descheduler, kubevirt, machine_configuration, node_health_check, ssp, template,
    virtual_machine,
};
pub(crate) use kubevirt::default_labels as node_labels;
pub use start::start;

/// Which operators a cluster has.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an operator of its own"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Installed {
    /// The descheduler operator.
    pub descheduler: Option<DeschedulerVintage>,
    /// The machine-config operator.
    pub machine_config: bool,
    /// The virtualization operator.
    pub hyperconverged: Option<HyperConvergedVersion>,
    /// Node health checks, and what remedies.
    pub node_health: bool,
    /// The containerized data importer: its kinds, and profiles of storage. Somebody else imports.
    pub cdi: bool,
    /// The kind of the operator that schedules imports of boot images.
    pub ssp: bool,
    /// The kind of templates of virtual machines, which OpenShift brings.
    pub templates: bool,
    /// KubeVirt: virtual machines, and what runs them.
    pub virtual_machines: bool,
    /// The cluster-version operator, cluster operators, and a release for one architecture that they
    /// begin with beside one for several. Needs the machine-config operator.
    pub release: bool,
}

impl Installed {
    /// Everything, as of today.
    pub fn demo() -> Self {
        Self {
            descheduler: Some(DeschedulerVintage::Current),
            machine_config: true,
            hyperconverged: Some(HyperConvergedVersion::V1),
            node_health: true,
            cdi: true,
            ssp: true,
            templates: true,
            virtual_machines: true,
            release: true,
        }
    }
}
