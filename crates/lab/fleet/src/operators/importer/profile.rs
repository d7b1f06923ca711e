//! Recommendations for a storage class.

use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::names::annotation_is_true;
use crate::storage::{DEFAULT_SNAPSHOT_CLASS, DRIVER, TOPOLOGY};

/// Annotation of a storage class: how CDI clones its volumes.
const CLONE_STRATEGY: &str = "cdi.kubevirt.io/clone-strategy";
/// Condition of a StorageProfile.
const RECOGNIZED: &str = "Recognized";

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

/// The status of a StorageProfile: the properties in its spec, else those known for the driver, else what every driver can
/// do; null for a field to remove. `None` if it selects a snapshot class that does not exist: the controller fails.
pub(super) fn advice(
    class: &StorageClass,
    wanted: &Value,
    snapshots: &[SnapshotClass],
) -> Option<Value> {
    let wanted = |field: &str| wanted.get(field).filter(|value| !value.is_null());
    let of_driver = |it: &&SnapshotClass| it.driver == class.provisioner;
    let snapshot_class = match wanted("snapshotClass") {
        Some(name) => {
            let found = snapshots.iter().find(|it| *name == it.name.as_str());
            Some(found?).filter(of_driver)
        }
        // The default snapshot class, else the first by name.
        None => snapshots
            .iter()
            .filter(of_driver)
            .min_by_key(|it| (!it.is_default, it.name.as_str())),
    };
    let known = Known::of(class);
    let annotations = class.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|all| all.get(CLONE_STRATEGY));
    let strategy = match (annotated, &known, snapshot_class) {
        (Some(annotated), ..) => annotated.as_str(),
        (None, Some(_), _) => "csi-clone",
        (None, None, Some(_)) => "snapshot",
        (None, None, None) => "copy",
    };
    // A volume of one node cannot be restored from a snapshot elsewhere, so boot images of local storage are kept as claims
    // and cloned by copying.
    let is_shared = known.as_ref().is_some_and(|known| known.shared);
    let format = if is_shared && snapshot_class.is_some() {
        "snapshot"
    } else {
        "pvc"
    };
    let or = |field: &str, other: Value| wanted(field).cloned().unwrap_or(other);
    let mut status = json!({
        "storageClass": class.metadata.name,
        "provisioner": class.provisioner,
        "claimPropertySets": or("claimPropertySets", json!(known.as_ref().map(Known::property_sets))),
        "cloneStrategy": or("cloneStrategy", json!(strategy)),
        "dataImportCronSourceFormat": or("dataImportCronSourceFormat", json!(format)),
    });
    // As upstream, it stays when there is none any more.
    if let Some(class) = snapshot_class {
        status["snapshotClass"] = json!(class.name);
    }
    Some(status)
}

/// Whether CDI knows the driver, as a condition; unchanged from the old one if that has the same status.
pub(super) fn recognized(class: &StorageClass, old: &Value, now: &Time) -> Value {
    let (status, reason, message) = match Known::of(class) {
        Some(_) => ("True", "RecognizedProvisioner", "Provisioner is recognized"),
        None => (
            "False",
            "UnrecognizedProvisioner",
            "Provisioner is not recognized",
        ),
    };
    let conditions = old["conditions"].as_array().into_iter().flatten();
    let mut same = conditions.filter(|it| it["type"] == RECOGNIZED && it["status"] == status);
    let fresh = || {
        json!({
            "type": RECOGNIZED, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": now, "lastHeartbeatTime": now,
        })
    };
    same.next().cloned().unwrap_or_else(fresh)
}

/// Properties of the simulated driver.
struct Known {
    /// Whether volumes are accessible from every node.
    shared: bool,
}

impl Known {
    /// `None` for a driver that is not simulated.
    fn of(class: &StorageClass) -> Option<Self> {
        let parameters = class.parameters.as_ref();
        (class.provisioner == DRIVER).then(|| Self {
            shared: parameters.is_none_or(|all| !all.contains_key(TOPOLOGY)),
        })
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
