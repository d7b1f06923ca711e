//! What a DataSource stands for in the end, and whether it can be cloned.
//!
//! A pointer stands for what its target stands for: one hop, in its own namespace. Labels go from
//! volumes to the DataSources that stand for them, and never to pointers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cdi::{DataSource, DataSourceRef, DataSourceStatus, Named, Source, labels};
use jiff::Timestamp;
use serde_json::Value;

use super::cron::is_passed_on;
use crate::action::{Wanted, metadata_patch, name_of, named};
use crate::conditions::Said;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// What is known.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The DataSource.
    pub source: &'a DataSource,
    /// Finds other DataSources.
    pub sources: &'a dyn Fn(&Named) -> Option<&'a DataSource>,
    /// Finds volumes: their labels.
    pub claims: &'a dyn Fn(&Named) -> Option<&'a Labels>,
    /// Finds DataVolumes: their labels and phase.
    pub imports: &'a dyn Fn(&Named) -> Option<(&'a Labels, &'a str)>,
    /// Finds snapshots: their labels, and whether they can be used.
    pub snapshots: &'a dyn Fn(&Named) -> Option<(&'a Labels, bool)>,
    /// Now.
    pub now: Timestamp,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether it can be cloned, and why not.
    pub verdict: Verdict,
    /// What the status has to be.
    pub status: DataSourceStatus,
    /// Whether it is not so.
    pub status_changed: bool,
    /// What labels have to change, as a merge patch.
    pub labels: Option<Value>,
}

/// Whether a DataSource can be cloned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Verdict {
    /// It can.
    #[error("DataSource is ready to be consumed")]
    Ready,
    /// It points elsewhere.
    #[error("DataSource cannot reference a DataSource in another namespace")]
    CrossNamespaceReference,
    /// It points to itself.
    #[error("DataSource cannot self-reference")]
    SelfReference,
    /// What it points to is not there.
    #[error("datasources.cdi.kubevirt.io {0:?} not found")]
    TargetNotFound(String),
    /// What it points to is a pointer.
    #[error("DataSource reference chain exceeds maximum depth of 1")]
    MaxReferenceDepthReached,
    /// It stands for nothing.
    #[error("No source PVC set")]
    NoSource,
    /// The volume is not there.
    #[error("PVC not found")]
    NoClaim,
    /// The volume is on its way.
    #[error("Import DataVolume phase {0}")]
    Importing(String),
    /// The snapshot is not there.
    #[error("Snapshot not found")]
    NoSnapshot,
    /// The snapshot is on its way.
    #[error("Snapshot phase is not ready")]
    SnapshotNotReady,
}

impl Verdict {
    /// The reason of the condition.
    pub fn reason(&self) -> &str {
        match self {
            Self::Ready => "Ready",
            Self::CrossNamespaceReference => "CrossNamespaceReference",
            Self::SelfReference => "SelfReference",
            Self::TargetNotFound(_) | Self::NoClaim | Self::NoSnapshot => "NotFound",
            Self::MaxReferenceDepthReached => "MaxReferenceDepthReached",
            Self::NoSource => "NoSource",
            Self::Importing(phase) => phase,
            Self::SnapshotNotReady => "SnapshotNotReady",
        }
    }
}

/// Decides whether a DataSource can be cloned, and what it stands for.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let own = facts.source;
    let home = name_of(&own.metadata);
    let is_pointer = own.spec.source.data_source.is_some();
    let (verdict, source, passed) = match resolve(facts, &home) {
        Err(verdict) => (verdict, Source::default(), Labels::new()),
        Ok(source) => {
            let (verdict, passed) = look(facts, source, &home);
            let source = if verdict == Verdict::Ready {
                source.clone()
            } else {
                Source::default()
            };
            (verdict, source, passed)
        }
    };
    let before = own.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.source = source;
    Said::new(
        "Ready",
        verdict == Verdict::Ready,
        verdict.reason(),
        verdict.to_string(),
    )
    .put(&mut status.conditions, facts.now);
    let wanted: Wanted<'_> = if verdict == Verdict::Ready && !is_pointer {
        let passed = passed.iter();
        passed
            .filter(|(name, _)| is_copied(name))
            .map(|(name, value)| (name.as_str(), Some(value.clone())))
            .collect()
    } else {
        Wanted::new()
    };
    Decision {
        labels: metadata_patch(&own.metadata, &wanted, &Wanted::new()),
        status_changed: status != before || own.status.is_none(),
        verdict,
        status,
    }
}

/// Which labels of a volume its DataSource gets. Who keeps it current is not for a volume to say.
fn is_copied(name: &str) -> bool {
    is_passed_on(name) && name != labels::DATA_IMPORT_CRON && name != labels::CLEANUP
}

/// What a DataSource stands for, through a pointer if it is one.
fn resolve<'a>(facts: &Facts<'a>, home: &Named) -> Result<&'a Source, Verdict> {
    let own: &'a DataSource = facts.source;
    let Some(to) = &own.spec.source.data_source else {
        return Ok(&own.spec.source);
    };
    if !to.namespace.is_empty() && to.namespace != home.namespace {
        return Err(Verdict::CrossNamespaceReference);
    }
    if to.name == home.name {
        return Err(Verdict::SelfReference);
    }
    let target = (facts.sources)(&named(&home.namespace, &to.name));
    let Some(target) = target else {
        return Err(Verdict::TargetNotFound(to.name.clone()));
    };
    if target.spec.source.data_source.is_some() {
        return Err(Verdict::MaxReferenceDepthReached);
    }
    Ok(&target.spec.source)
}

/// Whether what a source stands for is there, and the labels of it.
fn look(facts: &Facts<'_>, source: &Source, home: &Named) -> (Verdict, Labels) {
    let at = |name: &Named| {
        let namespace = if name.namespace.is_empty() {
            &home.namespace
        } else {
            &name.namespace
        };
        named(namespace, &name.name)
    };
    match source.which() {
        Some(DataSourceRef::Pvc(name)) => {
            let name = at(name);
            let claim = (facts.claims)(&name);
            let import = (facts.imports)(&name);
            let mut passed = Labels::new();
            passed.extend(import.map(|(own, _)| own.clone()).unwrap_or_default());
            passed.extend(claim.cloned().unwrap_or_default());
            let verdict = match (claim, import) {
                (None, None) => Verdict::NoClaim,
                (_, Some((_, "Succeeded"))) | (Some(_), None) => Verdict::Ready,
                (_, Some((_, ""))) => Verdict::Importing("Pending".to_owned()),
                (_, Some((_, phase))) => Verdict::Importing(phase.to_owned()),
            };
            (verdict, passed)
        }
        Some(DataSourceRef::Snapshot(name)) => match (facts.snapshots)(&at(name)) {
            None => (Verdict::NoSnapshot, Labels::new()),
            Some((own, true)) => (Verdict::Ready, own.clone()),
            Some((_, false)) => (Verdict::SnapshotNotReady, Labels::new()),
        },
        Some(DataSourceRef::DataSource(_)) | None => (Verdict::NoSource, Labels::new()),
    }
}
