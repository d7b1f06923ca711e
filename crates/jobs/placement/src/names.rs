//! Names of labels, annotations and gates.

pub use api::node::{ARCHITECTURE, OS};

/// Node label for the Windows build (`10.0.20348`), set by the kubelet since Kubernetes 1.17.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Node label for the CPU variant (`v7` of `arm`, `v3` of `amd64`). No kubelet sets it; administrators may.
pub const VARIANT: &str = "medley.dev/cpu-variant";

/// Scheduling gate of pods whose images are being inspected.
pub const GATE: &str = "medley.dev/placement";
/// Label or annotation of a pod, or label of a namespace: `off` opts out of placement.
pub const SWITCH: &str = "medley.dev/placement";
/// Value that opts out.
pub const OFF: &str = "off";
/// Pod annotation: why the pod was placed, held or left unchanged.
pub const WHY: &str = "medley.dev/placement-reason";

/// RuntimeClass annotation: isolation of its handler, `process` or `hyperv`.
pub const ISOLATION: &str = "medley.dev/isolation";
/// Value for process isolation.
pub const PROCESS: &str = "process";
/// Value for Hyper-V isolation.
pub const HYPER_V: &str = "hyperv";
/// RuntimeClass annotation: platform that its handler runs instead of the node's (`windows(10.0.17763)/amd64`).
pub const PLATFORM: &str = "medley.dev/platform";

/// RuntimeClass annotation: Windows product name (`Windows Server 2019`).
pub const PRODUCT: &str = "medley.dev/windows";

/// Taints that only express the platform of a node: a pod whose images run there may tolerate them.
pub const PLATFORM_TAINTS: [&str; 5] = [
    // Managed clouds set it on nodes of their second architecture.
    ARCHITECTURE,
    OS,
    "node.kubernetes.io/os",
    // The Kubernetes documentation uses it for Windows nodes; the enhancement proposal uses the next one.
    "os",
    "windows",
];

/// Component of events about pods, and field manager of the controller.
pub const COMPONENT: &str = "medley-placement";
/// Field selector of pods that may be gated: those without a node.
// Both are field selectors of pods that kube-apiserver supports (`pkg/registry/core/pod/strategy.go`). A gated pod
// always matches, and a pod that gets a node leaves a cache as a deletion.
pub const UNSCHEDULED: &str = "spec.nodeName=,status.phase=Pending";

/// Reason of a pod whose images are being inspected.
pub const WAITING: &str = "Waiting";

/// Label: the tool that manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value for objects that Medley manages. An object without it belongs to another manager, whatever its name.
pub const MEDLEY: &str = "medley";

/// Name of containerd's handler for process isolation.
pub const PROCESS_HANDLER: &str = "runhcs-wcow-process";
/// Name of containerd's handler for Hyper-V isolation; a handler for one build has the build as a suffix.
pub const HYPER_V_HANDLER: &str = "runhcs-wcow-hypervisor";

/// Annotation of mirror pods, set by the kubelet.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Taints of temporary node states.
pub(crate) const STATE_TAINTS: [&str; 9] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/uninitialized",
];
