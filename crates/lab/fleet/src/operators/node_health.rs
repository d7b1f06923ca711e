//! Simulated node health checks: nodes are counted, but not remediated. Not compared with the original: the Go module
//! registry does not serve github.com/medik8s/node-healthcheck-operator.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use machinery::selector::LabelSelector;
use runtime::{Cache, Error, Key, Manager, Next, Reconcile};
use serde_json::{Value, json};

use super::conditions::NewCondition;
use super::kinds::node_health_check;
use super::report::{Objects, observed_conditions};
use crate::names::label;

struct Operator {
    checks: Objects,
    nodes: Cache<Node>,
}

pub(super) async fn start(manager: &Manager, client: Client) {
    let (checks, queue) = Objects::start(manager, &client, node_health_check()).await;
    let nodes = manager.cache::<Node>();
    let all = checks.cache.clone();
    queue.enqueue_mapped(&nodes, move |change| {
        let mut affected = all.list();
        affected.retain(|check| {
            let spec = check.data.get("spec").unwrap_or(&Value::Null);
            let health =
                |node: &Arc<Node>| (node.metadata.labels.clone(), is_unhealthy(node, spec));
            change.old.as_ref().map(health) != change.new.as_ref().map(health)
        });
        let keys = affected.iter().map(|check| Key::of(&check.metadata));
        keys.collect::<Vec<_>>()
    });
    nodes.synced().await;
    manager.start(Operator { checks, nodes }, &queue, 1);
}

impl Reconcile for Operator {
    fn name(&self) -> &'static str {
        "node-health-checks"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.checks.cache.find(key) else {
            return Ok(Next::Wait);
        };
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let mut status = found(spec, &self.nodes.list());
        let condition = NewCondition::with_reason(
            "Disabled",
            false,
            "NodeHealthCheckEnabled",
            "No issues found, NodeHealthCheck is enabled.",
        );
        status["conditions"] = observed_conditions(&object, vec![condition]);
        self.checks.report(&object, status).await?;
        Ok(Next::Wait)
    }
}

/// The result of a health check.
fn found(spec: &Value, nodes: &[Arc<Node>]) -> Value {
    let selector = LabelSelector::from_label_selector_object(&spec["selector"])
        .unwrap_or_else(|_| LabelSelector::nothing());
    let selected: Vec<&Arc<Node>> = nodes
        .iter()
        .filter(|node| selector.matches(|key| label(&node.metadata, key)))
        .collect();
    let unhealthy: Vec<Value> = selected
        .iter()
        .filter(|node| is_unhealthy(node, spec))
        .map(|node| json!({ "name": node.metadata.name }))
        .collect();
    let paused = spec["pauseRequests"]
        .as_array()
        .filter(|all| !all.is_empty());
    let (phase, reason) = match paused {
        Some(requests) => {
            let requests: Vec<&str> = requests.iter().filter_map(Value::as_str).collect();
            ("Paused", format!("NHC is paused: {}", requests.join(",")))
        }
        None => (
            "Enabled",
            "NHC is enabled, no ongoing remediation".to_owned(),
        ),
    };
    json!({
        "observedNodes": selected.len(),
        "healthyNodes": selected.len() - unhealthy.len(),
        "unhealthyNodes": unhealthy,
        "phase": phase,
        "reason": reason,
    })
}

/// Whether a node has one of the unhealthy conditions. Their duration is ignored, because simulated
/// time may be faster.
fn is_unhealthy(node: &Node, spec: &Value) -> bool {
    let wrong = spec["unhealthyConditions"].as_array();
    let mut wrong = wrong.into_iter().flatten();
    let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
    wrong.any(|wrong| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|is| wrong["type"] == *is.type_ && wrong["status"] == *is.status)
    })
}

#[cfg(test)]
mod tests;
