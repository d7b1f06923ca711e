//! `MachineConfigPool`: machines that are brought to one configuration, one after the other.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::Rest;

/// What the machines of a pool are to run.
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
    /// The rendered configuration that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<PoolConfiguration>,
    /// Whether machines are left as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A rendered configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolConfiguration {
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How far a pool has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolStatus {
    /// The rendered configuration that all machines have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<PoolConfiguration>,
    /// Machines that there are.
    #[serde(default)]
    pub machine_count: i32,
    /// Machines that run what is wanted.
    #[serde(default)]
    pub updated_machine_count: i32,
    /// Machines that run what is wanted and are ready.
    #[serde(default)]
    pub ready_machine_count: i32,
    /// Machines that cannot be used.
    #[serde(default)]
    pub unavailable_machine_count: i32,
    /// Machines that do not get on.
    #[serde(default)]
    pub degraded_machine_count: i32,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

impl MachineConfigPool {
    /// The label of pools without which no update is complete.
    pub const REQUIRED: &'static str =
        "operator.machineconfiguration.openshift.io/required-for-upgrade";

    /// The configuration that is wanted.
    pub fn wanted(&self) -> Option<&str> {
        let wanted = &self.spec.configuration.as_ref()?.name;
        (!wanted.is_empty()).then_some(wanted.as_str())
    }
}
