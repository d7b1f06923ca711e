//! Labels, annotations and gates, by name.

/// The architecture of a node, by its kubelet.
pub const ARCHITECTURE: &str = "kubernetes.io/arch";
/// The operating system of a node, by its kubelet.
pub const OS: &str = "kubernetes.io/os";
/// The build of Windows that a node runs (`10.0.20348`), by its kubelet since Kubernetes 1.17.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Which variant of its architecture a node is (`v7` of `arm`, `v3` of `amd64`). No kubelet says it;
/// whoever knows may label the node.
pub const VARIANT: &str = "medley.dev/cpu-variant";

/// The scheduling gate of pods whose images are being looked at.
pub const GATE: &str = "medley.dev/placement";
/// On a pod, or on its namespace as a label: `off` leaves it alone.
pub const SWITCH: &str = "medley.dev/placement";
/// The value that switches off.
pub const OFF: &str = "off";
/// On a pod: why it is where it is, or why it is nowhere.
pub const WHY: &str = "medley.dev/placement-reason";

/// On a RuntimeClass: how its handler keeps Windows containers apart, `process` or `hyperv`.
pub const ISOLATION: &str = "medley.dev/isolation";
/// The value for a shared kernel.
pub const PROCESS: &str = "process";
/// The value for Hyper-V.
pub const HYPER_V: &str = "hyperv";
/// On a RuntimeClass: what its handler runs instead of what the node is (`windows(10.0.17763)/amd64`).
pub const PLATFORM: &str = "medley.dev/platform";

/// On a RuntimeClass: what the Windows that it is for is called (`Windows Server 2019`).
pub const PRODUCT: &str = "medley.dev/windows";

/// Taints that say what a node is, and no more: whose images run there may go there.
pub const PLATFORM_TAINTS: [&str; 5] = [
    // Managed clouds put it on nodes of their second architecture.
    ARCHITECTURE,
    OS,
    "node.kubernetes.io/os",
    // The documentation of Kubernetes has it on nodes of Windows, and the proposal the next.
    "os",
    "windows",
];

/// How the reason of a pod begins whose images are being looked at.
pub const WAITING: &str = "Waiting";

/// Who made an object, as a label.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value for what Medley makes. Without it an object is somebody else's, whatever it is called.
pub const MEDLEY: &str = "medley";

/// What containerd calls the handler of Windows that shares the kernel of the node.
pub const PROCESS_HANDLER: &str = "runhcs-wcow-process";
/// What containerd calls its handler of Hyper-V. One for a build of Windows has the build behind it.
pub const HYPER_V_HANDLER: &str = "runhcs-wcow-hypervisor";

/// What the kubelet writes on pods that it runs from files.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Taints that come and go with the state of a node.
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
