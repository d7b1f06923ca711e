//! A whole cluster under load: time until nodes are registered, and until pods are created,
//! scheduled and running.
//!
//! The reference is etcd, kube-apiserver, kube-controller-manager and kube-scheduler, without
//! client-side rate limits. It has no kubelets: the benchmark creates its nodes, and they send no
//! heartbeats, so running pods and the cost of an idle cluster are measured for Medley only.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use testkit::wait_until;

use crate::report::Report;
use crate::target::Target;

/// Timeout of each step.
const STEP_TIMEOUT: Duration = Duration::from_mins(20);
/// Replicas of each Deployment.
const REPLICAS: usize = 500;
/// Clients that create nodes.
const NODE_CLIENTS: usize = 16;
/// Duration of the idle measurement.
const IDLE_DURATION: Duration = Duration::from_secs(30);

/// Size of the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
}

/// Measures `medley up`.
pub(crate) async fn medley(binary: &Path, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let fleet = format!(
        "pools:\n- {{name: worker, count: {}, arch: amd64, capacity: {{cpu: \"16\", memory: 64Gi}}}}\n",
        size.nodes
    );
    let target = Target::up(binary, &fleet, STEP_TIMEOUT).await?;
    report.column(target.name);
    report.less_is_better(
        &format!("{} nodes ready", size.nodes),
        "s",
        target.ready.as_secs_f64(),
    );
    report.less_is_better("memory with nodes", "MiB", target.memory()?);
    let client = target.client().await?;
    let started = Instant::now();
    scheduled(&client, size, report).await?;
    wait_until("all pods are ready", STEP_TIMEOUT, || async {
        let ready = replicas(&client, |status| status.ready_replicas).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok((ready >= size.pods).then_some(()))
    })
    .await?;
    report.less_is_better("all pods running", "s", started.elapsed().as_secs_f64());
    report.less_is_better("memory with pods", "MiB", target.memory()?);
    // The aftermath of a start (status, endpoints, events) is not part of the idle cost.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = target.cpu()?;
    tokio::time::sleep(IDLE_DURATION).await;
    let used = (target.cpu()? - before) / IDLE_DURATION.as_secs_f64();
    report.less_is_better("quiet: processor", "% of a core", used * 100.0);
    Ok(())
}

/// Measures the reference control plane.
pub(crate) async fn genuine(assets: &Path, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let target = Target::genuine_control_plane(assets).await?;
    report.column(target.name);
    let client = target.client().await?;
    let started = Instant::now();
    nodes(&target, size.nodes).await?;
    report.less_is_better(
        &format!("{} nodes ready", size.nodes),
        "s",
        (target.ready + started.elapsed()).as_secs_f64(),
    );
    report.less_is_better("memory with nodes", "MiB", target.memory()?);
    scheduled(&client, size, report).await?;
    Ok(())
}

/// Creates Deployments and waits until all their pods are scheduled.
pub(crate) async fn scheduled(
    client: &Client,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let started = Instant::now();
    for index in 0..size.pods.div_ceil(REPLICAS) {
        let replicas = REPLICAS.min(size.pods - index * REPLICAS);
        let name = format!("load-{index}");
        let labels = json!({ "app": name });
        let deployment: Deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{
                        "name": "main",
                        "image": "example.com/load:1",
                        "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } },
                    }] },
                },
            },
        }))
        .context("making a deployment")?;
        deployments
            .create(&PostParams::default(), &deployment)
            .await
            .context("creating a deployment")?;
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let waiting = ListParams::default().fields("spec.nodeName=").limit(1);
    wait_until("all pods have nodes", STEP_TIMEOUT, || async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if replicas(client, |status| status.replicas).await? < size.pods {
            return Ok(None);
        }
        let waiting = pods.list(&waiting).await.context("listing pods")?;
        Ok(waiting.items.is_empty().then_some(()))
    })
    .await?;
    let pods = u32::try_from(size.pods).context("too many pods")?;
    let rate = f64::from(pods) / started.elapsed().as_secs_f64();
    report.more_is_better(&format!("{pods} pods made, bound"), "/s", rate);
    Ok(())
}

/// The sum of a status field over all Deployments.
async fn replicas(
    client: &Client,
    of: fn(&k8s_openapi::api::apps::v1::DeploymentStatus) -> Option<i32>,
) -> anyhow::Result<usize> {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let list = deployments
        .list(&ListParams::default())
        .await
        .context("listing deployments")?;
    let counts = list
        .items
        .iter()
        .filter_map(|item| item.status.as_ref().and_then(of));
    Ok(counts
        .map(|count| usize::try_from(count).unwrap_or_default())
        .sum())
}

/// Waits until this number of nodes is ready.
async fn nodes(target: &Target, count: usize) -> anyhow::Result<()> {
    let clients = try_join_all((0..NODE_CLIENTS).map(|_| target.client())).await?;
    let making = clients
        .into_iter()
        .enumerate()
        .map(|(maker, client)| async move {
            let api: Api<Node> = Api::all(client);
            for index in (maker..count).step_by(NODE_CLIENTS) {
                let name = format!("worker-{index}");
                let resources = json!({ "cpu": "16", "memory": "64Gi", "pods": "110" });
                let status = json!({
                    "capacity": resources, "allocatable": resources,
                    "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
                });
                let node: Node = serde_json::from_value(json!({
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
                    "status": status,
                }))
                .context("making a node")?;
                api.create(&PostParams::default(), &node)
                    .await
                    .context("creating a node")?;
            }
            anyhow::Ok(())
        });
    try_join_all(making).await.map(drop)
}
