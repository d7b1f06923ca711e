//! The kinds that profiles read or write.

use super::{Access, KindUse};
use crate::snapshot::GroupKind;

/// Configures the descheduler operator.
pub const KUBE_DESCHEDULER: GroupKind = GroupKind {
    group: "operator.openshift.io",
    kind: "KubeDescheduler",
};
/// Configuration of the nodes of a role.
pub const MACHINE_CONFIG: GroupKind = GroupKind {
    group: "machineconfiguration.openshift.io",
    kind: "MachineConfig",
};
/// Nodes that share a configuration.
pub const MACHINE_CONFIG_POOL: GroupKind = GroupKind {
    group: "machineconfiguration.openshift.io",
    kind: "MachineConfigPool",
};
/// Holds the node disruption policies.
pub const MACHINE_CONFIGURATION: GroupKind = GroupKind {
    group: "operator.openshift.io",
    kind: "MachineConfiguration",
};
/// Configures the virtualization stack.
pub const HYPER_CONVERGED: GroupKind = GroupKind {
    group: "hco.kubevirt.io",
    kind: "HyperConverged",
};
/// Defines when a node is unhealthy, and its remediation.
pub const NODE_HEALTH_CHECK: GroupKind = GroupKind {
    group: "remediation.medik8s.io",
    kind: "NodeHealthCheck",
};
/// Runs the pods of an operator's operand.
pub const DEPLOYMENT: GroupKind = GroupKind {
    group: "apps",
    kind: "Deployment",
};
/// ConfigMap.
pub const CONFIG_MAP: GroupKind = GroupKind {
    group: "",
    kind: "ConfigMap",
};

pub(super) const KUBE_DESCHEDULERS: KindUse = KindUse {
    of: KUBE_DESCHEDULER,
    versions: &["v1"],
    plural: "kubedeschedulers",
    access: Access::ApplyAndDelete,
    named: None,
};
/// What the descheduler operator makes of its configuration.
pub(super) const DESCHEDULER_DEPLOYMENTS: KindUse = KindUse {
    of: DEPLOYMENT,
    versions: &["v1"],
    plural: "deployments",
    access: Access::Read,
    named: Some("descheduler"),
};
pub(super) const MACHINE_CONFIGS: KindUse = KindUse {
    of: MACHINE_CONFIG,
    versions: &["v1"],
    plural: "machineconfigs",
    access: Access::ApplyAndDelete,
    named: None,
};
pub(super) const MACHINE_CONFIG_POOLS: KindUse = KindUse {
    of: MACHINE_CONFIG_POOL,
    versions: &["v1"],
    plural: "machineconfigpools",
    access: Access::Read,
    named: None,
};
pub(super) const MACHINE_CONFIGURATIONS: KindUse = KindUse {
    of: MACHINE_CONFIGURATION,
    versions: &["v1"],
    plural: "machineconfigurations",
    access: Access::Read,
    named: None,
};
/// Field paths differ in `v1`; see [`super::hyperconverged`].
pub(super) const HYPER_CONVERGEDS: KindUse = KindUse {
    of: HYPER_CONVERGED,
    versions: &["v1", "v1beta1"],
    plural: "hyperconvergeds",
    access: Access::Apply,
    named: None,
};
pub(super) const NODE_HEALTH_CHECKS: KindUse = KindUse {
    of: NODE_HEALTH_CHECK,
    versions: &["v1alpha1"],
    plural: "nodehealthchecks",
    access: Access::ApplyAndDelete,
    named: None,
};
pub(super) const CONFIG_MAPS: KindUse = KindUse {
    of: CONFIG_MAP,
    versions: &["v1"],
    plural: "configmaps",
    access: Access::ApplyAndDelete,
    named: None,
};
