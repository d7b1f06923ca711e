//! Commands on a running fleet. They only use the API server, so they work from another process
//! with nothing but a kubeconfig.

mod drain;

use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use runtime::{Error, Key, Writer};
use serde_json::{Value, json};

use crate::model::{Fleet, Pool, expand};
use crate::names::{
    ARCH, CPU, FAILED, OS, POOL, SIMULATED, WINDOWS_BUILD, annotation, annotation_is_true, label,
    name_of,
};
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
        let label = |key: &str| label(&node.metadata, key).map(str::to_owned);
        let os = label(OS).unwrap_or_default();
        let mut labels = node.metadata.labels.iter().flatten();
        let cpu = labels.find_map(|(key, _)| key.strip_prefix("host-model-cpu.node.kubevirt.io/"));
        let status = node.status.iter();
        let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
        Self {
            name: name_of(&node.metadata).to_owned(),
            pool: annotation(&node.metadata, POOL).map(str::to_owned),
            os: match label(WINDOWS_BUILD) {
                Some(build) => format!("{os} {build}"),
                None => os,
            },
            arch: label(ARCH).unwrap_or_default(),
            cpu: cpu.map(str::to_owned),
            simulated: annotation_is_true(&node.metadata, SIMULATED),
            failed: annotation_is_true(&node.metadata, FAILED),
            schedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true),
            ready: conditions.any(|it| it.type_ == "Ready" && it.status == "True"),
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
    let (mut added, writer) = (Vec::new(), Writer::cluster(client.clone()));
    for node in expand(&fleet) {
        let created = writer.create_if_absent(&node).await?;
        added.extend(created.and_then(|node: Node| node.metadata.name));
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
        let writer = Writer::cluster(client.clone());
        writer.create(&copy(&model, name)).await?;
    }
    Ok(())
}

/// Copies a node under a new name, without the fields that identify the original.
fn copy(model: &Node, name: &str) -> Node {
    let mut node = Node::default();
    node.metadata.name = Some(name.to_owned());
    node.metadata.labels.clone_from(&model.metadata.labels);
    if let Some(labels) = &mut node.metadata.labels {
        // `complete` sets it from the new name.
        labels.remove(crate::names::HOSTNAME);
    }
    node.metadata
        .annotations
        .clone_from(&model.metadata.annotations);
    if let Some(annotations) = &mut node.metadata.annotations {
        // A simulated failure of the original is not a property of its copies.
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
    // First, so that the scheduler does not bind a pod to it at the moment of the deletion.
    cordon(client, name).await?;
    let writer = Writer::<Node>::cluster(client.clone());
    writer.delete(&node.metadata).await.map(drop)
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
    annotate(client, name, &json!({ FAILED: "true" })).await
}

/// Restarts the kubelet of a failed node, and lets a degraded node apply its machine configuration
/// again.
pub async fn recover(client: &Client, name: &str) -> Result<(), Error> {
    simulated(client, name).await?;
    annotate(client, name, &json!({ FAILED: null, DEGRADE: null })).await
}

/// Makes a simulated node fail to apply its machine configuration, with this message as the reason.
pub async fn degrade(client: &Client, name: &str, message: &str) -> Result<(), Error> {
    simulated(client, name).await?;
    annotate(client, name, &json!({ DEGRADE: message })).await
}

/// Pauses or resumes the rollout of machine configuration to a pool.
pub async fn pause(client: &Client, pool: &str, paused: bool) -> Result<(), Error> {
    let pools = Writer::<MachineConfigPool>::cluster(client.clone());
    let change = json!({ "spec": { "paused": paused } });
    let patched = pools.merge(&Key::new("", pool), &change).await;
    patched.map(drop)
}

async fn annotate(client: &Client, name: &str, annotations: &Value) -> Result<(), Error> {
    let change = json!({ "metadata": { "annotations": annotations } });
    patch(client, name, change).await
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
