//! The kinds that profiles read or write.

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
