//! Writes of the scheduler.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use runtime::{Absent, Error, Key};
use serde_json::{Value, json};

use super::pod::PodInfo;
use super::volumes::{SELECTED_NODE, Source, Supply};

/// Message of a gated pod.
pub(super) const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";

/// Binds a pod to a node.
pub(super) async fn bind(client: &Client, pod: &PodInfo, node: &str) -> Result<(), Error> {
    let key = &pod.key;
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        // With the UID, so that a pod of the same name that replaced this one is not bound.
        "metadata": { "namespace": key.namespace, "name": key.name, "uid": pod.uid },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let options = PostParams::default();
    api.create_subresource::<Value, Value>("binding", &key.name, &options, &binding)
        .await
        .map(drop)
        .map_err(Error::api(format!("bind pod {key} to node {node}")))
}

/// Binds or provisions the volumes of a pod for its node.
pub(super) async fn supply(client: &Client, node: &str, supplies: &[Supply]) -> Result<(), Error> {
    for supply in supplies {
        let claim = &supply.claim;
        match &supply.source {
            Source::Provisioned => {
                let api: Api<PersistentVolumeClaim> =
                    Api::namespaced(client.clone(), &claim.namespace);
                let patch = json!({ "metadata": {
                    "uid": supply.uid,
                    "annotations": { SELECTED_NODE: node },
                }});
                api.patch(&claim.name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .map_err(Error::api(format!(
                        "select node {node} for persistent volume claim {claim}"
                    )))?;
            }
            Source::Existing(name) => {
                let api: Api<PersistentVolume> = Api::all(client.clone());
                let operation = format!("give persistent volume {name} to claim {claim}");
                let mut volume = api.get(name).await.map_err(Error::api(operation.clone()))?;
                let spec = volume.spec.get_or_insert_default();
                let taken = spec
                    .claim_ref
                    .as_ref()
                    .and_then(|of| of.uid.as_deref())
                    .is_some_and(|uid| uid != supply.uid);
                if taken {
                    return Err(Error::Invalid(format!("{operation}: another claim has it")));
                }
                let reference = json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": supply.uid,
                    "namespace": claim.namespace, "name": claim.name,
                });
                spec.claim_ref = serde_json::from_value(reference).ok();
                let annotations = volume.metadata.annotations.get_or_insert_default();
                annotations.insert("pv.kubernetes.io/bound-by-controller".into(), "yes".into());
                // With the resource version the decision was based on.
                api.replace(name, &PostParams::default(), &volume)
                    .await
                    .map_err(Error::api(operation))?;
            }
        }
    }
    Ok(())
}

/// Deletes the victims on a node and nominates the node for the preempting pod.
pub(super) async fn preempt_pods(
    client: &Client,
    pod: &PodInfo,
    node: &str,
    victims: &[Arc<PodInfo>],
) -> Result<(), Error> {
    for victim in victims {
        let key = &victim.key;
        let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
        let patch = json!({
            "metadata": { "uid": victim.uid },
            "status": { "conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": "default-scheduler: preempting to accommodate a higher priority pod",
                "lastTransitionTime": Time(Timestamp::now()),
            }]},
        });
        let patched = api
            .patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("patch status of pod {key}")))?;
        if patched.is_none() {
            continue;
        }
        let options = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(victim.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        api.delete(&key.name, &options)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("delete pod {key}")))?;
    }
    let key = &pod.key;
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    // After the deletions: if one of them fails, the pod is decided anew, and must not reserve a
    // node that was not freed.
    let patch = json!({ "metadata": { "uid": pod.uid }, "status": { "nominatedNodeName": node } });
    api.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .map(drop)
        .map_err(Error::api(format!("nominate node {node} for pod {key}")))
}

/// The `PodScheduled` condition of a pod.
pub(super) fn condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled")
}

/// Writes that a pod is unschedulable, and why.
pub(super) async fn unscheduled(
    client: &Client,
    key: &Key,
    uid: &str,
    reason: &str,
    message: &str,
    since: Option<Time>,
) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let patch = json!({
        "metadata": { "uid": uid },
        "status": { "conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since.unwrap_or_else(|| Time(Timestamp::now())),
        }]},
    });
    api.patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .map(drop)
        .map_err(Error::api(format!("patch status of pod {key}")))
}
