//! Commands on a running fleet. They only use the API server, so they work from another process
//! with nothing but a kubeconfig.

mod drain;

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use runtime::{Absent, Error};
use serde_json::{Value, json};

use crate::model::{Fleet, Pool, expand};
use crate::names::{ARCH, CPU, FAILED, OS, POOL, SIMULATED, WINDOWS_BUILD, annotation_is_true};
use crate::operators::MachineConfigPool;
use crate::operators::names::DEGRADE;

pub use drain::{DrainOptions, drain};

/// Summary of a node, printed as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column of its own")]
pub struct NodeLine {
    /// Name.
    pub name: String,
    /// The pool it came from.
    pub pool: Option<String>,
    /// Operating system, with its build if it has one.
    pub os: String,
    /// Architecture.
    pub arch: String,
    /// CPU model as KubeVirt's node labeller reports it.
    pub cpu: Option<String>,
    /// Whether the fleet simulates it.
    pub simulated: bool,
    /// Whether its kubelet is simulated as failed.
    pub failed: bool,
    /// Whether it accepts new pods (`spec.unschedulable` is unset).
    pub schedulable: bool,
    /// Whether its `Ready` condition is true.
    pub ready: bool,
}

impl NodeLine {
    fn of(node: &Node) -> Self {
        let label = |name: &str| node.metadata.labels.as_ref()?.get(name).cloned();
        let os = label(OS).unwrap_or_default();
        let cpu = node
            .metadata
            .labels
            .iter()
            .flatten()
            .find_map(|(key, _)| key.strip_prefix("host-model-cpu.node.kubevirt.io/"));
        let conditions = node
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            pool: node
                .metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(POOL).cloned()),
            os: match label(WINDOWS_BUILD) {
                Some(build) => format!("{os} {build}"),
                None => os,
            },
            arch: label(ARCH).unwrap_or_default(),
            cpu: cpu.map(str::to_owned),
            simulated: annotation_is_true(&node.metadata, SIMULATED),
            failed: annotation_is_true(&node.metadata, FAILED),
            schedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true),
            ready: conditions
                .into_iter()
                .flatten()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        }
    }
}

/// All nodes, by name.
pub async fn list(client: &Client) -> Result<Vec<NodeLine>, Error> {
    let nodes = api(client)
        .list(&ListParams::default())
        .await
        .map_err(Error::api("list nodes"))?;
    Ok(nodes.items.iter().map(NodeLine::of).collect())
}

/// Adds the nodes of a pool whose names are free and returns their names. The running fleet assigns
/// addresses and sends heartbeats for them.
pub async fn add(client: &Client, pool: Pool) -> Result<Vec<String>, Error> {
    let fleet = Fleet::of_pools(vec![pool]);
    let fleet = fleet
        .checked()
        .map_err(|error| Error::Invalid(error.to_string()))?;
    let mut added = Vec::new();
    for node in expand(&fleet) {
        let name = node.metadata.name.clone().unwrap_or_default();
        match api(client).create(&PostParams::default(), &node).await {
            Ok(_) => added.push(name),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(Error::api(format!("create node {name}"))(error)),
        }
    }
    if added.is_empty() {
        return Err(Error::Invalid(format!(
            "all {} nodes of pool {} exist already: give it another name, prefix or count",
            fleet.pools.first().map_or(0, |pool| pool.count),
            fleet.pools.first().map_or("", |pool| pool.name.as_str()),
        )));
    }
    Ok(added)
}

/// Adds nodes that copy an existing one.
pub async fn add_copies(client: &Client, like: &str, names: &[String]) -> Result<(), Error> {
    let model = simulated(client, like).await?;
    for name in names {
        let node = copy(&model, name);
        api(client)
            .create(&PostParams::default(), &node)
            .await
            .map_err(Error::api(format!("create node {name}")))?;
    }
    Ok(())
}

