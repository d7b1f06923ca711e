//! The architecture of a VM, from the disks it boots from.
//!
//! A VM without an architecture gets that of its DataSource, resolved through one pointer. A VM
//! whose architecture contradicts its disks, or whose disks contradict each other, causes a
//! warning.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use api::cdi::{DataSource, DataSourceRef, Named, labels};
use serde_json::Value;

use crate::action::{label, named};
use crate::list;

/// Further volumes are ignored, so that a hostile VM costs little.
const MAX_VOLUMES: usize = 64;

/// The inputs of the decision.
#[derive(Clone, Copy)]
pub struct VmInputs<'a> {
    /// The VirtualMachine.
    pub machine: &'a Value,
    /// Its namespace.
    pub namespace: &'a str,
    /// Looks up DataSources.
    pub sources: &'a dyn Fn(&Named) -> Option<&'a DataSource>,
    /// Looks up the architecture of PVCs and DataVolumes that it uses directly; `None` for those
    /// without the label.
    pub volumes: &'a dyn Fn(&Named) -> Option<&'a str>,
    /// The default architecture of the cluster.
    pub default: Option<&'a str>,
    /// The architectures of the nodes.
    pub nodes: &'a BTreeSet<&'a str>,
}

/// The decision about a VM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The architecture to set; `None` if it is set, or unknown.
    pub set: Option<String>,
    /// Where it comes from.
    pub why: Why,
    /// Admission warnings shown by kubectl, and events.
    pub warnings: Vec<Warning>,
}

/// Where the architecture of a VM comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Why {
    /// Its own spec.
    Named,
    /// The label of its DataSource.
    DataSource(Named),
    /// The label of a PVC or DataVolume that it uses.
    Volume(Named),
    /// The default of the cluster.
    Default,
    /// It is unknown.
    #[default]
    Unknown,
}

/// A configuration that will not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The VM and its disk have different architectures.
    #[error(
        "the VM is for {machine}, but {kind} {}/{} is for {disk}; it will not boot from it", .of.namespace, .of.name
    )]
    Mismatch {
        /// The architecture of the VM.
        machine: String,
        /// The architecture of the disk.
        disk: String,
        /// The kind of the disk.
        kind: &'static str,
        /// The disk.
        of: Named,
    },
    /// The architecture label of a DataSource is not supported.
    #[error(
        "DataSource {}/{} is for {architecture:?}, which is ignored; amd64, arm64 and s390x are supported", .of.namespace, .of.name
    )]
    Unknown {
        /// The DataSource.
        of: Named,
        /// The value of the label.
        architecture: String,
    },
    /// The DataSource does not exist.
    #[error("DataSource {}/{} not found; the VM waits for it", .0.namespace, .0.name)]
    Missing(Named),
    /// No node has the architecture.
    #[error("the VM is for {0}, but no node has this architecture; it stays unscheduled")]
    NoNode(String),
}

impl Warning {
    /// The reason, in CamelCase.
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
            Self::Named => f.write_str("the spec of the VM"),
            Self::DataSource(of) => write!(f, "DataSource {}/{}", of.namespace, of.name),
            Self::Volume(of) => write!(f, "volume {}/{}", of.namespace, of.name),
            Self::Default => f.write_str("the default of the cluster"),
            Self::Unknown => f.write_str("nothing"),
        }
    }
}

/// A disk of known architecture.
struct Disk {
    kind: &'static str,
    of: Named,
    architecture: String,
}

/// Decides the architecture of a VM.
pub fn decide(facts: &VmInputs<'_>) -> Decision {
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
        // KubeVirt's rule (`setDefaultArchitectureFromDataSource` in pkg/defaults/defaults.go),
        // which covers cloned DataSources only; PVCs and DataVolumes that a VM uses directly count
        // here as well.
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
    // An empty set usually means that nodes are not listed yet: a warning for every VM would be
    // noise.
    if !facts.nodes.is_empty() && !facts.nodes.contains(machine.as_str()) {
        decision.warnings.push(Warning::NoNode(machine));
    }
    decision
}

/// The disks that a VM boots from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// DataSources that it clones.
    pub sources: Vec<Named>,
    /// PVCs and DataVolumes that it uses and does not create itself.
    pub volumes: Vec<Named>,
}

/// The disks of a VM in a namespace.
pub fn references(machine: &Value, namespace: &str) -> References {
    let list = |path| {
        let list = machine.pointer(path).and_then(Value::as_array);
        list.into_iter().flatten().take(MAX_VOLUMES)
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

/// The disks of a VM with known architecture: those it clones first, then those it uses.
fn disks(facts: &VmInputs<'_>, warnings: &mut Vec<Warning>) -> Vec<Disk> {
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

/// The architecture label of a DataSource, or of the one that it points to; `None` if either does
/// not exist, the empty string without a label.
fn architecture<'a>(facts: &VmInputs<'a>, of: &Named) -> Option<&'a str> {
    let source = (facts.sources)(of)?;
    let target = match pointer_target(source, &of.namespace) {
        Some(to) => (facts.sources)(&to)?,
        None => source,
    };
    Some(label(&target.metadata, labels::ARCHITECTURE).unwrap_or_default())
}

/// The DataSource that a DataSource of this namespace points to.
pub fn pointer_target(source: &DataSource, namespace: &str) -> Option<Named> {
    match source.spec.source.which()? {
        DataSourceRef::DataSource(to) => Some(to.or_in(namespace)),
        DataSourceRef::Pvc(_) | DataSourceRef::Snapshot(_) => None,
    }
}
