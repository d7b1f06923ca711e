//! Model names, labels and annotations: those of KubeVirt, and those that Medley adds.

/// In the spec of a VM: Medley chooses the model.
pub const BEST_MATCH_MODEL: &str = "best-match-model";
/// In the spec of a VM: the model of the node that it starts on.
pub const HOST_MODEL: &str = "host-model";
/// In the spec of a VM: the CPU of the node, unchanged.
pub const HOST_PASSTHROUGH: &str = "host-passthrough";

/// On a node: a model that it can run.
pub const MODEL_LABEL: &str = "cpu-model.node.kubevirt.io/";
/// On a node: a model that it knows; VMs with that host model may migrate to it.
pub const MIGRATION_LABEL: &str = "cpu-model-migration.node.kubevirt.io/";
/// On a node: a feature of its CPU.
pub const FEATURE_LABEL: &str = "cpu-feature.node.kubevirt.io/";
/// On a node: its host model.
pub const HOST_MODEL_LABEL: &str = "host-model-cpu.node.kubevirt.io/";
/// On a node: a feature that VMs with its host model require.
pub const HOST_MODEL_FEATURE_LABEL: &str = "host-model-required-features.node.kubevirt.io/";
/// On a node: the vendor of its CPU.
pub const VENDOR_LABEL: &str = "cpu-vendor.node.kubevirt.io/";
/// On a node: a machine type that its QEMU has.
pub const MACHINE_LABEL: &str = "machine-type.node.kubevirt.io/";
/// On a node: kubelet can give VMs dedicated CPUs.
pub const CPU_MANAGER_LABEL: &str = "kubevirt.io/cpumanager";
/// On a node: its host model is in KubeVirt's list of obsolete models.
pub const OBSOLETE_HOST_MODEL_LABEL: &str = "node-labeller.kubevirt.io/obsolete-host-model";
/// On a node: its virt-handler sends heartbeats.
pub const SCHEDULABLE_LABEL: &str = "kubevirt.io/schedulable";
/// The value of a node labeller label that applies.
pub const TRUE: &str = "true";

/// On a VMI: the chosen model. An unmodified KubeVirt prunes `status.prefferedModel`, but never an
/// annotation.
pub const MODEL_ANNOTATION: &str = "medley.dev/cpu-model";
/// On a VMI: the reason for the choice, in CamelCase.
pub const REASON_ANNOTATION: &str = "medley.dev/cpu-model-reason";
/// On a VMI: the model that its spec requested before the choice.
pub const REQUESTED_MODEL_ANNOTATION: &str = "medley.dev/cpu-model-asked";
/// On a VMI: the node that it started on, which the choice was made for.
pub const NODE_ANNOTATION: &str = "medley.dev/cpu-model-node";
