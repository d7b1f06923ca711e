//! Recommendations for a storage class.

use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Map, Value, json};

use crate::names::annotation_is_true;
use crate::storage::{DEFAULT_SNAPSHOT_CLASS, DRIVER, TOPOLOGY};

/// A VolumeSnapshotClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SnapshotClass {
    pub(super) name: String,
    pub(super) driver: String,
    pub(super) is_default: bool,
}

impl SnapshotClass {
    /// Parses a VolumeSnapshotClass.
    pub(super) fn read(object: &kube::api::DynamicObject) -> Option<Self> {
        Some(Self {
            name: object.metadata.name.clone()?,
            driver: object.data.get("driver")?.as_str()?.to_owned(),
            is_default: annotation_is_true(&object.metadata, DEFAULT_SNAPSHOT_CLASS),
        })
    }
}

/// The status of a StorageProfile: the properties in its spec, else those known for the driver.
/// Drivers that are not simulated get no recommendation.
pub(super) fn advice(class: &StorageClass, wanted: &Value, snapshots: &[SnapshotClass]) -> Value {
    let mut status = Map::new();
    status.insert("storageClass".to_owned(), json!(class.metadata.name));
    status.insert("provisioner".to_owned(), json!(class.provisioner));
    let ours = (class.provisioner == DRIVER).then(|| Known::of(class, snapshots));
    for field in [
        "claimPropertySets",
        "cloneStrategy",
        "dataImportCronSourceFormat",
        "snapshotClass",
    ] {
        let wanted = wanted.get(field).filter(|value| !value.is_null());
        if let Some(value) = wanted {
            status.insert(field.to_owned(), value.clone());
        } else if let Some(known) = &ours {
            status.insert(field.to_owned(), known.field(field));
        }
    }
    Value::Object(status)
}

/// Properties of the simulated driver.
struct Known<'a> {
    /// Whether volumes are accessible from every node.
    shared: bool,
    snapshots: Option<&'a SnapshotClass>,
}

impl<'a> Known<'a> {
    fn of(class: &StorageClass, snapshots: &'a [SnapshotClass]) -> Self {
        let parameters = class.parameters.as_ref();
        // The default snapshot class, else the first by name.
        let snapshots = snapshots
            .iter()
            .filter(|it| it.driver == class.provisioner)
            .min_by_key(|it| (!it.is_default, it.name.as_str()));
        Self {
            shared: parameters.is_none_or(|all| !all.contains_key(TOPOLOGY)),
            snapshots,
        }
    }

    fn field(&self, name: &str) -> Value {
        match name {
            "claimPropertySets" => self.property_sets(),
            "cloneStrategy" => json!("csi-clone"),
            // A volume of one node cannot be restored from a snapshot elsewhere, so boot images of
            // local storage are kept as claims and cloned by copying.
            "dataImportCronSourceFormat" if self.shared && self.snapshots.is_some() => {
                json!("snapshot")
            }
            "dataImportCronSourceFormat" => json!("pvc"),
            "snapshotClass" => json!(self.snapshots.map(|class| &class.name)),
            _ => Value::Null,
        }
    }

    /// Recommended access and volume modes, best first.
    fn property_sets(&self) -> Value {
        let set = |access: &str, mode: &str| json!({ "accessModes": [access], "volumeMode": mode });
        if self.shared {
            json!([
                set("ReadWriteMany", "Block"),
                set("ReadWriteOnce", "Block"),
                set("ReadWriteOnce", "Filesystem"),
            ])
        } else {
            json!([
                set("ReadWriteOnce", "Filesystem"),
                set("ReadWriteOnce", "Block"),
            ])
        }
    }
}
