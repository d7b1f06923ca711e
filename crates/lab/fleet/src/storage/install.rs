//! Installation of CRDs and classes.

use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};
use runtime::{Error, wait_until_served};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::names::{DEFAULT_SNAPSHOT_CLASS, DRIVER};
use super::snapshots::{VolumeSnapshotClass, definitions as snapshot_definitions};

/// Creates the snapshot CRDs and waits until they are established. Existing ones are left alone:
/// they are the same kinds, perhaps newer.
pub(super) async fn definitions(client: &Client) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in snapshot_definitions::all() {
        create(&api, definition).await?;
    }
    for name in snapshot_definitions::NAMES {
        wait_until_served(client, name).await?;
    }
    Ok(())
}

/// Creates the CSIDriver and classes that use it.
pub(super) async fn classes(client: &Client) -> Result<(), Error> {
    let drivers: Api<CSIDriver> = Api::all(client.clone());
    let driver = json!({
        "metadata": { "name": DRIVER },
        "spec": { "attachRequired": false, "podInfoOnMount": false },
    });
    create(&drivers, driver).await?;
    let classes: Api<StorageClass> = Api::all(client.clone());
    create(
        &classes,
        json!({
            "metadata": {
                "name": "fast",
                "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
            },
            "provisioner": DRIVER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": true,
        }),
    )
    .await?;
    create(
        &classes,
        json!({
            "metadata": { "name": "local" },
            "provisioner": DRIVER,
            "parameters": { "topology": "node" },
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": true,
        }),
    )
    .await?;
    let classes: Api<VolumeSnapshotClass> = Api::all(client.clone());
    create(
        &classes,
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": { "name": "fast", "annotations": { DEFAULT_SNAPSHOT_CLASS: "true" } },
            "driver": DRIVER,
            "deletionPolicy": "Delete",
        }),
    )
    .await
}

/// Creates an object unless it exists.
async fn create<K>(api: &Api<K>, object: Value) -> Result<(), Error>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let kind = K::kind(&());
    let object: K = serde_json::from_value(object)
        .map_err(|error| Error::Invalid(format!("the {kind} of storage: {error}")))?;
    let name = object.meta().name.clone().unwrap_or_default();
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other
            .map(drop)
            .map_err(Error::api(format!("create {kind} {name}"))),
    }
}
