//! The fields of a virtual machine that matter for its CPU model.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::demand::Demand;
use crate::names::{BEST_MATCH_MODEL, HOST_MODEL, HOST_PASSTHROUGH};

/// What a decision reads of a VirtualMachineInstance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The model that its spec requests.
    pub requested: Requested,
    /// What it demands of its node. VMs of one template may share it.
    pub demand: Arc<Demand>,
}

/// `spec.domain.cpu.model` of a VM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Requested {
    /// `best-match-model`: chosen by Medley.
    #[default]
    BestMatch,
    /// `host-model`: that of the node it starts on.
    HostModel,
    /// `host-passthrough`: the CPU of the node, unchanged.
    HostPassthrough,
    /// A model by name.
    Named(String),
}

impl Requested {
    /// Reads `spec.domain.cpu.model`. KubeVirt's webhook sets a missing one to `host-model`.
    pub fn new(model: Option<&str>) -> Self {
        match model {
            Some(BEST_MATCH_MODEL) => Self::BestMatch,
            None | Some("" | HOST_MODEL) => Self::HostModel,
            Some(HOST_PASSTHROUGH) => Self::HostPassthrough,
            Some(name) => Self::Named(name.to_owned()),
        }
    }

    /// The value in the spec.
    pub fn as_str(&self) -> &str {
        match self {
            Self::BestMatch => BEST_MATCH_MODEL,
            Self::HostModel => HOST_MODEL,
            Self::HostPassthrough => HOST_PASSTHROUGH,
            Self::Named(name) => name,
        }
    }
}

impl fmt::Display for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A VM that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningVm {
    /// The VM.
    pub machine: Machine,
    /// The node that it runs on.
    pub node: String,
    /// The model recorded for it, if any: a model name, `host-model` or `host-passthrough`.
    pub recorded: Option<String>,
    /// The CPU labels that its launcher pod selects because it has migrated before: those of the
    /// node that it started on.
    pub carried: BTreeMap<String, String>,
}
