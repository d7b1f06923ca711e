//! `VirtualMachineInstanceMigration`: an instance is to move to another node.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::Rest;

/// Which, and where it may go.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachineInstanceMigration",
    plural = "virtualmachineinstancemigrations",
    namespaced,
    status = "VirtualMachineInstanceMigrationStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceMigrationSpec {
    /// The instance that moves.
    #[serde(default)]
    pub vmi_name: String,
    /// Labels that the target must have, besides what the instance asks for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub added_node_selector: BTreeMap<String, String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VirtualMachineInstanceMigrationStatus {
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

impl VirtualMachineInstanceMigration {
    /// How far it has come; nothing before anybody looked at it.
    pub fn phase(&self) -> &str {
        let phase = self.status.as_ref().and_then(|it| it.phase.as_deref());
        phase.unwrap_or_default()
    }
}
