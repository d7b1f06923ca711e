//! Simulated third-party operators, which act on the configuration that Medley governs.
//!
//! ```text
//! MachineConfigs --render--> rendered-<pool>-<hash> --roll out--> nodes, one after the other
//! KubeDescheduler/cluster --> Deployment of the descheduler, or refused while worker nodes lack PSI
//! HyperConverged, NodeHealthCheck --> conditions
//! StorageClass --> StorageProfile: recommended claim properties and snapshot class
//! ClusterVersion --> Deployments of cluster operators --> ClusterOperators, in the order of a release
//! VirtualMachine --> VirtualMachineInstance --> launcher pod, running, migrating; labels of nodes
//! ```
//!
//! Kinds, names, fields, defaults, validation rules, conditions and messages are those of the real
//! operators. The effect on nodes is simulated: a node is cordoned, a reboot takes a while, and the
//! node becomes ready again.

mod conditions;
mod definitions;
mod descheduler;
mod hyperconverged;
mod importer;
mod install;
mod kinds;
mod kubevirt;
mod machine_config;
mod monitoring;
pub mod names;
mod node_health;
pub(crate) mod release;
mod report;
mod start;

pub use definitions::{DeschedulerRelease, HyperConvergedVersion, definitions};
pub use install::install;
pub(crate) use install::{install_with, namespace};
pub use kinds::{
    MachineConfig, MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus,
    MachineConfigSpec, OperatorCondition, PoolConfiguration, hyperconverged, importer,
    kube_descheduler, kubevirt, machine_configuration, node_health_check, ssp, template,
    virtual_machine,
};
pub(crate) use kubevirt::default_labels as node_labels;
pub use kubevirt::start_virt_controller;
pub use start::start;

/// The operators installed in a cluster.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an operator of its own"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Installed {
    /// The descheduler operator.
    pub descheduler: Option<DeschedulerRelease>,
    /// The machine-config operator.
    pub machine_config: bool,
    /// OpenShift's monitoring, which the descheduler operator needs for profiles that move virtual machines.
    pub monitoring: bool,
    /// The virtualization operator.
    pub hyperconverged: Option<HyperConvergedVersion>,
    /// Node health checks and the remediation templates.
    pub node_health: bool,
    /// The containerized data importer: its CRDs and storage profiles. Imports are left to Medley's
    /// importer.
    pub cdi: bool,
    /// The CRD of SSP, the operator that schedules imports of boot images.
    pub ssp: bool,
    /// The kind of virtual machine templates, which OpenShift serves.
    pub templates: bool,
    /// KubeVirt: virtual machines and the controllers that run them.
    pub virtual_machines: bool,
    /// The cluster-version operator, cluster operators, and a single-architecture release installed
    /// next to a multi-architecture one. Requires the machine-config operator.
    pub release: bool,
}

impl Installed {
    /// All operators in their current versions.
    pub fn demo() -> Self {
        Self {
            descheduler: Some(DeschedulerRelease::Current),
            machine_config: true,
            monitoring: true,
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
