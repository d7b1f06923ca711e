//! The kinds other people's operators bring, as far as they are used here.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HyperConvergedVersion;

/// A part of how machines are to be configured.
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
    /// Further packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<String>>,
    /// Whether cryptography is restricted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// Arguments of the kernel; of several for one thing the last counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_arguments: Option<Vec<String>>,
    /// `default`, `realtime` or `64k-pages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_type: Option<String>,
    /// The image of the operating system.
    #[serde(rename = "osImageURL", skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,
}

/// Machines that are configured alike.
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
    /// What machines are to run with.
    #[serde(default)]
    pub configuration: PoolConfiguration,
    /// The configurations that are put together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_selector: Option<LabelSelector>,
    /// How many machines may be unavailable at a time, as a number or a share; 1 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// The machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Whether no machine is to be updated.
    #[serde(default)]
    pub paused: bool,
}

/// A rendered configuration, and what it was rendered from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolConfiguration {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it was put together from, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<ObjectReference>,
}

/// How far the machines of a pool are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPoolStatus {
    /// The generation of the pool this is about.
    pub observed_generation: i64,
    /// What all machines run with.
    pub configuration: PoolConfiguration,
    /// How many machines there are.
    pub machine_count: i32,
    /// How many run with what they are to run with.
    pub updated_machine_count: i32,
    /// How many of those can be used.
    pub ready_machine_count: i32,
    /// How many cannot be used.
    pub unavailable_machine_count: i32,
    /// How many failed.
    pub degraded_machine_count: i32,
    /// `Updated`, `Updating`, `Degraded`, `NodeDegraded`, `RenderDegraded`.
    pub conditions: Vec<OperatorCondition>,
}

/// A condition as OpenShift's operators have them: the reason may be empty, or a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorCondition {
    /// Of what.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// Why, at length.
    #[serde(default)]
    pub message: String,
    /// Since when.
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

/// Kinds whose plural is the kind and an `s`, which all of these are.
pub(super) fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}
