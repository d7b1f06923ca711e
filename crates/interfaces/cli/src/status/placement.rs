//! Pods and the nodes that can run them.

use api::placement::{NAME, PlacementPolicy};
use cluster_view::policies;
use cluster_view::rivals::PlacementRival;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use placement::names::{GATE, WAITING, WHY};

use super::Name;
use super::tree::{Job, Object, State};
use crate::read;

/// Reads the state of the job.
pub(super) async fn read_state(client: &Client) -> anyhow::Result<Job> {
    let held = held(client).await?;
    let policies = own_policy(client).await?;
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
    let job = Job::new(Name::Placement).with(objects, message);
    // A user who may not read Deployments and Leases still sees pods and policies.
    Ok(match PlacementRival::read(client).await {
        Ok(rival) => job.owned(rival.ownership()),
        Err(_) => job,
    })
}

/// The policy, if there is one; `None` if the CRD is not installed.
async fn own_policy(client: &Client) -> anyhow::Result<Option<Vec<Object>>> {
    let found: Option<Vec<PlacementPolicy>> = policies::list(client).await?;
    Ok(found.map(|found| {
        let own = found.iter().filter(|it| it.name_any() == NAME);
        let own = own.map(|it| {
            let conditions = it.status.as_ref().map(|it| it.conditions.as_slice());
            Object::of_conditions("PlacementPolicy", NAME, conditions)
        });
        own.collect()
    }))
}

/// Pods held at the scheduling gate while their images are inspected, and pods that no node can
/// run.
async fn held(client: &Client) -> anyhow::Result<Vec<Object>> {
    let pods: Api<Pod> = Api::all(client.clone());
    let pending = ListParams::default().fields("status.phase=Pending");
    let pods = read::try_list(&pods, pending).await?.unwrap_or_default();
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
