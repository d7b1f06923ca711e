//! The volume that a DataVolume becomes: what it asks for, and what the storage profile adds.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cdi::{DataSourceRef, DataVolume, Source, StorageProfile, StorageSpec};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube_core::Resource as _;
use machinery::quantity::Quantity;
use serde_json::{Value, json};

use super::failure::{Failure, Reason};
use super::size::{Overhead, required, usable};
use crate::action::annotation;

/// The group of snapshots.
const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
/// What the annotations of CDI begin with that tell an importer what to do.
const IMPORT: &str = "cdi.kubevirt.io/storage.import.";
/// Makes claims bind a volume of this kind, and is the default.
const FILESYSTEM: &str = "Filesystem";

/// The storage that a volume goes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Storage<'a> {
    /// The storage class; none if there is no default.
    pub class: Option<&'a str>,
    /// What is known about it.
    pub profile: Option<&'a StorageProfile>,
    /// What a file system takes.
    pub overhead: Overhead,
}

/// The claim of a DataVolume, as it is to be made. `from` is what it is a copy of, and how big that is;
/// if that is in another namespace, so has the claim to be (`copy::interim`).
pub fn claim(
    volume: &DataVolume,
    storage: &Storage<'_>,
    from: Option<(&Source, Option<&str>)>,
) -> Result<Value, Failure> {
    let spec = &volume.spec;
    let profiled = spec.pvc.is_none();
    let Some(asked) = spec.pvc.as_ref().or(spec.storage.as_ref()) else {
        return Err(unclear("spec.storage or spec.pvc is needed"));
    };
    let mut wanted = json!(asked);
    let (modes, mode) = properties(asked, storage, profiled);
    let bytes = size(asked, from.and_then(|(_, size)| size))?;
    let bytes = if profiled && mode == FILESYSTEM {
        required(storage.overhead, bytes)
    } else {
        bytes
    };
    wanted["accessModes"] = json!(modes);
    wanted["volumeMode"] = json!(mode);
    wanted["resources"]["requests"]["storage"] = json!(bytes.to_string());
    if let Some(class) = asked.storage_class_name.as_deref().or(storage.class) {
        wanted["storageClassName"] = json!(class);
    }
    if let Some((source, _)) = from {
        copy(&mut wanted, source)?;
    }
    let meta = &volume.metadata;
    let mut own: BTreeMap<String, String> = meta.labels.clone().unwrap_or_default();
    let app = ("app".to_owned(), "containerized-data-importer".to_owned());
    own.entry(app.0).or_insert(app.1);
    let mut notes = meta.annotations.clone().unwrap_or_default();
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

fn unclear(what: &str) -> Failure {
    let message = format!("the volume cannot be made: {what}");
    Failure::new(Reason::ImportFailed, message)
}

/// Who may use a volume, and what it is: what is asked for, else the best that the profile has.
fn properties(asked: &StorageSpec, storage: &Storage<'_>, profiled: bool) -> (Vec<String>, String) {
    let asked_mode = asked.rest.get("volumeMode").and_then(Value::as_str);
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
        asked.access_modes.iter().all(|it| modes.contains(it))
            && (asked_mode.is_none() || mode == asked_mode)
    });
    let modes = match fitting {
        _ if !asked.access_modes.is_empty() => asked.access_modes.clone(),
        Some(set) if !texts(set).is_empty() => texts(set),
        // What every storage can do.
        _ => vec!["ReadWriteOnce".to_owned()],
    };
    let known = fitting.and_then(|set| set["volumeMode"].as_str());
    let mode = asked_mode.or(known).unwrap_or(FILESYSTEM);
    (modes, mode.to_owned())
}

/// How many bytes are asked for, of the disk.
fn size(asked: &StorageSpec, otherwise: Option<&str>) -> Result<u64, Failure> {
    let requests = asked.resources.as_ref().map(|it| &it.requests);
    let text = requests.and_then(|it| it.get("storage")).map(|it| &*it.0);
    let Some(text) = text.or(otherwise) else {
        return Err(unclear(
            "resources.requests.storage is missing; a size such as 10Gi is needed",
        ));
    };
    bytes(text).ok_or_else(|| {
        unclear(&format!(
            "resources.requests.storage {text:?} is no size; one such as 10Gi is needed"
        ))
    })
}

/// A quantity as a number of bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let quantity: Quantity = text.parse().ok()?;
    u64::try_from(quantity.value()).ok().filter(|it| *it > 0)
}

/// Makes a claim a copy of something in its namespace.
fn copy(wanted: &mut Value, source: &Source) -> Result<(), Failure> {
    let (group, kind, of) = match source.which() {
        Some(DataSourceRef::Pvc(of)) => (None, "PersistentVolumeClaim", of),
        Some(DataSourceRef::Snapshot(of)) => (Some(SNAPSHOTS), "VolumeSnapshot", of),
        Some(DataSourceRef::DataSource(_)) | None => {
            return Err(unclear("what it is a copy of stands for nothing"));
        }
    };
    let mut reference = json!({ "kind": kind, "name": of.name });
    if let Some(group) = group {
        reference["apiGroup"] = json!(group);
    }
    wanted["dataSource"] = reference;
    Ok(())
}

/// What the claim says about its import, by the names of CDI.
fn instructions(volume: &DataVolume) -> BTreeMap<String, String> {
    let source = volume.spec.source.as_ref();
    let Some(registry) = source.and_then(|it| it.registry.as_ref()) else {
        return BTreeMap::new();
    };
    let platform = registry.platform.as_ref();
    let all = [
        ("source", Some("registry")),
        ("endpoint", registry.url.as_deref()),
        ("registryImportMethod", registry.pull_method.as_deref()),
        ("secretName", registry.secret_ref.as_deref()),
        ("certConfigMap", registry.cert_config_map.as_deref()),
        (
            "registryImageArchitecture",
            platform.and_then(|it| it.architecture.as_deref()),
        ),
    ];
    all.into_iter()
        .filter_map(|(name, value)| {
            let value = value.filter(|it| !it.is_empty())?;
            Some((format!("{IMPORT}{name}"), value.to_owned()))
        })
        .collect()
}

/// How many bytes of disk a claim has room for.
pub fn room(claim: &PersistentVolumeClaim, overhead: Overhead) -> Option<u64> {
    let spec = claim.spec.as_ref()?;
    let requests = spec.resources.as_ref()?.requests.as_ref()?;
    let size = bytes(&requests.get("storage")?.0)?;
    Some(match spec.volume_mode.as_deref() {
        Some("Block") => size,
        _ => usable(overhead, size),
    })
}

/// Whether a claim was made for a DataVolume, or is one that somebody had already.
pub fn is_of(claim: &PersistentVolumeClaim, volume: &DataVolume) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| owner.controller == Some(true));
    owners.any(|owner| Some(&owner.uid) == volume.metadata.uid.as_ref())
}

/// Whether a claim is to be bound although nobody uses it.
pub fn binds_at_once(volume: &DataVolume) -> bool {
    annotation(&volume.metadata, api::cdi::annotations::IMMEDIATE_BIND).is_some()
}
