//! Pods and the nodes that can run them.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as Standard;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use placement::names::{GATE, WAITING, WHY};
use serde_json::Value;

use super::Name;
use super::tree::{Job, Object, State};
use crate::governance::configs::api_error;

/// The PlacementPolicy kind, and the name of the only object that is effective.
const POLICY: (&str, &str, &str) = ("medley.dev", "v1alpha1", "PlacementPolicy");
const POLICY_NAME: &str = "default";

/// Reads the state of the job.
pub(super) async fn read_state(client: &Client) -> anyhow::Result<Job> {
    let held = held(client).await?;
    let policies = policies(client).await?;
    if policies.is_none() && held.is_empty() {
        let missing = "placementpolicies.medley.dev";
        return Ok(Job::off(Name::Placement, missing, "the operator"));
    }
    let policies = policies.unwrap_or_default();
    let message = match held.len() {
        0 => "no pod is gated".to_owned(),
        1 => "1 pod is gated".to_owned(),
        count => format!("{count} pods are gated"),
    };
    let objects = policies.into_iter().chain(held).collect();
    Ok(Job::new(Name::Placement).with(objects, message))
}

/// The policy, if there is one; `None` if the CRD is not installed.
async fn policies(client: &Client) -> anyhow::Result<Option<Vec<Object>>> {
    let (group, version, kind) = POLICY;
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(group, version, kind),
        "placementpolicies",
    );
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let found = match api.list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(api_error(error).context("listing PlacementPolicies")),
    };
    let own = found.iter().filter(|it| it.name_any() == POLICY_NAME);
    let own = own.map(|it| {
        let conditions = it
            .data
            .pointer("/status/conditions")
            .unwrap_or(&Value::Null);
        let conditions: Vec<Standard> =
            serde_json::from_value(conditions.clone()).unwrap_or_default();
        Object::of_conditions(kind, it.name_any(), &conditions)
    });
    Ok(Some(own.collect()))
}

/// Pods held at the scheduling gate while their images are inspected, and pods that no node can
/// run.
async fn held(client: &Client) -> anyhow::Result<Vec<Object>> {
    let pods: Api<Pod> = Api::all(client.clone());
    let pending = ListParams::default().fields("status.phase=Pending");
    let pods = pods
        .list(&pending)
        .await
        .map_err(api_error)
        .map_err(|error| error.context("listing pods"))?;
    Ok(pods.iter().filter(|pod| is_held(pod)).map(object).collect())
}

fn is_held(pod: &Pod) -> bool {
    let gates = pod.spec.iter().flat_map(|it| &it.scheduling_gates);
    gates.flatten().any(|gate| gate.name == GATE)
}

fn object(pod: &Pod) -> Object {
    let why = pod.annotations().get(WHY);
    let (state, reason) = match why {
        Some(why) if !why.starts_with(WAITING) => (State::Attention, "Refused"),
        _ => (State::Progressing, "Held"),
    };
    let mut object = Object::new("Pod", pod.name_any(), state);
    object.namespace = pod.namespace();
    object.reason = Some(reason.to_owned());
    object.since = pod.creation_timestamp().map(|it| it.0);
    object.message = why.cloned();
    object
}
