//! Whether the descheduler runs with its configuration.
//!
//! Its operator sets no `observedGeneration`. It marks the pod template of its Deployment with the generation that it made
//! it from, and then sets its condition (`sync` in pkg/operator/target_config_reconciler.go). A configuration that it
//! rejects, because a precondition such as PSI metrics is missing, becomes no Deployment: the operator scales the previous
//! one to zero, reports the message in the reason of its condition, and tries again by itself.

#[cfg(test)]
mod tests;

use kube_core::DynamicObject;
use serde_json::Value;

use super::read::{condition, describe_condition, holds, is_true, unobserved};
use super::{Health, applied};
use crate::profile::kinds::DEPLOYMENT;
use crate::snapshot::Snapshot;

/// Condition of a KubeDescheduler.
const DEGRADED: &str = "TargetConfigControllerDegraded";
/// Name of the Deployment, in the namespace of the KubeDescheduler.
const OPERAND: &str = "descheduler";
/// Annotation of the Deployment's pod template: the generation of the KubeDescheduler.
const GENERATION: &str = "kubedeschedulers.operator.openshift.io/cluster";

/// Whether the descheduler runs with the configuration.
pub(super) fn runs(live: &DynamicObject, snapshot: &Snapshot) -> Health {
    let reported = condition(live, DEGRADED);
    if let Some(message) = degraded(live) {
        return Health::faulty(message);
    }
    if let Some(why) = snapshot.unreadable(DEPLOYMENT) {
        return Health::unseen(format!("Deployment {OPERAND} cannot be read: {why}"));
    }
    let generation = live.metadata.generation.unwrap_or_default();
    let namespace = live.metadata.namespace.as_deref().unwrap_or_default();
    let deployment = snapshot.get(DEPLOYMENT, namespace, OPERAND);
    let Some(deployment) = deployment.filter(|it| made_from(it) == Some(generation)) else {
        return Health::waiting(format!(
            "Waiting for the descheduler operator to take up generation {generation}"
        ));
    };
    // The condition is set after the Deployment was written. Without it the operator has not finished once.
    if reported.is_none() {
        return Health::waiting(format!(
            "Waiting for the descheduler operator to report {DEGRADED}"
        ));
    }
    // A Deployment without replicas is available.
    if deployment.data.pointer("/spec/replicas") == Some(&Value::from(0)) {
        return Health::faulty(format!("Deployment {OPERAND} is scaled to zero"));
    }
    if unobserved(deployment).is_some() || !holds(deployment, "Available") {
        let why = condition(deployment, "Available")
            .filter(|found| !is_true(found))
            .map(describe_condition)
            .unwrap_or_default();
        let message = format!("Waiting for Deployment {OPERAND} to become available{why}");
        // A Deployment that its controller has not observed is being rolled out.
        return match unobserved(deployment) {
            Some(_) => Health::waiting(message),
            None => Health::faulty(message),
        };
    }
    applied()
}

/// Why the operator rejects the configuration, if it does.
pub(super) fn degraded(live: &DynamicObject) -> Option<String> {
    let degraded = condition(live, DEGRADED).filter(|found| is_true(found))?;
    let why = describe_condition(degraded);
    Some(format!("KubeDescheduler is degraded{why}"))
}

/// The generation that a Deployment was made from.
fn made_from(deployment: &DynamicObject) -> Option<i64> {
    let annotations = deployment
        .data
        .pointer("/spec/template/metadata/annotations")?;
    annotations[GENERATION].as_str()?.parse().ok()
}
