//! The descheduler operator, simulated: it accepts what it is told to do, or says why it does not.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use runtime::{Cache, Error, Key, Manager, Next, Queue, Reconcile};
use serde_json::{Value, json};

use super::conditions::Said;
use super::kinds::kube_descheduler;
use super::names::{CLUSTER, DESCHEDULER_NAMESPACE, PSI};
use super::report::{Reports, conditions, generation};
use crate::names::{OS, ROLE, says_yes};

/// Says whether the operator could do as it was told.
const CONDITION: &str = "TargetConfigControllerDegraded";

struct Operator {
    reports: Reports,
    nodes: Cache<Node>,
}

pub(super) async fn start(manager: &Manager, client: Client) {
    let (reports, running) = Reports::follow(client, kube_descheduler());
    manager.spawn(running);
    let nodes = manager.cache::<Node>();
    let queue: Queue<Key> = Queue::new();
    let only = Key::new(DESCHEDULER_NAMESPACE, CLUSTER);
    let (to, key) = (queue.clone(), only.clone());
    reports.objects.on_change(move |_| to.add(key.clone()));
    let to = queue.clone();
    nodes.on_change(move |change| {
        let before = change.old.as_deref().map(has_psi);
        if before != change.new.as_deref().map(has_psi) {
            to.add(only.clone());
        }
    });
    tokio::join!(reports.objects.synced(), nodes.synced());
    manager.start(Operator { reports, nodes }, &queue, 1);
}

impl Reconcile for Operator {
    fn name(&self) -> &'static str {
        "descheduler-operator"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.reports.objects.find(key) else {
            return Ok(Next::Wait);
        };
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        // What is not managed is left as it is, with what was said about it last.
        if spec["managementState"] != "Managed" {
            return Ok(Next::Wait);
        }
        let refusal = refusal(spec, lacks_psi(&self.nodes.list()));
        let refused = refusal.is_some();
        // The real one says it in the reason, where others say one word.
        let said = Said::because(CONDITION, refused, refusal.unwrap_or_default(), "");
        let status = json!({
            "observedGeneration": generation(&object),
            "readyReplicas": i32::from(!refused),
            "conditions": conditions(&object, vec![said]),
        });
        self.reports.report(&object, status).await?;
        Ok(Next::Wait)
    }
}

/// Why the operator does not do as it is told.
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

/// Whether a worker does not measure pressure. In a cluster without workers all nodes count.
fn lacks_psi(nodes: &[Arc<Node>]) -> bool {
    let linux = || {
        nodes
            .iter()
            .filter(|node| label(node, OS) != Some("windows"))
    };
    let worker = format!("{ROLE}worker");
    let mut workers = linux()
        .filter(|node| label(node, &worker).is_some())
        .peekable();
    if workers.peek().is_some() {
        workers.any(|node| !has_psi(node))
    } else {
        linux().any(|node| !has_psi(node))
    }
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let labels = node.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

fn has_psi(node: &Node) -> bool {
    says_yes(&node.metadata, PSI)
}

#[cfg(test)]
mod tests;
