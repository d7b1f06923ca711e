//! Status updates and deletion of pods on behalf of an unresponsive kubelet.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use runtime::{Absent as _, Error, Key};
use serde_json::{Value, json};

/// Patches the status of a pod with a precondition on its UID; returns whether it still exists.
pub(super) async fn set_status(
    client: &Client,
    pod: &Pod,
    status: Value,
    what: &str,
) -> Result<bool, Error> {
    let key = Key::of(&pod.metadata);
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let patch = json!({ "metadata": { "uid": pod.metadata.uid }, "status": status });
    let patched = api
        .patch_status(
            &key.name,
            &PatchParams::default(),
            &Patch::Strategic(&patch),
        )
        .await
        .not_found_as_none()
        .map_err(Error::api(format!("mark pod {key} {what}")))?;
    Ok(patched.is_some())
}

/// Deletes a pod with a precondition on its UID, with its own grace period or another.
pub(super) async fn delete(client: &Client, pod: &Pod, grace: Option<u32>) -> Result<(), Error> {
    let key = Key::of(&pod.metadata);
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let params = DeleteParams {
        grace_period_seconds: grace,
        preconditions: Some(Preconditions {
            uid: pod.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    api.delete(&key.name, &params)
        .await
        .not_found_as_none()
        .map_err(Error::api(format!("delete pod {key}")))?;
    Ok(())
}
