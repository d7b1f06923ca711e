//! The fleet file: pools of identical nodes and virtual machines, in YAML.

mod cpu;
mod expand;
mod machines;
mod validate;

use std::collections::BTreeMap;
use std::fmt;

use machinery::field::FieldError;
use serde::{Deserialize, Serialize};

pub(crate) use cpu::is_known as is_known_model;
pub use cpu::{Cpu, GENERATIONS, Generation};
pub use expand::{complete, expand};
pub use machines::Machine;

/// The default fleet of `medley up`.
pub const DEMO: &str = include_str!("model/demo.yaml");

/// A fleet, as its YAML file describes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fleet {
    /// Groups of identical nodes.
    #[serde(default)]
    pub pools: Vec<Pool>,
    /// Virtual machines, created where KubeVirt is simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_machines: Vec<Machine>,
}

/// A group of identical nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// Name of the pool; its nodes are `<prefix>-1`, `<prefix>-2`, ...
    pub name: String,
    /// Prefix of node names; defaults to the name of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Number of nodes.
    #[serde(default = "one")]
    pub count: u32,
    /// Roles (`node-role.kubernetes.io/<role>`), by default `worker`; a `control-plane` is a
    /// `master` as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Architecture, as Go names it.
    pub arch: String,
    /// Operating system: `linux` or `windows`.
    #[serde(default = "linux")]
    pub os: String,
    /// Build of Windows (`10.0.20348`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_build: Option<String>,
    /// Value of `status.nodeInfo.osImage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_image: Option<String>,
    /// Value of `status.nodeInfo.kernelVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,
    /// Value of `status.nodeInfo.containerRuntimeVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_runtime: Option<String>,
    /// Handlers of the container runtime (`status.runtimeHandlers`); empty means the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime_handlers: Vec<String>,
    /// Zones, assigned round-robin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Further labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<PoolTaint>,
    /// Capacity of a node: cpu, memory, pods, ephemeral-storage, hugepages, devices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Amount>,
    /// The part of the capacity that is not allocatable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reserved: BTreeMap<String, Amount>,
    /// CPU labels as KubeVirt's node labeller sets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
}

/// A taint on every node of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolTaint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A quantity, written as a number or as text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// A plain number.
    Number(i64),
    /// A quantity (`16Gi`).
    Text(String),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

fn one() -> u32 {
    1
}

fn linux() -> String {
    "linux".into()
}

/// Errors of a fleet file.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file is not YAML in the schema of a fleet.
    #[error("reading the fleet: {0}")]
    Syntax(String),
    /// The file has invalid fields.
    #[error("the fleet is not valid: {}", machinery::field::aggregate(.0))]
    Invalid(Vec<FieldError>),
}

impl Fleet {
    /// Parses and validates a fleet.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let fleet: Self =
            serde_saphyr::from_str(text).map_err(|error| ModelError::Syntax(error.to_string()))?;
        fleet.checked()
    }

    /// The demo fleet.
    pub fn demo() -> Result<Self, ModelError> {
        Self::parse(DEMO)
    }

    /// A fleet of these pools, without virtual machines.
    pub fn of_pools(pools: Vec<Pool>) -> Self {
        Self {
            pools,
            ..Self::default()
        }
    }

    /// A fleet of this many workers, two thirds amd64 and one third arm64 in three zones, for scale
    /// tests.
    pub fn of_size(nodes: u32) -> Self {
        let zones: Vec<String> = ["a", "b", "c"].map(|zone| format!("zone-{zone}")).into();
        let pool = |name: &str, arch: &str, count: u32| Pool {
            count,
            zones: zones.clone(),
            ..Pool::new(name, arch)
        };
        let arm = nodes / 3;
        let mut pools = vec![pool("amd", "amd64", nodes - arm)];
        if arm > 0 {
            pools.push(pool("arm", "arm64", arm));
        }
        Self::of_pools(pools)
    }

    /// Validates the fleet.
    pub fn checked(self) -> Result<Self, ModelError> {
        let errors = validate::fleet(&self);
        if errors.is_empty() {
            Ok(self)
        } else {
            Err(ModelError::Invalid(errors))
        }
    }
}

impl Pool {
    /// One Linux node of an architecture, with the default capacity.
    pub fn new(name: &str, arch: &str) -> Self {
        Self {
            name: name.to_owned(),
            prefix: None,
            count: 1,
            roles: Vec::new(),
            arch: arch.to_owned(),
            os: linux(),
            windows_build: None,
            os_image: None,
            kernel_version: None,
            container_runtime: None,
            runtime_handlers: Vec::new(),
            zones: Vec::new(),
            region: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            capacity: BTreeMap::new(),
            reserved: BTreeMap::new(),
            cpu: None,
        }
    }

    /// Prefix of node names.
    pub fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(&self.name)
    }
}

#[cfg(test)]
mod tests;