/// Copies a node under a new name, without the fields that identify the original.
fn copy(model: &Node, name: &str) -> Node {
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.metadata.labels.clone_from(&model.metadata.labels);
    if let Some(labels) = &mut node.metadata.labels {
        labels.remove(crate::names::HOSTNAME);
    }
    node.metadata
        .annotations
        .clone_from(&model.metadata.annotations);
    if let Some(annotations) = &mut node.metadata.annotations {
        annotations.retain(|key, _| [SIMULATED, POOL, CPU].contains(&key.as_str()));
    }
    let taints = model.spec.as_ref().and_then(|spec| spec.taints.clone());
    // Taints that follow from the state of the original node (not ready, unreachable) are not
    // copied.
    let lasting = taints.map(|mut taints| {
        taints.retain(|taint| {
            !taint.key.starts_with("node.kubernetes.io/") || taint.key == "node.kubernetes.io/os"
        });
        taints
    });
    node.spec.get_or_insert_default().taints = lasting;
    if let Some(theirs) = &model.status {
        let status = node.status.get_or_insert_default();
        status.capacity.clone_from(&theirs.capacity);
        status.allocatable.clone_from(&theirs.allocatable);
    }
    crate::model::complete(&mut node);
    node
}

/// Cordons and deletes a node. The control plane's pod garbage collection removes its pods.
pub async fn remove(client: &Client, name: &str) -> Result<(), Error> {
    let node = simulated(client, name).await?;
    cordon(client, name).await?;
    let options = DeleteParams {
        preconditions: Some(Preconditions {
            uid: node.metadata.uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    api(client)
        .delete(name, &options)
        .await
        .not_found_as_none()
        .map(drop)
        .map_err(Error::api(format!("delete node {name}")))
}

/// Marks a node unschedulable.
pub async fn cordon(client: &Client, name: &str) -> Result<(), Error> {
    patch(client, name, json!({ "spec": { "unschedulable": true } })).await
}

/// Marks a node schedulable again.
pub async fn uncordon(client: &Client, name: &str) -> Result<(), Error> {
    patch(client, name, json!({ "spec": { "unschedulable": null } })).await
}

/// Stops the kubelet of a simulated node: no heartbeats, and its pods no longer change.
pub async fn fail(client: &Client, name: &str) -> Result<(), Error> {
    simulated(client, name).await?;
    let annotations = json!({ FAILED: "true" });
    patch(
        client,
        name,
        json!({ "metadata": { "annotations": annotations } }),
    )
    .await
}

/// Restarts the kubelet of a failed node, and lets a degraded node apply its machine configuration
/// again.
pub async fn recover(client: &Client, name: &str) -> Result<(), Error> {
    simulated(client, name).await?;
    let annotations = json!({ FAILED: null, DEGRADE: null });
    patch(
        client,
        name,
        json!({ "metadata": { "annotations": annotations } }),
    )
    .await
}

/// Makes a simulated node fail to apply its machine configuration, with this message as the reason.
pub async fn degrade(client: &Client, name: &str, message: &str) -> Result<(), Error> {
    simulated(client, name).await?;
    let annotations = json!({ DEGRADE: message });
    patch(
        client,
        name,
        json!({ "metadata": { "annotations": annotations } }),
    )
    .await
}

/// Pauses or resumes the rollout of machine configuration to a pool.
pub async fn pause(client: &Client, pool: &str, paused: bool) -> Result<(), Error> {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let change = json!({ "spec": { "paused": paused } });
    pools
        .patch(pool, &PatchParams::default(), &Patch::Merge(change))
        .await
        .map(drop)
        .map_err(Error::api(format!("patch machine config pool {pool}")))
}

fn api(client: &Client) -> Api<Node> {
    Api::all(client.clone())
}

async fn patch(client: &Client, name: &str, patch: Value) -> Result<(), Error> {
    api(client)
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(Error::api(format!("patch node {name}")))
}

/// Gets a node and checks that the fleet simulates it; the state of real nodes cannot be set here.
async fn simulated(client: &Client, name: &str) -> Result<Node, Error> {
    let node = api(client)
        .get(name)
        .await
        .map_err(Error::api(format!("get node {name}")))?;
    if annotation_is_true(&node.metadata, SIMULATED) {
        return Ok(node);
    }
    Err(Error::Invalid(format!(
        "node {name} is not simulated: only nodes with the annotation {SIMULATED}: \"true\" are"
    )))
}

#[cfg(test)]
mod tests;
