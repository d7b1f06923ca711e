//! The names that KubeVirt gives to things, and those that Medley adds.

/// Stands for a model that is yet to be chosen.
pub const BEST_MATCH_MODEL: &str = "best-match-model";
/// The model of the node that a machine starts on.
pub const HOST_MODEL: &str = "host-model";
/// The CPU of the node as it is.
pub const HOST_PASSTHROUGH: &str = "host-passthrough";

/// On a node: a model that it can run.
pub const MODEL_LABEL: &str = "cpu-model.node.kubevirt.io/";
/// On a node: a model that it knows; machines with the model of another host may migrate to it.
pub const MIGRATION_LABEL: &str = "cpu-model-migration.node.kubevirt.io/";
/// On a node: a feature that its CPU has.
pub const FEATURE_LABEL: &str = "cpu-feature.node.kubevirt.io/";
/// On a node: the model of its own CPU.
pub const HOST_MODEL_LABEL: &str = "host-model-cpu.node.kubevirt.io/";
/// On a node: a feature that machines with the model of this host need.
pub const HOST_MODEL_FEATURE_LABEL: &str = "host-model-required-features.node.kubevirt.io/";
/// On a node: who made its CPU.
pub const VENDOR_LABEL: &str = "cpu-vendor.node.kubevirt.io/";
/// On a node: the model of its own CPU is obsolete.
pub const OBSOLETE_HOST_MODEL_LABEL: &str = "node-labeller.kubevirt.io/obsolete-host-model";
/// On a node: its virt-handler is alive.
pub const SCHEDULABLE_LABEL: &str = "kubevirt.io/schedulable";
/// On a node: its architecture, in the words of Go.
pub const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";
/// What a label says that holds.
pub const TRUE: &str = "true";

/// On a machine: the model that was chosen for it. A stock KubeVirt prunes `status.prefferedModel`,
/// but never an annotation.
pub const MODEL_ANNOTATION: &str = "medley.dev/cpu-model";
/// On a machine: why this model, in a word.
pub const REASON_ANNOTATION: &str = "medley.dev/cpu-model-reason";
/// On a machine: what its spec asked for before the choice.
pub const ASKED_ANNOTATION: &str = "medley.dev/cpu-model-asked";
/// On a machine: the node that it started on, which the choice was made for.
pub const NODE_ANNOTATION: &str = "medley.dev/cpu-model-node";
