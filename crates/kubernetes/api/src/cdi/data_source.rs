//! `DataSource`: a reference to the newest import, or to another DataSource.

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Condition, Named};
use crate::Rest;

/// The referenced source.
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
    /// The source; exactly one member is set.
    #[serde(default)]
    pub source: Source,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A PVC, a snapshot, or another DataSource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// A PVC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<Named>,
    /// A VolumeSnapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Named>,
    /// Another DataSource: this one is a pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_source: Option<Named>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The source of a DataSource by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSourceRef<'a> {
    /// Another DataSource.
    DataSource(&'a Named),
    /// A PVC.
    Pvc(&'a Named),
    /// A VolumeSnapshot.
    Snapshot(&'a Named),
}

impl Source {
    /// A source that is a PVC.
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

    /// The effective member. If several are set, a DataSource takes precedence over a PVC, and a PVC
    /// over a snapshot.
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

/// The resolved source and its readiness.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataSourceStatus {
    /// The PVC or snapshot after following pointers; empty while it is not ready.
    #[serde(default)]
    pub source: Source,
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Other fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: Rest,
}
