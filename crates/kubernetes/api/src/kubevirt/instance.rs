//! `VirtualMachineInstance`: a running VM, or one about to run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Condition;
use crate::Rest;

/// The VM and its placement.
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
    /// The architecture as in GOARCH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The domain.
    #[serde(default)]
    pub domain: Domain,
    /// The node selector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// The affinity; raw, because it may be invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    /// The tolerations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A libvirt domain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// The CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// The machine type that is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineType>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A machine type of QEMU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineType {
    /// Its name, such as `q35`.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// The model: a libvirt name, or a keyword such as `host-model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Required and forbidden features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Feature>,
    /// Whether it gets dedicated CPUs of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated_cpu_placement: Option<bool>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A CPU feature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `require`, `force`, `optional`, `disable` or `forbid`; `require` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineInstanceStatus {
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The node it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The model chosen for its first node. The spelling is that of the proposal; a stock KubeVirt does
    /// not keep the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preffered_model: Option<String>,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The machine type that it runs with: the version that QEMU resolved an alias to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineType>,
    /// Its active pods by uid, with the node of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub active_pods: BTreeMap<String, String>,
    /// Its last migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_state: Option<MigrationState>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A migration, as recorded on the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationState {
    /// The uid of the migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_uid: Option<String>,
    /// The source node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_node: Option<String>,
    /// The target node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_node: Option<String>,
    /// The target pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_pod: Option<String>,
    /// Whether it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// Whether it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

impl VirtualMachineInstanceSpec {
    /// The requested CPU model.
    pub fn model(&self) -> Option<&str> {
        let model = self.domain.cpu.as_ref()?.model.as_deref();
        model.filter(|model| !model.is_empty())
    }
}

impl VirtualMachineInstance {
    /// The machine type that its next launcher selects nodes for: the one that it runs with, else the requested one.
    // As `newNodeSelectorRenderer` in pkg/virt-controller/services/template.go.
    pub fn machine_type(&self) -> Option<&str> {
        let running = self.status.as_ref().and_then(|it| it.machine.as_ref());
        let requested = self.spec.domain.machine.as_ref();
        let machines = [running, requested].into_iter().flatten();
        let mut names = machines.map(|machine| machine.name.as_str());
        names.find(|name| !name.is_empty())
    }

    /// The phase; empty if not set.
    pub fn phase(&self) -> &str {
        let phase = self.status.as_ref().and_then(|it| it.phase.as_deref());
        phase.unwrap_or_default()
    }

    /// The node it runs on.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.status.as_ref()?.node_name.as_deref();
        node.filter(|node| !node.is_empty())
    }
}
