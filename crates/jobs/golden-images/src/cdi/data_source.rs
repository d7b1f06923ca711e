//! Resolution of a DataSource: the cloneable object, and whether it is ready.
//!
//! A pointer resolves to the source of its target: one hop, in its own namespace. Labels are copied
//! from PVCs to the DataSources that refer to them, and never to pointers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cdi::{DataSource, DataSourceRef, DataSourceStatus, Named, Source, labels};
use jiff::Timestamp;
use serde_json::Value;

use super::cron::is_inherited_label;
use crate::action::{MetadataValues, metadata_patch, name_of, named};
use crate::conditions::ConditionUpdate;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The inputs of the decision.
#[derive(Clone, Copy)]
pub struct DataSourceInputs<'a> {
    /// The DataSource.
    pub source: &'a DataSource,
    /// Looks up other DataSources.
    pub sources: &'a dyn Fn(&Named) -> Option<&'a DataSource>,
    /// Looks up PVCs: their labels.
    pub claims: &'a dyn Fn(&Named) -> Option<&'a Labels>,
    /// Looks up DataVolumes: their labels and phase.
    pub imports: &'a dyn Fn(&Named) -> Option<(&'a Labels, &'a str)>,
    /// Looks up snapshots: their labels, and whether they are ready to use.
    pub snapshots: &'a dyn Fn(&Named) -> Option<(&'a Labels, bool)>,
    /// The current time.
    pub now: Timestamp,
}

/// The decision about a DataSource.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether it can be cloned; if not, why.
    pub verdict: DataSourceVerdict,
    /// The desired status.
    pub status: DataSourceStatus,
    /// Whether it differs from the current one.
    pub status_changed: bool,
    /// The merge patch for its labels, if they differ.
    pub labels: Option<Value>,
}

/// Whether a DataSource can be cloned. The messages are CDI's word for word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataSourceVerdict {
    /// Its source is ready.
    #[error("DataSource is ready to be consumed")]
    Ready,
    /// It points to another namespace.
    #[error("DataSource cannot reference a DataSource in another namespace")]
    CrossNamespaceReference,
    /// It points to itself.
    #[error("DataSource cannot self-reference")]
    SelfReference,
    /// Its target does not exist.
    #[error("datasources.cdi.kubevirt.io {0:?} not found")]
    TargetNotFound(String),
    /// Its target is a pointer, too.
    #[error("DataSource reference chain exceeds maximum depth of 1")]
    MaxReferenceDepthReached,
    /// It has no source.
    #[error("No source PVC set")]
    NoSource,
    /// The PVC does not exist.
    #[error("PVC not found")]
    NoClaim,
    /// The PVC is being imported; the phase of its DataVolume.
    #[error("Import DataVolume phase {0}")]
    Importing(String),
    /// The snapshot does not exist.
    #[error("Snapshot not found")]
    NoSnapshot,
    /// The snapshot is not ready to use.
    #[error("Snapshot phase is not ready")]
    SnapshotNotReady,
}

impl DataSourceVerdict {
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

/// Decides whether a DataSource can be cloned, and what it resolves to.
pub fn decide(facts: &DataSourceInputs<'_>) -> Decision {
    let own = facts.source;
    let home = name_of(&own.metadata);
    let is_pointer = own.spec.source.data_source.is_some();
    let (verdict, source, passed) = match resolve(facts, &home) {
        Err(verdict) => (verdict, Source::default(), Labels::new()),
        Ok(source) => {
            let (verdict, passed) = inspect_source(facts, source, &home);
            let source = if verdict == DataSourceVerdict::Ready {
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
    ConditionUpdate::new(
        "Ready",
        verdict == DataSourceVerdict::Ready,
        verdict.reason(),
        verdict.to_string(),
    )
    .put(&mut status.conditions, facts.now);
    let wanted: MetadataValues<'_> = if verdict == DataSourceVerdict::Ready && !is_pointer {
        let passed = passed.iter();
        passed
            .filter(|(name, _)| is_copied(name))
            .map(|(name, value)| (name.as_str(), Some(value.clone())))
            .collect()
    } else {
        MetadataValues::new()
    };
    Decision {
        labels: metadata_patch(&own.metadata, &wanted, &MetadataValues::new()),
        status_changed: status != before || own.status.is_none(),
        verdict,
        status,
    }
}

/// Whether a label of a PVC is copied to its DataSource. Ownership by a DataImportCron is not.
fn is_copied(name: &str) -> bool {
    is_inherited_label(name) && name != labels::DATA_IMPORT_CRON && name != labels::CLEANUP
}

/// The source of a DataSource, through one pointer if it is one.
fn resolve<'a>(
    facts: &DataSourceInputs<'a>,
    home: &Named,
) -> Result<&'a Source, DataSourceVerdict> {
    let own: &'a DataSource = facts.source;
    let Some(to) = &own.spec.source.data_source else {
        return Ok(&own.spec.source);
    };
    // The order of the checks is CDI's (pkg/controller/datasource-controller.go); reasons differ
    // with it.
    if !to.namespace.is_empty() && to.namespace != home.namespace {
        return Err(DataSourceVerdict::CrossNamespaceReference);
    }
    if to.name == home.name {
        return Err(DataSourceVerdict::SelfReference);
    }
    let target = (facts.sources)(&named(&home.namespace, &to.name));
    let Some(target) = target else {
        return Err(DataSourceVerdict::TargetNotFound(to.name.clone()));
    };
    if target.spec.source.data_source.is_some() {
        return Err(DataSourceVerdict::MaxReferenceDepthReached);
    }
    Ok(&target.spec.source)
}

/// Whether the object of a source is ready, and its labels.
fn inspect_source(
    facts: &DataSourceInputs<'_>,
    source: &Source,
    home: &Named,
) -> (DataSourceVerdict, Labels) {
    let at = |name: &Named| name.or_in(&home.namespace);
    match source.which() {
        Some(DataSourceRef::Pvc(name)) => {
            let name = at(name);
            let claim = (facts.claims)(&name);
            let import = (facts.imports)(&name);
            let mut passed = Labels::new();
            passed.extend(import.map(|(own, _)| own.clone()).unwrap_or_default());
            // Those of the PVC win: it outlives the DataVolume.
            passed.extend(claim.cloned().unwrap_or_default());
            let verdict = match (claim, import) {
                (None, None) => DataSourceVerdict::NoClaim,
                // A PVC without a DataVolume was filled by another tool, or outlived its
                // DataVolume.
                (_, Some((_, "Succeeded"))) | (Some(_), None) => DataSourceVerdict::Ready,
                (_, Some((_, ""))) => DataSourceVerdict::Importing("Pending".to_owned()),
                (_, Some((_, phase))) => DataSourceVerdict::Importing(phase.to_owned()),
            };
            (verdict, passed)
        }
        Some(DataSourceRef::Snapshot(name)) => match (facts.snapshots)(&at(name)) {
            None => (DataSourceVerdict::NoSnapshot, Labels::new()),
            Some((own, true)) => (DataSourceVerdict::Ready, own.clone()),
            Some((_, false)) => (DataSourceVerdict::SnapshotNotReady, Labels::new()),
        },
        Some(DataSourceRef::DataSource(_)) | None => (DataSourceVerdict::NoSource, Labels::new()),
    }
}
