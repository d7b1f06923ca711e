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
/// The value for Hyper-V.
pub const HYPER_V: &str = "hyperv";
/// On a RuntimeClass: what its handler runs instead of what the node is (`windows(10.0.17763)/amd64`).
pub const PLATFORM: &str = "medley.dev/platform";

/// What containerd calls its handler of Hyper-V.
pub(crate) const HYPER_V_HANDLER: &str = "runhcs-wcow-hypervisor";
/// What the kubelet writes on pods that it runs from files.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Taints that come and go with the state of a node begin like this.
pub(crate) const STATE_TAINTS: &str = "node.kubernetes.io/";
