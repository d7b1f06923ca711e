//! Whether the operator accepts its configuration in a cluster.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use crate::names::{OS, ROLE, annotation_is_true, label};
use crate::operators::names::PSI;

/// On nodes where KubeVirt runs virtual machines.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";

/// What the operator depends on.
pub(super) struct Surroundings {
    /// The Route by which it finds Prometheus.
    pub(super) prometheus: Option<Value>,
    pub(super) nodes: Vec<Arc<Node>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does not get as far as reporting anything.
    Unreadable,
    /// It stops the descheduler and reports this.
    Refused(String),
    /// It runs the descheduler.
    Accepted {
        /// Whether the soft tainter runs as well.
        taints: bool,
    },
}

/// What becomes of a configuration.
pub(super) fn verdict(spec: &Value, surroundings: &Surroundings) -> Verdict {
    let interval = spec["deschedulingIntervalSeconds"].as_i64();
    let profiles = spec["profiles"].as_array().into_iter().flatten();
    let profiles: Vec<&str> = profiles.filter_map(Value::as_str).collect();
    if interval.is_none_or(|seconds| seconds <= 0) || profiles.is_empty() {
        return Verdict::Unreadable;
    }
    let migrates = |profile: &&&str| profile.ends_with("KubeVirtRelieveAndMigrate");
    let migrating = profiles.iter().find(migrates);
    let measured = spec["profileCustomizations"]["devActualUtilizationProfile"].as_str();
    if (migrating.is_some() || measured.is_some_and(|it| !it.is_empty()))
        && let Some(why) = lacks_prometheus(surroundings.prometheus.as_ref())
    {
        return Verdict::Refused(why);
    }
    let Some(profile) = migrating else {
        return Verdict::Accepted { taints: false };
    };
    let lacking = if !surroundings.nodes.iter().any(|node| runs_machines(node)) {
        "KubeVirt is properly deployed"
    } else if lacks_psi(&surroundings.nodes) {
        "PSI metrics are enabled for the worker nodes"
    } else {
        return Verdict::Accepted { taints: true };
    };
    Verdict::Refused(format!("profile {profile} can only be used when {lacking}"))
}

/// Why Prometheus cannot be found by this Route.
fn lacks_prometheus(route: Option<&Value>) -> Option<String> {
    let name = "openshift-monitoring/prometheus-k8s";
    let Some(route) = route else {
        return Some(format!(
            "unable to get {name} route: route.route.openshift.io \"prometheus-k8s\" not found"
        ));
    };
    let Some(ingress) = route.pointer("/status/ingress/0") else {
        return Some(format!("No ingress found in {name} route"));
    };
    let host = ingress["host"].as_str().unwrap_or_default();
    host.is_empty()
        .then(|| format!("Host for status.ingress[0] in {name} route is empty"))
}

/// Whether a worker node lacks PSI metrics. In a cluster without workers all nodes count.
pub(super) fn lacks_psi(nodes: &[Arc<Node>]) -> bool {
    let worker = format!("{ROLE}worker");
    let is_linux = |node: &&Arc<Node>| label(&node.metadata, OS) != Some("windows");
    let linux: Vec<_> = nodes.iter().filter(is_linux).collect();
    let is_worker = |node: &&Arc<Node>| label(&node.metadata, &worker).is_some();
    let has_workers = linux.iter().any(is_worker);
    let mut counted = linux.iter().filter(|it| !has_workers || is_worker(it));
    counted.any(|node| !has_psi(node))
}

pub(super) fn has_psi(node: &Node) -> bool {
    annotation_is_true(&node.metadata, PSI)
}

/// Whether KubeVirt runs virtual machines on a node.
pub(super) fn runs_machines(node: &Node) -> bool {
    label(&node.metadata, SCHEDULABLE) == Some("true")
}
