//! Kinds of the third-party operators, with the fields used here.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HyperConvergedVersion;

/// Partial configuration of nodes.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfig",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigSpec {
    /// An Ignition configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Additional packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<String>>,
    /// Whether FIPS mode is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// Kernel arguments; of repeated ones the last takes effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_arguments: Option<Vec<String>>,
    /// `default`, `realtime` or `64k-pages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_type: Option<String>,
    /// Image of the operating system.
    #[serde(rename = "osImageURL", skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,
}

/// A set of identically configured nodes.
#[derive(CustomResource, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigPool",
    status = "MachineConfigPoolStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolSpec {
    /// Target configuration of the nodes.
    #[serde(default)]
    pub configuration: PoolConfiguration,
    /// Selects the MachineConfigs to render.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_selector: Option<LabelSelector>,
    /// Maximum number of unavailable nodes, absolute or as a percentage; by default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Selects the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Whether updates of nodes are paused.
    #[serde(default)]
    pub paused: bool,
}

/// A rendered configuration and its sources.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolConfiguration {
    /// Name of the rendered MachineConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The rendered MachineConfigs, in merge order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<ObjectReference>,
}

/// Rollout status of a pool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPoolStatus {
    /// The generation of the pool that this status describes.
    pub observed_generation: i64,
    /// The configuration that all nodes run.
    pub configuration: PoolConfiguration,
    /// Number of nodes.
    pub machine_count: i32,
    /// Number of nodes that run the target configuration.
    pub updated_machine_count: i32,
    /// Number of updated nodes that are ready.
    pub ready_machine_count: i32,
    /// Number of unavailable nodes.
    pub unavailable_machine_count: i32,
    /// Number of degraded nodes.
    pub degraded_machine_count: i32,
    /// `Updated`, `Updating`, `Degraded`, `NodeDegraded`, `RenderDegraded`.
    pub conditions: Vec<OperatorCondition>,
}

/// A condition of an OpenShift operator: the reason may be empty, or a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorCondition {
    /// Condition type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Machine-readable reason.
    #[serde(default)]
    pub reason: String,
    /// Human-readable message.
    #[serde(default)]
    pub message: String,
    /// Time of the last status change.
    pub last_transition_time: Time,
}

/// `KubeDescheduler`.
pub fn kube_descheduler() -> ApiResource {
    resource("operator.openshift.io", "v1", "KubeDescheduler")
}

/// `MachineConfiguration`.
pub fn machine_configuration() -> ApiResource {
    resource("operator.openshift.io", "v1", "MachineConfiguration")
}

/// `HyperConverged`.
pub fn hyperconverged(version: HyperConvergedVersion) -> ApiResource {
    resource("hco.kubevirt.io", version.name(), "HyperConverged")
}

/// `NodeHealthCheck`.
pub fn node_health_check() -> ApiResource {
    resource("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck")
}

/// `DataImportCron`, `DataSource`, `DataVolume`, `StorageProfile`, `CDI` or `CDIConfig`.
pub fn importer(kind: &str) -> ApiResource {
    resource("cdi.kubevirt.io", "v1beta1", kind)
}

/// `SSP`.
pub fn ssp() -> ApiResource {
    resource("ssp.kubevirt.io", "v1beta3", "SSP")
}

/// OpenShift's `Template`.
pub fn template() -> ApiResource {
    resource("template.openshift.io", "v1", "Template")
}

/// OpenShift's `ClusterVersion`.
pub(super) fn cluster_version() -> ApiResource {
    resource("config.openshift.io", "v1", "ClusterVersion")
}

/// KubeVirt's `VirtualMachine`.
pub fn virtual_machine() -> ApiResource {
    kubevirt("VirtualMachine")
}

/// KubeVirt's `VirtualMachine`, `VirtualMachineInstance`, `VirtualMachineInstanceMigration` or
/// `KubeVirt`.
pub fn kubevirt(kind: &str) -> ApiResource {
    resource("kubevirt.io", "v1", kind)
}

/// An ApiResource whose plural is the lower-case kind with an `s`, which holds for all kinds here.
pub(super) fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}
