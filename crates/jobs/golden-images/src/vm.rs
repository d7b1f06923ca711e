//! The architecture of a virtual machine, from what it starts from.
//!
//! A machine that names no architecture gets that of its DataSource, through one pointer. One that
//! names another is told; so is one whose disks are for different architectures.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use api::cdi::{DataSource, DataSourceRef, Named, labels};
use serde_json::Value;

use crate::action::{label, named};
use crate::list;

/// A machine that starts from more than this is not looked at further.
const MOST: usize = 64;

/// What is known.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The virtual machine.
    pub machine: &'a Value,
    /// Where it is.
    pub namespace: &'a str,
    /// Finds DataSources.
    pub sources: &'a dyn Fn(&Named) -> Option<&'a DataSource>,
    /// The architectures of volumes and DataVolumes that it uses directly, by name; those that do not
    /// say one are not here.
    pub volumes: &'a dyn Fn(&Named) -> Option<&'a str>,
    /// What a machine gets that nothing else is known of.
    pub default: Option<&'a str>,
    /// The architectures of the nodes.
    pub nodes: &'a BTreeSet<&'a str>,
}

/// What follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The architecture to set; nothing if it is set, or if nothing is known.
    pub set: Option<String>,
    /// Where it comes from.
    pub why: Why,
    /// What the user is told.
    pub warnings: Vec<Warning>,
}

/// Where the architecture of a machine comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Why {
    /// The machine names it.
    Named,
    /// Its DataSource bears it.
    DataSource(Named),
    /// A volume that it uses bears it.
    Volume(Named),
    /// It is that of the cluster.
    Default,
    /// Nobody knows.
    #[default]
    Unknown,
}

/// Something that will not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The machine is for one architecture, its disk for another.
    #[error(
        "the virtual machine is for {machine}, but {kind} {}/{} is for {disk}; it will not start from it", .of.namespace, .of.name
    )]
    Mismatch {
        /// What the machine is for.
        machine: String,
        /// What the disk is for.
        disk: String,
        /// What kind of disk it is.
        kind: &'static str,
        /// The disk.
        of: Named,
    },
    /// A label says something that no machine can be.
    #[error(
        "DataSource {}/{} is for {architecture:?}; amd64, arm64 and s390x are accepted; it is ignored", .of.namespace, .of.name
    )]
    Unknown {
        /// The DataSource.
        of: Named,
        /// What it says.
        architecture: String,
    },
    /// There is no such DataSource.
    #[error("DataSource {}/{} does not exist; the virtual machine waits for it", .0.namespace, .0.name)]
    Missing(Named),
    /// No node can run it.
    #[error("the virtual machine is for {0}, but no node is; it waits for one")]
    NoNode(String),
}

impl Warning {
    /// A word for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Mismatch { .. } => "ArchitectureMismatch",
            Self::Unknown { .. } => "UnknownArchitecture",
            Self::Missing(_) => "DataSourceNotFound",
            Self::NoNode(_) => "NoMatchingNode",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str("the virtual machine"),
            Self::DataSource(of) => write!(f, "DataSource {}/{}", of.namespace, of.name),
            Self::Volume(of) => write!(f, "volume {}/{}", of.namespace, of.name),
            Self::Default => f.write_str("the default of the cluster"),
            Self::Unknown => f.write_str("nothing"),
        }
    }
}

/// A disk whose architecture is known.
struct Disk {
    kind: &'static str,
    of: Named,
    architecture: String,
}

