//! The volume of a claim, and its data source.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
    VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::quantity::Quantity as Amount;
use runtime::Key;

use super::names::{
    DRIVER, PROVISIONED_BY, PROVISIONER, SNAPSHOT_GROUP, TOPOLOGY, VOLUME_FINALIZER,
};
use crate::names::annotation;

/// The data source of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// No data source.
    Empty,
    /// Another claim, which is cloned.
    Claim(String),
    /// A snapshot, which is restored.
    Snapshot(String),
    /// A data source of another kind, left to volume populators.
    Other,
}

/// The resolved data source of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// The volume attribute that records the source, and its handle.
    pub(super) attribute: (&'static str, String),
    /// Minimum size of the volume.
    pub(super) size: Option<Amount>,
}

/// The data source of a claim.
pub(super) fn source(claim: &PersistentVolumeClaim) -> Source {
    let Some(spec) = &claim.spec else {
        return Source::Empty;
    };
    let found = match (&spec.data_source_ref, &spec.data_source) {
        (Some(from), _) if from.namespace.as_deref().is_some_and(|it| !it.is_empty()) => {
            // A source in another namespace needs a ReferenceGrant, which this driver does not
            // evaluate.
            return Source::Other;
        }
        (Some(from), _) => (from.api_group.as_deref(), &from.kind, &from.name),
        (None, Some(from)) => (from.api_group.as_deref(), &from.kind, &from.name),
        (None, None) => return Source::Empty,
    };
    match (found.0.unwrap_or_default(), found.1.as_str()) {
        ("", "PersistentVolumeClaim") => Source::Claim(found.2.clone()),
        (SNAPSHOT_GROUP, "VolumeSnapshot") => Source::Snapshot(found.2.clone()),
        _ => Source::Other,
    }
}

/// The index key of a claim's data source.
pub(super) fn source_key(claim: &PersistentVolumeClaim) -> Option<String> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    match source(claim) {
        Source::Claim(name) => Some(claim_key(namespace, &name)),
        Source::Snapshot(name) => Some(snapshot_key(namespace, &name)),
        Source::Empty | Source::Other => None,
    }
}

/// The index key of claims cloned from a claim.
pub(super) fn claim_key(namespace: &str, name: &str) -> String {
    format!("claim {namespace}/{name}")
}

/// The index key of claims restored from a snapshot.
pub(super) fn snapshot_key(namespace: &str, name: &str) -> String {
    format!("snapshot {namespace}/{name}")
}

/// Whether a claim is to be provisioned by this driver.
pub(super) fn is_asked(claim: &PersistentVolumeClaim) -> bool {
    let spec = claim.spec.as_ref();
    let named = spec.and_then(|spec| spec.volume_name.as_deref());
    annotation(&claim.metadata, PROVISIONER) == Some(DRIVER)
        && named.unwrap_or_default().is_empty()
        && claim.metadata.deletion_timestamp.is_none()
        // A volume populator fills such a claim with a volume of its own; an empty one from here
        // would be bound first.
        && source(claim) != Source::Other
}

/// The storage class of a claim.
pub(super) fn class_name(claim: &PersistentVolumeClaim) -> &str {
    annotation(&claim.metadata, "volume.beta.kubernetes.io/storage-class")
        .or_else(|| claim.spec.as_ref()?.storage_class_name.as_deref())
        .unwrap_or_default()
}

/// The requested size of a claim.
pub(super) fn requested(claim: &PersistentVolumeClaim) -> Option<(Quantity, Amount)> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    let quantity = requests.get("storage")?;
    Some((quantity.clone(), quantity.0.parse().ok()?))
}

/// The capacity of a volume.
pub(super) fn size(volume: &PersistentVolume) -> Option<Amount> {
    let capacity = volume.spec.as_ref()?.capacity.as_ref()?;
    capacity.get("storage")?.0.parse().ok()
}

/// The name of the volume of a claim.
pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// The volume of a claim, or why it cannot be provisioned.
pub(super) fn volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&Node>,
    origin: Option<&Origin>,
) -> Result<PersistentVolume, String> {
    let Some((quantity, amount)) = requested(claim) else {
        return Err("the claim asks for no storage".to_owned());
    };
    let mut attributes = BTreeMap::new();
    if let Some(origin) = origin {
        if origin.size.as_ref().is_some_and(|size| amount < *size) {
            let needed = origin.size.as_ref().map(Amount::value).unwrap_or_default();
            let (what, handle) = &origin.attribute;
            return Err(format!(
                "requested volume size {} is less than the size {needed} of {what} {handle}",
                amount.value()
            ));
        }
        let (key, value) = &origin.attribute;
        attributes.insert((*key).to_owned(), value.clone());
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let name = volume_name(claim);
    let policy = class
        .reclaim_policy
        .as_deref()
        .unwrap_or("Delete")
        .to_owned();
    // As the external-provisioner: it keeps the object until the driver has deleted the volume,
    // which `Retain` never asks for.
    let finalizers = (policy == "Delete").then(|| vec![VOLUME_FINALIZER.to_owned()]);
    Ok(PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), DRIVER.to_owned())].into()),
            finalizers,
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: Some(BTreeMap::from([("storage".to_owned(), quantity)])),
            // Bound in advance and with the UID: no other claim can take the volume, nor a later
            // one of the same name.
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: claim.metadata.namespace.clone(),
                name: claim.metadata.name.clone(),
                uid: claim.metadata.uid.clone(),
                resource_version: claim.metadata.resource_version.clone(),
                field_path: None,
            }),
            csi: Some(CSIPersistentVolumeSource {
                driver: DRIVER.to_owned(),
                volume_handle: name,
                volume_attributes: Some(attributes).filter(|it| !it.is_empty()),
                ..CSIPersistentVolumeSource::default()
            }),
            mount_options: class.mount_options.clone(),
            node_affinity: affinity(class, node),
            persistent_volume_reclaim_policy: Some(policy),
            storage_class_name: class.metadata.name.clone(),
            volume_attributes_class_name: spec.volume_attributes_class_name,
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    })
}

/// The node affinity of a volume, if its class restricts it to the selected node or zone.
fn affinity(class: &StorageClass, node: Option<&Node>) -> Option<VolumeNodeAffinity> {
    let key = match class.parameters.as_ref()?.get(TOPOLOGY)?.as_str() {
        "node" => "kubernetes.io/hostname",
        "zone" => "topology.kubernetes.io/zone",
        _ => return None,
    };
    let labels = node?.metadata.labels.as_ref()?;
    let requirement = NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![labels.get(key)?.clone()]),
    };
    Some(VolumeNodeAffinity {
        required: Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(vec![requirement]),
                match_fields: None,
            }],
        }),
    })
}

/// The name of a data source in errors.
pub(super) fn describe(source: &Source, key: &Key) -> String {
    let (kind, name) = match source {
        Source::Claim(name) => ("PersistentVolumeClaim", name),
        Source::Snapshot(name) => ("VolumeSnapshot", name),
        Source::Empty | Source::Other => return format!("claim {key}"),
    };
    format!("error getting handle for DataSource Type {kind} by Name {name}")
}

#[cfg(test)]
mod tests;
