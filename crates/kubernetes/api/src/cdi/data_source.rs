//! `DataSource`: a name for the newest import, or for another DataSource.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Condition, Named};
use crate::Rest;

/// What the name stands for.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cdi.kubevirt.io",
    version = "v1beta1",
    kind = "DataSource",
    plural = "datasources",
    namespaced,
    status = "DataSourceStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
pub struct DataSourceSpec {
    /// The one thing that it stands for.
    #[serde(default)]
    pub source: Source,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A volume, a snapshot, or another DataSource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// A volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<Named>,
    /// A snapshot of a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Named>,
    /// Another DataSource: this one is a pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_source: Option<Named>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What a source stands for, of the kinds that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSourceRef<'a> {
    /// Another DataSource.
    DataSource(&'a Named),
    /// A volume.
    Pvc(&'a Named),
    /// A snapshot of a volume.
    Snapshot(&'a Named),
}

impl Source {
    /// A source that is a volume.
    pub fn of_pvc(namespace: &str, name: &str) -> Self {
        Self {
            pvc: Some(named(namespace, name)),
            ..Self::default()
        }
    }

    /// A source that is a snapshot.
    pub fn of_snapshot(namespace: &str, name: &str) -> Self {
        Self {
            snapshot: Some(named(namespace, name)),
            ..Self::default()
        }
    }

    /// A source that is another DataSource.
    pub fn of_data_source(namespace: &str, name: &str) -> Self {
        Self {
            data_source: Some(named(namespace, name)),
            ..Self::default()
        }
    }

    /// The one that counts. If there are several, a DataSource goes before a volume, and a volume
    /// before a snapshot.
    pub fn which(&self) -> Option<DataSourceRef<'_>> {
        if let Some(it) = &self.data_source {
            return Some(DataSourceRef::DataSource(it));
        }
        if let Some(it) = &self.pvc {
            return Some(DataSourceRef::Pvc(it));
        }
        self.snapshot.as_ref().map(DataSourceRef::Snapshot)
    }
}

fn named(namespace: &str, name: &str) -> Named {
    Named {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// What can be cloned, and whether it is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataSourceStatus {
    /// The volume or snapshot in the end; nothing while it is not ready.
    #[serde(default)]
    pub source: Source,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields that are not looked at.
    #[serde(flatten)]
    pub rest: Rest,
}
