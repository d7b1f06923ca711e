//! `VirtualMachine`: a VM that is run repeatedly, each time by a new instance.

use kube_core::metadata::ObjectMeta;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Condition, VirtualMachineInstanceSpec};
use crate::Rest;

/// The run strategy and the template of instances.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachine",
    plural = "virtualmachines",
    namespaced,
    status = "VirtualMachineStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineSpec {
    /// The run strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_strategy: Option<String>,
    /// Whether it runs; the predecessor of the run strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<bool>,
    /// The template of instances.
    #[serde(default)]
    pub template: VirtualMachineTemplate,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The template of instances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VirtualMachineTemplate {
    /// Their labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    /// The spec of the instance.
    #[serde(default)]
    pub spec: VirtualMachineInstanceSpec,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    /// The status shown to users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printable_status: Option<String>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}
