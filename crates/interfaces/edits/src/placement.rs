//! Release of pods from the scheduling gate of placement, by a user.

use ::placement::{is_gated, names, release_without_affinity};
use cluster_view::list::list_in;
use cluster_view::placement::write_changes;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use runtime::{Error, Key, Writer};
use serde_json::json;

use crate::ATTEMPTS;

/// The gated pods of a namespace, or of the cluster.
pub async fn gated_pods(client: &Client, namespace: Option<&str>) -> Result<Vec<Pod>, Error> {
    let unscheduled = ListParams::default().fields(names::UNSCHEDULED);
    let pods = list_in::<Pod>(client, namespace, &unscheduled).await?;
    let mut pods = pods.unwrap_or_default();
    pods.retain(|pod| is_gated(&json!(pod)));
    Ok(pods)
}

/// Removes the gate of a pod, and changes nothing else but the annotation that gives the reason. Returns false if the
/// pod is gone, or was released in the meantime.
pub async fn release_pod(
    client: &Client,
    pod: &Pod,
    (manager, dry_run): (&'static str, bool),
) -> Result<bool, Error> {
    let namespace = pod.namespace().unwrap_or_default();
    let key = Key::of(&pod.metadata);
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let writer = Writer::new(api, manager).dry_run(dry_run);
    let mut current = pod.clone();
    for _ in 0..ATTEMPTS {
        let before = json!(current);
        // Another pod of the same name is not the one that was shown.
        if current.uid() != pod.uid() || !is_gated(&before) {
            return Ok(false);
        }
        let (after, _) = release_without_affinity(&before, "by a user");
        match write_changes(&writer, &current.metadata, &before, &after).await {
            Ok(()) => return Ok(true),
            Err(error) if error.code() == Some(409) => {}
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        }
        match writer.get(&key).await? {
            Some(found) => current = found,
            None => return Ok(false),
        }
    }
    Err(Error::Late(format!(
        "releasing pod {key}: it changed during each of {ATTEMPTS} attempts"
    )))
}
