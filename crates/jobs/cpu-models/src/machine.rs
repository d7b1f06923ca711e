//! A virtual machine, as far as its CPU model goes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::demand::Demand;
use crate::names::{BEST_MATCH_MODEL, HOST_MODEL, HOST_PASSTHROUGH};

/// What a decision reads of a VirtualMachineInstance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
    /// The model that its spec asks for.
    pub requested: Requested,
    /// What it demands of its node. Machines of one template may share it.
    pub demand: Arc<Demand>,
}

/// A CPU model as the spec of a machine asks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Requested {
    /// One that is chosen for it.
    #[default]
    BestMatch,
    /// That of the node it starts on.
    HostModel,
    /// The CPU of the node as it is.
    HostPassthrough,
    /// This one.
    Named(String),
}

impl Requested {
    /// Reads `spec.domain.cpu.model`. What is missing becomes `host-model` at admission.
    pub fn new(model: Option<&str>) -> Self {
        match model {
            Some(BEST_MATCH_MODEL) => Self::BestMatch,
            None | Some("" | HOST_MODEL) => Self::HostModel,
            Some(HOST_PASSTHROUGH) => Self::HostPassthrough,
            Some(name) => Self::Named(name.to_owned()),
        }
    }

    /// As the spec says it.
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

/// A machine that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Running {
    /// The machine.
    pub machine: Machine,
    /// The node that it is on.
    pub node: String,
    /// The model that was recorded for it, if one was: a name or `host-model`.
    pub recorded: Option<String>,
    /// CPU labels that its launcher pod selects because it has migrated before: those of the node
    /// that it started on.
    pub carried: BTreeMap<String, String>,
}
