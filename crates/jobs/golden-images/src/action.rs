//! Writes to the cluster, as data.

use std::collections::BTreeMap;

pub use api::cdi::Named;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

/// The kinds that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `cdi.kubevirt.io/v1beta1` DataImportCron.
    DataImportCron,
    /// `cdi.kubevirt.io/v1beta1` DataSource.
    DataSource,
    /// `cdi.kubevirt.io/v1beta1` DataVolume.
    DataVolume,
    /// `v1` PersistentVolumeClaim.
    Claim,
    /// `snapshot.storage.k8s.io/v1` VolumeSnapshot.
    Snapshot,
    /// `template.openshift.io/v1` Template.
    Template,
}

impl Kind {
    /// Its apiVersion and kind.
    pub fn type_of(self) -> (&'static str, &'static str) {
        match self {
            Self::DataImportCron => ("cdi.kubevirt.io/v1beta1", "DataImportCron"),
            Self::DataSource => ("cdi.kubevirt.io/v1beta1", "DataSource"),
            Self::DataVolume => ("cdi.kubevirt.io/v1beta1", "DataVolume"),
            Self::Claim => ("v1", "PersistentVolumeClaim"),
            Self::Snapshot => ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
            Self::Template => ("template.openshift.io/v1", "Template"),
        }
    }
}

/// A write. The controller applies actions in their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Create an object. If it exists already, the API server answers with a conflict, and the
    /// controller decides again with fresh state.
    Create {
        /// Its kind.
        kind: Kind,
        /// The object.
        object: Value,
    },
    /// Change an object with a merge patch.
    Patch {
        /// Its kind.
        kind: Kind,
        /// The object.
        of: Named,
        /// The patch.
        patch: Value,
        /// Why, for the log.
        why: &'static str,
    },
    /// Delete an object. That it is gone already is no error.
    Delete {
        /// Its kind.
        kind: Kind,
        /// The object.
        of: Named,
        /// Why, for the log.
        why: &'static str,
    },
}

impl Action {
    /// The namespace and name of the object.
    pub fn of(&self) -> Named {
        match self {
            Self::Create { object, .. } => {
                let text = |name| {
                    let text = object["metadata"].get(name).and_then(Value::as_str);
                    text.unwrap_or_default().to_owned()
                };
                Named {
                    namespace: text("namespace"),
                    name: text("name"),
                }
            }
            Self::Patch { of, .. } | Self::Delete { of, .. } => of.clone(),
        }
    }
}

/// An object by namespace and name.
pub fn named(namespace: &str, name: &str) -> Named {
    Named {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// The namespace and name of an object.
pub fn name_of(meta: &ObjectMeta) -> Named {
    named(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// The value of a label.
pub fn label<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(name).map(String::as_str)
}

/// The value of an annotation.
pub fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Desired labels or annotations; `None` removes the key.
pub type MetadataValues<'a> = BTreeMap<&'a str, Option<String>>;

/// The merge patch that sets labels and annotations, or `None` if they are as desired.
pub fn metadata_patch(
    meta: &ObjectMeta,
    labels: &MetadataValues<'_>,
    annotations: &MetadataValues<'_>,
) -> Option<Value> {
    let labels = differing(meta.labels.as_ref(), labels);
    let annotations = differing(meta.annotations.as_ref(), annotations);
    let mut metadata = Map::new();
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    (!metadata.is_empty()).then(|| json!({ "metadata": metadata }))
}

fn differing(
    live: Option<&BTreeMap<String, String>>,
    wanted: &MetadataValues<'_>,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, value) in wanted {
        let known = live.and_then(|live| live.get(*name));
        if known != value.as_ref() {
            patch.insert((*name).to_owned(), json!(value));
        }
    }
    patch
}
