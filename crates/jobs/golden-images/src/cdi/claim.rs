//! The PVC of a DataVolume: its own fields, completed from the storage profile.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cdi::{DataSourceRef, DataVolume, Source, StorageProfile, StorageSpec};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube_core::Resource as _;
use machinery::quantity::Quantity;
use serde_json::{Value, json};

use super::failure::{Failure, Reason};
use super::life_cycle;
use super::size::{Overhead, required, usable};
use crate::action::annotation;

/// The API group of snapshots.
const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
/// Prefix of CDI's annotations with instructions for the importer.
const IMPORT: &str = "cdi.kubevirt.io/storage.import.";
/// CDI's label that silences the alert of this name.
const FILLING_UP_ALERT: (&str, &str) = ("alerts.k8s.io/KubePersistentVolumeFillingUp", "disabled");
/// The default volume mode.
const FILESYSTEM: &str = "Filesystem";

/// The storage that a PVC is created in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Storage<'a> {
    /// The storage class; `None` if there is no default.
    pub class: Option<&'a str>,
    /// Its storage profile.
    pub profile: Option<&'a StorageProfile>,
    /// The share that a filesystem needs for itself.
    pub overhead: Overhead,
}

/// The PVC to create for a DataVolume. `from` is the clone source and its size. If that is in
/// another namespace, the PVC has to be created there as well (`clone::interim`), because storage
/// clones within a namespace.
pub fn claim(
    volume: &DataVolume,
    storage: &Storage<'_>,
    from: Option<(&Source, Option<&str>)>,
) -> Result<Value, Failure> {
    let spec = &volume.spec;
    // As in CDI, `spec.pvc` is taken as it is; only `spec.storage` is completed and enlarged.
    let profiled = spec.pvc.is_none();
    let Some(requested) = spec.pvc.as_ref().or(spec.storage.as_ref()) else {
        return Err(invalid_storage("spec.storage or spec.pvc is required"));
    };
    let mut wanted = json!(requested);
    let (modes, mode) = properties(requested, storage, profiled);
    let bytes = size(requested, from.and_then(|(_, size)| size))?;
    let bytes = if profiled && mode == FILESYSTEM {
        required(storage.overhead, bytes)
    } else {
        bytes
    };
    wanted["accessModes"] = json!(modes);
    wanted["volumeMode"] = json!(mode);
    wanted["resources"]["requests"]["storage"] = json!(bytes.to_string());
    if let Some(class) = requested.storage_class_name.as_deref().or(storage.class) {
        wanted["storageClassName"] = json!(class);
    }
    if let Some((source, _)) = from {
        copy(&mut wanted, source)?;
    }
    let meta = &volume.metadata;
    let mut own: BTreeMap<String, String> = meta.labels.clone().unwrap_or_default();
    let app = ("app".to_owned(), "containerized-data-importer".to_owned());
    own.entry(app.0).or_insert(app.1);
    if mode == FILESYSTEM {
        // Disks fill their filesystem on purpose.
        let (name, value) = FILLING_UP_ALERT;
        own.entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }
    let mut notes = meta.annotations.clone().unwrap_or_default();
    notes.extend(life_cycle::created(volume));
    notes.extend(instructions(volume));
    Ok(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": own,
            "annotations": notes,
            "ownerReferences": [{
                "apiVersion": DataVolume::api_version(&()),
                "kind": DataVolume::kind(&()),
                "name": meta.name,
                "uid": meta.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": wanted,
    }))
}

fn invalid_storage(what: &str) -> Failure {
    let message = format!("cannot create the PersistentVolumeClaim: {what}");
    Failure::new(Reason::ImportFailed, message)
}

