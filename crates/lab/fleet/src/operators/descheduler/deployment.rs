//! The Deployments that the operator writes.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::operators::names::{CLUSTER, DESCHEDULER_NAMESPACE};
use crate::operators::report::generation;

/// The descheduler.
pub(super) const OPERAND: &str = "descheduler";
/// Taints nodes under pressure.
pub(super) const SOFT_TAINTER: &str = "softtainter";
/// On the pod template: the generation of the configuration.
const GENERATION: &str = "kubedeschedulers.operator.openshift.io/cluster";

/// A Deployment for a configuration, with one pod.
pub(super) fn wanted(object: &DynamicObject, name: &str) -> Value {
    let labels = json!({ "app": name });
    let annotations = json!({ GENERATION: generation(object).to_string() });
    let interval = object.data["spec"]["deschedulingIntervalSeconds"].as_i64();
    let arguments = interval
        .filter(|_| name == OPERAND)
        .map(|seconds| format!("--descheduling-interval={seconds}s"));
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": DESCHEDULER_NAMESPACE,
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "operator.openshift.io/v1", "kind": "KubeDescheduler",
                "name": CLUSTER, "uid": object.metadata.uid,
            }],
        },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels, "annotations": annotations },
                "spec": { "containers": [{
                    "name": format!("openshift-{name}"),
                    "image": format!("quay.io/openshift/origin-{name}:latest"),
                    "args": arguments.into_iter().collect::<Vec<_>>(),
                    "resources": { "requests": { "cpu": "100m", "memory": "500Mi" } },
                }] },
            },
        },
    })
}

/// The generations of the written Deployments, after those of others.
pub(super) fn generations(old: Option<&Value>, written: &[Deployment]) -> Value {
    let mut all: Vec<Value> = old.and_then(Value::as_array).cloned().unwrap_or_default();
    for deployment in written {
        let fresh = json!({
            "group": "apps", "resource": "deployments", "namespace": DESCHEDULER_NAMESPACE,
            "name": deployment.metadata.name, "hash": "",
            "lastGeneration": deployment.metadata.generation,
        });
        match all.iter_mut().find(|it| it["name"] == fresh["name"]) {
            Some(known) => *known = fresh,
            None => all.push(fresh),
        }
    }
    json!(all)
}
