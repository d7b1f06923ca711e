//! `MachineConfigPool`: machines that are updated to one configuration, one after the other.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::Rest;

/// The desired configuration of a pool.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigPool",
    plural = "machineconfigpools",
    shortname = "mcp",
    status = "MachineConfigPoolStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolSpec {
    /// The desired rendered configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<PoolConfiguration>,
    /// Whether updates of the machines are paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A rendered configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolConfiguration {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The progress of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolStatus {
    /// The rendered configuration all machines have reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<PoolConfiguration>,
    /// The number of machines.
    #[serde(default)]
    pub machine_count: i32,
    /// Machines with the desired configuration.
    #[serde(default)]
    pub updated_machine_count: i32,
    /// Machines with the desired configuration that are ready.
    #[serde(default)]
    pub ready_machine_count: i32,
    /// Machines that are unavailable.
    #[serde(default)]
    pub unavailable_machine_count: i32,
    /// Machines that are degraded.
    #[serde(default)]
    pub degraded_machine_count: i32,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl MachineConfigPool {
    /// The label of pools that block the completion of updates.
    pub const REQUIRED: &'static str =
        "operator.machineconfiguration.openshift.io/required-for-upgrade";

    /// The desired configuration.
    pub fn wanted(&self) -> Option<&str> {
        let wanted = &self.spec.configuration.as_ref()?.name;
        (!wanted.is_empty()).then_some(wanted.as_str())
    }
}
