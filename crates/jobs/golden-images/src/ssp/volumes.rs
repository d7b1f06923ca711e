//! The sources of DataSources: PVCs and snapshots, and whether a DataImportCron created them.

use std::collections::BTreeMap;

use api::cdi::{DataSourceRef, Named, Source, labels};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// PVCs, snapshots and DataVolumes with their labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Volumes {
    /// PersistentVolumeClaims.
    pub claims: BTreeMap<Named, Labels>,
    /// VolumeSnapshots.
    pub snapshots: BTreeMap<Named, Labels>,
    /// DataVolumes.
    pub imports: BTreeMap<Named, Labels>,
}

impl Volumes {
    /// The labels of the PVC or snapshot of a source, if it exists.
    fn labels(&self, source: &Source, home: &str) -> Option<&Labels> {
        match source.which()? {
            DataSourceRef::Pvc(name) => self.claims.get(&name.or_in(home)),
            DataSourceRef::Snapshot(name) => self.snapshots.get(&name.or_in(home)),
            DataSourceRef::DataSource(_) => None,
        }
    }

    /// Whether the PVC or snapshot of a source exists.
    pub(super) fn has(&self, source: &Source, home: &str) -> bool {
        self.labels(source, home).is_some()
    }

    /// Whether it exists, and no DataImportCron created it.
    pub(super) fn has_by_hand(&self, source: &Source, home: &str) -> bool {
        self.labels(source, home)
            .is_some_and(|known| !known.contains_key(labels::DATA_IMPORT_CRON))
    }

    /// The manually created PVC or snapshot of a name, if there is one.
    pub(super) fn by_hand(&self, namespace: &str, name: &str) -> Option<Source> {
        [
            Source::of_pvc(namespace, name),
            // Upstream only finds PVCs, although the enhancement proposal promises snapshots as
            // well.
            Source::of_snapshot(namespace, name),
        ]
        .into_iter()
        .find(|source| self.has_by_hand(source, namespace))
    }
}