/// Decides what a machine is for.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision = Decision::default();
    let disks = disks(facts, &mut decision.warnings);
    let own = facts
        .machine
        .pointer("/spec/template/spec/architecture")
        .and_then(Value::as_str)
        .filter(|own| !own.is_empty());
    let machine = if let Some(own) = own {
        decision.why = Why::Named;
        Some(own.to_owned())
    } else {
        let first = disks.first();
        match first {
            Some(disk) if disk.kind == "DataSource" => {
                decision.why = Why::DataSource(disk.of.clone());
            }
            Some(disk) => decision.why = Why::Volume(disk.of.clone()),
            None if facts.default.is_some() => decision.why = Why::Default,
            None => {}
        }
        decision.set = first
            .map(|disk| disk.architecture.clone())
            .or_else(|| facts.default.map(str::to_owned));
        decision.set.clone()
    };
    let Some(machine) = machine else {
        return decision;
    };
    for disk in disks.into_iter().filter(|it| it.architecture != machine) {
        decision.warnings.push(Warning::Mismatch {
            machine: machine.clone(),
            disk: disk.architecture,
            kind: disk.kind,
            of: disk.of,
        });
    }
    if !facts.nodes.is_empty() && !facts.nodes.contains(machine.as_str()) {
        decision.warnings.push(Warning::NoNode(machine));
    }
    decision
}

/// What a machine starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// DataSources that it clones.
    pub sources: Vec<Named>,
    /// Volumes and DataVolumes that it uses and does not make itself.
    pub volumes: Vec<Named>,
}

/// What a machine in a namespace starts from.
pub fn references(machine: &Value, namespace: &str) -> References {
    let list = |path| {
        let list = machine.pointer(path).and_then(Value::as_array);
        list.into_iter().flatten().take(MOST)
    };
    let mut found = References::default();
    let mut made = BTreeSet::new();
    for template in list("/spec/dataVolumeTemplates") {
        if let Some(name) = template.pointer("/metadata/name").and_then(Value::as_str) {
            made.insert(name);
        }
        let Some(reference) = template.pointer("/spec/sourceRef") else {
            continue;
        };
        let text = |name| {
            let text = reference.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty())
        };
        let is_source = text("kind").is_some_and(|kind| kind.eq_ignore_ascii_case("DataSource"));
        if let Some(name) = text("name").filter(|_| is_source) {
            let home = text("namespace").unwrap_or(namespace);
            found.sources.push(named(home, name));
        }
    }
    for volume in list("/spec/template/spec/volumes") {
        let name = volume
            .pointer("/dataVolume/name")
            .or_else(|| volume.pointer("/persistentVolumeClaim/claimName"))
            .and_then(Value::as_str);
        if let Some(name) = name.filter(|name| !made.contains(name)) {
            found.volumes.push(named(namespace, name));
        }
    }
    found
}

/// The disks of a machine whose architecture is known: what it clones first, then what it uses.
fn disks(facts: &Facts<'_>, warnings: &mut Vec<Warning>) -> Vec<Disk> {
    let references = references(facts.machine, facts.namespace);
    let mut found = Vec::new();
    for of in references.sources {
        match architecture(facts, &of) {
            None => warnings.push(Warning::Missing(of)),
            Some("") => {}
            Some(text) if list::is_known(text) => found.push(Disk {
                kind: "DataSource",
                of,
                architecture: text.to_owned(),
            }),
            Some(text) => warnings.push(Warning::Unknown {
                of,
                architecture: text.to_owned(),
            }),
        }
    }
    for of in references.volumes {
        if let Some(text) = (facts.volumes)(&of).filter(|text| list::is_known(text)) {
            found.push(Disk {
                kind: "volume",
                of,
                architecture: text.to_owned(),
            });
        }
    }
    found
}

/// What a DataSource is for: what its label says, or that of the one it points to. Nothing if one of
/// them is missing; an empty text if none says it.
fn architecture<'a>(facts: &Facts<'a>, of: &Named) -> Option<&'a str> {
    let source = (facts.sources)(of)?;
    let target = match source.spec.source.which() {
        Some(DataSourceRef::DataSource(to)) => {
            let home = if to.namespace.is_empty() {
                &of.namespace
            } else {
                &to.namespace
            };
            (facts.sources)(&named(home, &to.name))?
        }
        _ => source,
    };
    Some(label(&target.metadata, labels::ARCHITECTURE).unwrap_or_default())
}
