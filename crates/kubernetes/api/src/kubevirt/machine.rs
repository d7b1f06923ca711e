//! `VirtualMachine`: what is run again and again, each time by a new instance.

use kube_core::metadata::ObjectMeta;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Condition, VirtualMachineInstanceSpec};
use crate::Rest;

/// When it runs, and what then runs.
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
    /// When it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_strategy: Option<String>,
    /// Whether it runs, in the words of before there were strategies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<bool>,
    /// What its instances are made of.
    #[serde(default)]
    pub template: VirtualMachineTemplate,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What instances are made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VirtualMachineTemplate {
    /// Their labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    /// What is to run.
    #[serde(default)]
    pub spec: VirtualMachineInstanceSpec,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    /// What people are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printable_status: Option<String>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}
