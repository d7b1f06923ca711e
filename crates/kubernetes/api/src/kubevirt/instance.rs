//! `VirtualMachineInstance`: a virtual machine that runs, or is about to.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Condition;
use crate::Rest;

/// What is to run, and where it may.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kubevirt.io",
    version = "v1",
    kind = "VirtualMachineInstance",
    plural = "virtualmachineinstances",
    namespaced,
    status = "VirtualMachineInstanceStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceSpec {
    /// The architecture, in the words of Go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The machine itself.
    #[serde(default)]
    pub domain: Domain,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Where it may and where it should run; as it was written, because it may make no sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    /// Taints that do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// Its processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A processor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// Its model: a name of libvirt, or a word for how to choose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Features that it has or must not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Feature>,
    /// Whether it has whole cores of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated_cpu_placement: Option<bool>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A feature of a processor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `require`, `force`, `optional`, `disable` or `forbid`; without one it is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceStatus {
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The model that was found for its first node. The name is spelt so where it was proposed; a stock
    /// KubeVirt does not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preffered_model: Option<String>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Its pods that are there, by uid, and the node of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub active_pods: BTreeMap<String, String>,
    /// Its last migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_state: Option<MigrationState>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A migration, as the machine sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationState {
    /// The uid of the migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_uid: Option<String>,
    /// Where from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_node: Option<String>,
    /// Where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_node: Option<String>,
    /// The pod that is migrated to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_pod: Option<String>,
    /// Whether it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// Whether it went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

impl VirtualMachineInstanceSpec {
    /// The model that is asked for.
    pub fn model(&self) -> Option<&str> {
        let model = self.domain.cpu.as_ref()?.model.as_deref();
        model.filter(|model| !model.is_empty())
    }
}

impl VirtualMachineInstance {
    /// How far it has come; nothing before anybody looked at it.
    pub fn phase(&self) -> &str {
        let phase = self.status.as_ref().and_then(|it| it.phase.as_deref());
        phase.unwrap_or_default()
    }

    /// Where it is.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.status.as_ref()?.node_name.as_deref();
        node.filter(|node| !node.is_empty())
    }
}