/// Access modes and volume mode: those requested, else the first fitting set of the profile.
fn properties(
    requested: &StorageSpec,
    storage: &Storage<'_>,
    profiled: bool,
) -> (Vec<String>, String) {
    let requested_mode = requested.rest.get("volumeMode").and_then(Value::as_str);
    let status = storage.profile.and_then(|it| it.status.as_ref());
    let sets = status.and_then(|status| status.rest.get("claimPropertySets"));
    let sets = sets.and_then(Value::as_array).filter(|_| profiled);
    let texts = |set: &Value| -> Vec<String> {
        let all = set["accessModes"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let fitting = sets.into_iter().flatten().find(|set| {
        let modes = texts(set);
        let mode = set["volumeMode"].as_str();
        requested.access_modes.iter().all(|it| modes.contains(it))
            && (requested_mode.is_none() || mode == requested_mode)
    });
    let modes = match fitting {
        _ if !requested.access_modes.is_empty() => requested.access_modes.clone(),
        Some(set) if !texts(set).is_empty() => texts(set),
        // Every storage supports it.
        _ => vec!["ReadWriteOnce".to_owned()],
    };
    let known = fitting.and_then(|set| set["volumeMode"].as_str());
    let mode = requested_mode.or(known).unwrap_or(FILESYSTEM);
    (modes, mode.to_owned())
}

/// The requested size of the disk in bytes.
fn size(requested: &StorageSpec, otherwise: Option<&str>) -> Result<u64, Failure> {
    let requests = requested.resources.as_ref().map(|it| &it.requests);
    let text = requests.and_then(|it| it.get("storage")).map(|it| &*it.0);
    let Some(text) = text.or(otherwise) else {
        return Err(invalid_storage(
            "resources.requests.storage is missing; set a size such as 10Gi",
        ));
    };
    bytes(text).ok_or_else(|| {
        invalid_storage(&format!(
            "resources.requests.storage {text:?} is not a quantity; set a size such as 10Gi"
        ))
    })
}

/// A quantity in bytes; `None` if it is not positive.
pub fn bytes(text: &str) -> Option<u64> {
    let quantity: Quantity = text.parse().ok()?;
    u64::try_from(quantity.value()).ok().filter(|it| *it > 0)
}

/// Sets `dataSource`: the clone source in the PVC's namespace.
fn copy(wanted: &mut Value, source: &Source) -> Result<(), Failure> {
    let (group, kind, of) = match source.which() {
        Some(DataSourceRef::Pvc(of)) => (None, "PersistentVolumeClaim", of),
        Some(DataSourceRef::Snapshot(of)) => (Some(SNAPSHOTS), "VolumeSnapshot", of),
        Some(DataSourceRef::DataSource(_)) | None => {
            return Err(invalid_storage("the clone source refers to nothing"));
        }
    };
    let mut reference = json!({ "kind": kind, "name": of.name });
    if let Some(group) = group {
        reference["apiGroup"] = json!(group);
    }
    wanted["dataSource"] = reference;
    Ok(())
}

/// The instructions for the importer, as CDI's annotations: CDI resumes an import by them.
fn instructions(volume: &DataVolume) -> BTreeMap<String, String> {
    let source = volume.spec.source.as_ref();
    let given = if let Some(registry) = source.and_then(|it| it.registry.as_ref()) {
        let platform = registry.platform.as_ref();
        vec![
            ("source".to_owned(), Some("registry")),
            ("endpoint".to_owned(), registry.url.as_deref()),
            (
                "registryImportMethod".to_owned(),
                registry.pull_method.as_deref(),
            ),
            ("secretName".to_owned(), registry.secret_ref.as_deref()),
            (
                "certConfigMap".to_owned(),
                registry.cert_config_map.as_deref(),
            ),
            (
                "registryImageArchitecture".to_owned(),
                platform.and_then(|it| it.architecture.as_deref()),
            ),
        ]
    } else if let Some(http) = source.and_then(|it| it.http.as_ref()) {
        let mut given = vec![
            ("source".to_owned(), Some("http")),
            ("endpoint".to_owned(), http.url.as_deref()),
            ("secretName".to_owned(), http.secret_ref.as_deref()),
            ("certConfigMap".to_owned(), http.cert_config_map.as_deref()),
            ("checksum".to_owned(), http.checksum.as_deref()),
        ];
        for (name, headers) in [
            ("extraHeaders", &http.extra_headers),
            ("secretExtraHeaders", &http.secret_extra_headers),
        ] {
            let headers = headers.iter().enumerate();
            given.extend(headers.map(|(place, it)| (format!("{name}.{place}"), Some(&**it))));
        }
        given
    } else {
        Vec::new()
    };
    given
        .into_iter()
        .filter_map(|(name, value)| {
            let value = value.filter(|it| !it.is_empty())?;
            Some((format!("{IMPORT}{name}"), value.to_owned()))
        })
        .collect()
}

/// The capacity of a PVC for a disk, in bytes.
pub fn room(claim: &PersistentVolumeClaim, overhead: Overhead) -> Option<u64> {
    let spec = claim.spec.as_ref()?;
    let requests = spec.resources.as_ref()?.requests.as_ref()?;
    // The request and not the capacity, which provisioners round up: the disk has to fit into any
    // other PVC of this request as well.
    let size = bytes(&requests.get("storage")?.0)?;
    Some(match spec.volume_mode.as_deref() {
        Some("Block") => size,
        _ => usable(overhead, size),
    })
}

/// Whether the DataVolume controls a PVC; otherwise the PVC existed before it.
pub fn is_of(claim: &PersistentVolumeClaim, volume: &DataVolume) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.controller == Some(true));
    owners.any(|owner| Some(&owner.uid) == volume.metadata.uid.as_ref())
}

/// Whether the PVC is to be bound although no pod uses it.
pub fn binds_immediately(volume: &DataVolume) -> bool {
    // Presence counts, whatever the value, as in CDI (pkg/controller/common/util.go).
    annotation(&volume.metadata, api::cdi::annotations::IMMEDIATE_BIND).is_some()
}
