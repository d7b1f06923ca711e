//! The virtual machines of a fleet file, run by the simulated KubeVirt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Amount, one};

/// A group of identical virtual machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// Name of the virtual machine; several are `<name>-1`, `<name>-2`, ...
    pub name: String,
    /// Namespace, by default `default`.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Number of virtual machines.
    #[serde(default = "one")]
    pub count: u32,
    /// Architecture: `amd64`, `arm64` or `s390x`.
    #[serde(default = "amd64")]
    pub arch: String,
    /// CPU model: one of libvirt's, `host-model` or `host-passthrough`. Defaults to the
    /// cluster-wide model of KubeVirt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Number of CPU cores.
    #[serde(default = "one")]
    pub cores: u32,
    /// Guest memory.
    #[serde(default = "memory")]
    pub memory: Amount,
    /// Run strategy, by default `Always`.
    #[serde(default = "always")]
    pub run_strategy: String,
    /// Eviction strategy, which applies when its node is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_strategy: Option<String>,
    /// Node selector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
}

fn default_namespace() -> String {
    "default".into()
}

fn amd64() -> String {
    "amd64".into()
}

fn always() -> String {
    "Always".into()
}

fn memory() -> Amount {
    Amount::Text("1Gi".into())
}

impl Machine {
    /// Names of the virtual machines.
    pub(super) fn names(&self) -> Vec<String> {
        match self.count {
            1 => vec![self.name.clone()],
            count => (1..=count)
                .map(|number| format!("{}-{number}", self.name))
                .collect(),
        }
    }

    /// The VirtualMachine objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Value> {
        self.names().into_iter().map(|name| {
            let mut cpu = json!({ "cores": self.cores });
            if let Some(model) = &self.cpu_model {
                cpu["model"] = json!(model);
            }
            let mut spec = json!({
                "architecture": self.arch,
                "domain": {
                    "cpu": cpu,
                    "devices": {},
                    "memory": { "guest": self.memory.to_string() },
                },
            });
            if let Some(strategy) = &self.eviction_strategy {
                spec["evictionStrategy"] = json!(strategy);
            }
            if !self.node_selector.is_empty() {
                spec["nodeSelector"] = json!(self.node_selector);
            }
            json!({
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachine",
                "metadata": { "name": name, "namespace": self.namespace },
                "spec": { "runStrategy": self.run_strategy, "template": { "spec": spec } },
            })
        })
    }
}
