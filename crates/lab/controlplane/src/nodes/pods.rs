//! What is said about pods whose node cannot speak for them, and how they go.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use runtime::{Absent as _, Error, Key};
use serde_json::{Value, json};

/// Says something in the status of this very pod; whether it is still there.
pub(super) async fn say(
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
        .or_absent()
        .map_err(Error::api(format!("mark pod {key} {what}")))?;
    Ok(patched.is_some())
}

/// Deletes this very pod, with its own grace or another.
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
        .or_absent()
        .map_err(Error::api(format!("delete pod {key}")))?;
    Ok(())
}
