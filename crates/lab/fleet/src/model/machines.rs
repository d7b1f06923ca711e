//! The virtual machines of a fleet, which KubeVirt runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Amount, one};

/// Virtual machines that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// What the machine is called; several are `<name>-1`, `<name>-2`, ...
    pub name: String,
    /// Where it is: `default` unless told.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// Architecture: `amd64`, `arm64` or `s390x`.
    #[serde(default = "amd64")]
    pub arch: String,
    /// The model of its CPU: one of libvirt's, `host-model` or `host-passthrough`. Unless told it is that
    /// of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Its cores.
    #[serde(default = "one")]
    pub cores: u32,
    /// Its memory.
    #[serde(default = "memory")]
    pub memory: Amount,
    /// When it runs: `Always` unless told.
    #[serde(default = "always")]
    pub run_strategy: String,
    /// What becomes of it when its node is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_strategy: Option<String>,
    /// Labels its node has to have.
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
    /// The names of the machines.
    pub(super) fn names(&self) -> Vec<String> {
        match self.count {
            1 => vec![self.name.clone()],
            count => (1..=count)
                .map(|number| format!("{}-{number}", self.name))
                .collect(),
        }
    }

    /// The machines as KubeVirt has them.
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
