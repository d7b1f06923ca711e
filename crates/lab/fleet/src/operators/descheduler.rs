//! The simulated descheduler operator: it accepts its configuration, or reports why it does not.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use runtime::{Cache, Error, Key, Manager, Next, Queue, Reconcile};
use serde_json::{Value, json};

use super::conditions::NewCondition;
use super::kinds::kube_descheduler;
use super::names::{CLUSTER, DESCHEDULER_NAMESPACE, PSI};
use super::report::{Objects, conditions, generation};
use crate::names::{OS, ROLE, annotation_is_true, label};

/// Whether the operator could apply its configuration.
const CONDITION: &str = "TargetConfigControllerDegraded";

struct Operator {
    deschedulers: Objects,
    nodes: Cache<Node>,
}

pub(super) async fn start(manager: &Manager, client: Client) {
    let deschedulers = Objects::follow(manager, &client, kube_descheduler());
    let nodes = manager.cache::<Node>();
    let queue = Queue::new();
    let only = || Key::new(DESCHEDULER_NAMESPACE, CLUSTER);
    queue.enqueue_mapped(&deschedulers.cache, move |_| Some(only()));
    queue.enqueue_mapped(&nodes, move |change| {
        let has_psi = |side: &Option<Arc<Node>>| side.as_deref().map(has_psi);
        (has_psi(&change.old) != has_psi(&change.new)).then(only)
    });
    tokio::join!(deschedulers.cache.synced(), nodes.synced());
    let operator = Operator {
        deschedulers,
        nodes,
    };
    manager.start(operator, &queue, 1);
}

impl Reconcile for Operator {
    fn name(&self) -> &'static str {
        "descheduler-operator"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.deschedulers.cache.find(key) else {
            return Ok(Next::Wait);
        };
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        // An unmanaged configuration is not reconciled and keeps its last conditions.
        if spec["managementState"] != "Managed" {
            return Ok(Next::Wait);
        }
        let refusal = refusal(spec, lacks_psi(&self.nodes.list()));
        let refused = refusal.is_some();
        // As upstream, the reason is a sentence instead of a CamelCase word.
        let condition =
            NewCondition::with_reason(CONDITION, refused, refusal.unwrap_or_default(), "");
        let status = json!({
            "observedGeneration": generation(&object),
            "readyReplicas": i32::from(!refused),
            "conditions": conditions(&object, vec![condition]),
        });
        self.deschedulers.report(&object, status).await?;
        Ok(Next::Wait)
    }
}

/// Why the operator rejects its configuration.
fn refusal(spec: &Value, lacks_psi: bool) -> Option<String> {
    let interval = spec["deschedulingIntervalSeconds"].as_i64();
    if interval.is_none_or(|seconds| seconds <= 0) {
        let text = "descheduler should have an interval set and it should be greater than 0";
        return Some(text.to_owned());
    }
    let profiles = spec["profiles"].as_array().into_iter().flatten();
    let migrating = profiles
        .filter_map(Value::as_str)
        .find(|profile| profile.ends_with("KubeVirtRelieveAndMigrate"))?;
    lacks_psi.then(|| {
        format!(
            "profile {migrating} can only be used when PSI metrics are enabled for the worker nodes"
        )
    })
}

/// Whether a worker node lacks PSI metrics. In a cluster without workers all nodes count.
fn lacks_psi(nodes: &[Arc<Node>]) -> bool {
    let worker = format!("{ROLE}worker");
    let is_linux = |node: &&Arc<Node>| label(&node.metadata, OS) != Some("windows");
    let linux: Vec<_> = nodes.iter().filter(is_linux).collect();
    let is_worker = |node: &&Arc<Node>| label(&node.metadata, &worker).is_some();
    let has_workers = linux.iter().any(is_worker);
    let mut counted = linux.iter().filter(|it| !has_workers || is_worker(it));
    counted.any(|node| !has_psi(node))
}

fn has_psi(node: &Node) -> bool {
    annotation_is_true(&node.metadata, PSI)
}

#[cfg(test)]
mod tests;
