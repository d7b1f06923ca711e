//! The names other people's operators go by.

/// Where the descheduler operator lives, and with it `KubeDescheduler/cluster`.
pub const DESCHEDULER_NAMESPACE: &str = "openshift-kube-descheduler-operator";
/// Where the machine-config operator lives.
pub const MACHINE_CONFIG_NAMESPACE: &str = "openshift-machine-config-operator";
/// Where the virtualization operator lives, and with it its `HyperConverged`.
pub const VIRTUALIZATION_NAMESPACE: &str = "openshift-cnv";
/// The name of the `HyperConverged`.
pub const HYPERCONVERGED: &str = "kubevirt-hyperconverged";
/// Where what remedies unhealthy nodes lives.
pub const AVAILABILITY_NAMESPACE: &str = "openshift-workload-availability";
/// Where boot images are, unless somebody wants them elsewhere.
pub const BOOT_IMAGE_NAMESPACE: &str = "kubevirt-os-images";
/// Where templates of virtual machines are, unless somebody wants them elsewhere.
pub const TEMPLATE_NAMESPACE: &str = "openshift";
/// Where KubeVirt lives, and with it its `KubeVirt`.
pub const KUBEVIRT_NAMESPACE: &str = "kubevirt";
/// The name of the `KubeVirt`.
pub const KUBEVIRT: &str = "kubevirt";
/// The name of the `CDI`.
pub const IMPORTER: &str = "cdi";
/// The name of the `CDIConfig`.
pub const IMPORTER_CONFIG: &str = "config";
/// The name of objects of which there is one.
pub const CLUSTER: &str = "cluster";

/// Says which pool a `MachineConfig` is for.
pub const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";
/// The rendered configuration a node runs with.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// The rendered configuration a node is to run with.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// How far a node is: `Done`, `Working` or `Degraded`.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Why a node is degraded.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";

/// On a node: it fails to take on its configuration, and this is what it says about it. Take the
/// annotation away and it recovers.
pub const DEGRADE: &str = "fleet.medley.dev/degrade-machine-config";
/// `"true"` on nodes whose kernel measures pressure (PSI): the last `psi=` argument of what they run
/// with is `psi=1`.
pub const PSI: &str = "fleet.medley.dev/psi";
/// `"true"` on nodes that take no pods because they are being updated.
pub(super) const CORDONED: &str = "fleet.medley.dev/cordoned-for-update";
