//! Names used by the third-party operators.

/// Namespace of the descheduler operator and of `KubeDescheduler/cluster`.
pub const DESCHEDULER_NAMESPACE: &str = "openshift-kube-descheduler-operator";
/// Namespace of OpenShift's monitoring.
pub const MONITORING_NAMESPACE: &str = "openshift-monitoring";
/// The Route of Prometheus.
pub const PROMETHEUS_ROUTE: &str = "prometheus-k8s";
/// Namespace of the machine-config operator.
pub const MACHINE_CONFIG_NAMESPACE: &str = "openshift-machine-config-operator";
/// Namespace of the virtualization operator and of its `HyperConverged`.
pub const VIRTUALIZATION_NAMESPACE: &str = "openshift-cnv";
/// The name of the `HyperConverged`.
pub const HYPERCONVERGED: &str = "kubevirt-hyperconverged";
/// Namespace of the operators that remediate unhealthy nodes.
pub const AVAILABILITY_NAMESPACE: &str = "openshift-workload-availability";
/// Default namespace of boot images.
pub const BOOT_IMAGE_NAMESPACE: &str = "kubevirt-os-images";
/// Default namespace of virtual machine templates.
pub const TEMPLATE_NAMESPACE: &str = "openshift";
/// Namespace of KubeVirt and of its `KubeVirt` object.
pub const KUBEVIRT_NAMESPACE: &str = "kubevirt";
/// The name of the `KubeVirt`.
pub const KUBEVIRT: &str = "kubevirt";
/// The name of the `CDI`.
pub const IMPORTER: &str = "cdi";
/// The name of the `CDIConfig`.
pub const IMPORTER_CONFIG: &str = "config";
/// Name of singleton objects.
pub const CLUSTER: &str = "cluster";

/// Label with the pool of a `MachineConfig`.
pub const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";
/// The rendered configuration that a node runs.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// The desired rendered configuration of a node.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// Update state of a node: `Done`, `Working` or `Degraded`.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Why a node is degraded.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";

/// On a node: applying its configuration fails with this message. Removing the annotation lets it
/// recover.
pub const DEGRADE: &str = "fleet.medley.dev/degrade-machine-config";
/// `"true"` on nodes with PSI enabled: the last `psi=` kernel argument of their configuration is
/// `psi=1`.
pub const PSI: &str = "fleet.medley.dev/psi";
/// `"true"` on nodes cordoned for an update.
pub(super) const CORDONED: &str = "fleet.medley.dev/cordoned-for-update";
