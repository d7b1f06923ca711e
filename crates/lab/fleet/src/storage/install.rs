//! Installation of CRDs and classes.

use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::core::ClusterResourceScope;
use runtime::{Error, Kind, Writer, wait_until_served};
use serde::Serialize;
use serde_json::{Value, json};

use super::names::{DEFAULT_SNAPSHOT_CLASS, DRIVER};
use super::snapshots::{VolumeSnapshotClass, definitions as snapshot_definitions};

/// Creates the snapshot CRDs and waits until they are established. Existing ones are left alone:
/// they are the same kinds, perhaps newer.
pub(super) async fn definitions(client: &Client) -> Result<(), Error> {
    let writer = Writer::cluster(client.clone());
    let mut names = Vec::new();
    for crd in snapshot_definitions::all() {
        let crd: CustomResourceDefinition = crd.build()?;
        writer.create_if_absent(&crd).await?;
        names.extend(crd.metadata.name);
    }
    for name in names {
        wait_until_served(client, &name).await?;
    }
    Ok(())
}

/// Creates the CSIDriver and classes that use it.
pub(super) async fn classes(client: &Client) -> Result<(), Error> {
    let driver = json!({
        "metadata": { "name": DRIVER },
        "spec": { "attachRequired": false, "podInfoOnMount": false },
    });
    create::<CSIDriver>(client, driver).await?;
    let fast = json!({
        "metadata": {
            "name": "fast",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
        },
        "provisioner": DRIVER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true,
    });
    create::<StorageClass>(client, fast).await?;
    let local = json!({
        "metadata": { "name": "local" },
        "provisioner": DRIVER,
        "parameters": { "topology": "node" },
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    create::<StorageClass>(client, local).await?;
    let snapshots = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": { "name": "fast", "annotations": { DEFAULT_SNAPSHOT_CLASS: "true" } },
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    });
    create::<VolumeSnapshotClass>(client, snapshots).await
}

/// Creates an object unless it exists.
async fn create<K>(client: &Client, object: Value) -> Result<(), Error>
where
    K: Kind<DynamicType = (), Scope = ClusterResourceScope> + Serialize,
{
    let object: K = serde_json::from_value(object)
        .map_err(|error| Error::Invalid(format!("the {} of storage: {error}", K::kind(&()))))?;
    let writer = Writer::cluster(client.clone());
    writer.create_if_absent(&object).await.map(drop)
}
