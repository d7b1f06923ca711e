//! Drains a node as `kubectl drain` does.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams, ListParams};
use kube::{Api, Client};
use runtime::{Absent, Error, Key};
use tokio::time::Instant;

use super::cordon;
use crate::scheduler::is_over;

/// Delay before retrying an eviction that a disruption budget refused (kubectl's 5 s).
const EVICTION_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Interval between checks whether evicted pods are gone.
const DELETION_POLL_INTERVAL: Duration = Duration::from_millis(250);
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Options of a drain, named after kubectl's flags.
#[derive(Debug, Clone, Default)]
pub struct DrainOptions {
    /// Leave pods of DaemonSets on the node.
    pub ignore_daemonsets: bool,
    /// Also evict pods that no controller replaces.
    pub force: bool,
    /// Also evict pods that use emptyDir volumes, whose data is lost.
    pub delete_emptydir_data: bool,
    /// Grace period for pods; `None` uses each pod's own.
    pub grace_period_seconds: Option<u32>,
    /// Overall timeout of the drain.
    pub timeout: Option<Duration>,
}

/// Cordons a node and evicts its pods as disruption budgets allow; returns when they are gone.
/// Reports progress one line at a time.
pub async fn drain(
    client: &Client,
    node: &str,
    options: &DrainOptions,
    progress: impl Fn(String),
) -> Result<(), Error> {
    let end = options.timeout.map(|timeout| Instant::now() + timeout);
    // Before the pods are listed: pods scheduled in between would be missed.
    cordon(client, node).await?;
    progress(format!("node/{node} cordoned"));
    let everywhere: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = everywhere
        .list(&here)
        .await
        .map_err(Error::api(format!("list pods of node {node}")))?;
    let leaving = choose(&pods.items, options).map_err(|why| {
        Error::Invalid(format!("unable to drain node {node}: {}", why.join(", ")))
    })?;
    for pod in &leaving {
        evict(client, pod, options, end, &progress).await?;
    }
    for pod in &leaving {
        gone(client, pod, end).await?;
    }
    progress(format!("node/{node} drained"));
    Ok(())
}

/// Selects the pods to evict, or returns every reason why the drain cannot proceed.
pub(super) fn choose<'a>(
    pods: &'a [Pod],
    options: &DrainOptions,
) -> Result<Vec<&'a Pod>, Vec<String>> {
    let (mut leaving, mut daemons, mut alone, mut local) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for pod in pods {
        let annotations = pod.metadata.annotations.as_ref();
        if annotations.is_some_and(|all| all.contains_key(MIRROR)) {
            continue;
        }
        // Terminated pods hold no resources and are protected by no budget; kubectl deletes them
        // too.
        if is_over(pod) {
            leaving.push(pod);
            continue;
        }
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true));
        let key = Key::of(&pod.metadata).to_string();
        if owner.is_some_and(|owner| owner.kind == "DaemonSet") {
            if !options.ignore_daemonsets {
                daemons.push(key);
            }
            continue;
        }
        if owner.is_none() && !options.force {
            alone.push(key.clone());
        }
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        let keeps_data = volumes
            .into_iter()
            .flatten()
            .any(|volume| volume.empty_dir.is_some());
        if keeps_data && !options.delete_emptydir_data {
            local.push(key);
        }
        leaving.push(pod);
    }
    let reasons: Vec<String> = [
        (
            daemons,
            "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)",
        ),
        (
            local,
            "cannot delete Pods with local storage (use --delete-emptydir-data to override)",
        ),
        (
            alone,
            "cannot delete Pods that declare no controller (use --force to override)",
        ),
    ]
    .into_iter()
    .filter(|(pods, _)| !pods.is_empty())
    .map(|(pods, why)| format!("{why}: {}", pods.join(", ")))
    .collect();
    if reasons.is_empty() {
        Ok(leaving)
    } else {
        Err(reasons)
    }
}

async fn evict(
    client: &Client,
    pod: &Pod,
    options: &DrainOptions,
    end: Option<Instant>,
    progress: &impl Fn(String),
) -> Result<(), Error> {
    let key = Key::of(&pod.metadata);
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    let params = EvictParams {
        delete_options: Some(DeleteParams {
            grace_period_seconds: options.grace_period_seconds,
            preconditions: Some(kube::api::Preconditions {
                uid: pod.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        }),
        ..EvictParams::default()
    };
    progress(format!("evicting pod {key}"));
    loop {
        match api.evict(&key.name, &params).await.not_found_as_none() {
            Ok(_) => return Ok(()),
            // Another pod took the name already, so the evicted one is gone.
            Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 429 => {
                progress(format!(
                    "error when evicting pods/{key} (will retry after 5s): {}",
                    status.message
                ));
                in_time(end, &key)?;
                tokio::time::sleep(EVICTION_RETRY_DELAY).await;
            }
            Err(error) => return Err(Error::api(format!("evict pod {key}"))(error)),
        }
    }
}

async fn gone(client: &Client, pod: &Pod, end: Option<Instant>) -> Result<(), Error> {
    let key = Key::of(&pod.metadata);
    let api: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    loop {
        let now = api
            .get_metadata_opt(&key.name)
            .await
            .map_err(Error::api(format!("get pod {key}")))?;
        if now.is_none_or(|now| now.metadata.uid != pod.metadata.uid) {
            return Ok(());
        }
        in_time(end, &key)?;
        tokio::time::sleep(DELETION_POLL_INTERVAL).await;
    }
}

fn in_time(end: Option<Instant>, key: &Key) -> Result<(), Error> {
    if end.is_some_and(|end| Instant::now() >= end) {
        return Err(Error::Invalid(format!(
            "timed out waiting for pod {key} to be deleted: increase the timeout, or check the finalizers of the pod"
        )));
    }
    Ok(())
}
