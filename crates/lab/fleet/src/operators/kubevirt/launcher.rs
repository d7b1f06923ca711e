//! The launcher pod of an instance: its spec, and the observed state.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use machinery::quantity::Quantity;
use serde_json::{Value, json};

use super::config::Config;
use super::labels::{
    APP, CPU_FEATURE, CPU_MODEL, CREATED_BY, DOMAIN, LAUNCHER, MACHINE_NAME, MIGRATION_JOB,
    OBSOLETE_HOST_MODEL, SCHEDULABLE,
};
use crate::names::ARCH;

const IMAGE: &str = "quay.io/kubevirt/virt-launcher:v1.7.0";
/// Approximate memory of a launcher besides that of its guest.
const OVERHEAD: &str = "220Mi";
/// Default memory of an instance.
const DEFAULT_MEMORY: &str = "1Gi";
/// Default grace period of a guest, in seconds.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Observed state of a launcher pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launcher {
    pub(super) name: String,
    pub(super) uid: String,
    /// Its node; empty until it is scheduled.
    pub(super) node: String,
    pub(super) address: Option<String>,
    /// Whether all its containers are ready.
    pub(super) ready: bool,
    pub(super) phase: String,
    pub(super) leaving: bool,
    /// The scheduler's message if it is unschedulable.
    pub(super) unschedulable: Option<String>,
    /// The migration whose target it is; `None` for the first launcher.
    pub(super) migration: Option<String>,
    pub(super) node_selector: BTreeMap<String, String>,
}

impl Launcher {
    pub(super) fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let containers = status.and_then(|it| it.container_statuses.as_deref());
        let containers = containers.unwrap_or_default();
        let conditions = status.and_then(|it| it.conditions.as_deref());
        let scheduled = conditions
            .unwrap_or_default()
            .iter()
            .find(|one| one.type_ == "PodScheduled" && one.status == "False");
        let labels = pod.metadata.labels.as_ref();
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node: spec.and_then(|it| it.node_name.clone()).unwrap_or_default(),
            address: status.and_then(|it| it.pod_ip.clone()),
            ready: !containers.is_empty() && containers.iter().all(|one| one.ready),
            phase: status.and_then(|it| it.phase.clone()).unwrap_or_default(),
            leaving: pod.metadata.deletion_timestamp.is_some(),
            unschedulable: scheduled
                .filter(|one| one.reason.as_deref() == Some("Unschedulable"))
                .map(|one| one.message.clone().unwrap_or_default()),
            migration: labels.and_then(|labels| labels.get(MIGRATION_JOB).cloned()),
            node_selector: spec
                .and_then(|it| it.node_selector.clone())
                .unwrap_or_default(),
        }
    }

    /// Whether the pod has terminated.
    pub(super) fn is_down(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// Renders the launcher pod of an instance.
pub(super) fn render(instance: &DynamicObject, config: &Config) -> Value {
    let meta = &instance.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let uid = meta.uid.as_deref().unwrap_or_default();
    let spec = instance.data.get("spec").unwrap_or(&Value::Null);
    let mut labels = meta.labels.clone().unwrap_or_default();
    // The instance's current node must not pin its next launcher.
    labels.remove(super::labels::NODE_NAME);
    for (key, value) in [(APP, LAUNCHER), (CREATED_BY, uid), (MACHINE_NAME, name)] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let mut annotations = meta.annotations.clone().unwrap_or_default();
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    annotations.insert(DOMAIN.to_owned(), name.to_owned());
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // A little longer than the grace period of the guest.
        "terminationGracePeriodSeconds": grace.unwrap_or(DEFAULT_GRACE_SECONDS) + 15,
        "nodeSelector": node_selector(spec, config),
        "containers": [{
            "name": "compute",
            "image": IMAGE,
            "command": [
                "/usr/bin/virt-launcher-monitor", "--name", name,
                "--uid", uid, "--namespace", meta.namespace,
            ],
            "resources": resources(spec, config),
        }],
    });
    let affinity = affinity(spec);
    if !affinity.is_null() {
        pod["affinity"] = affinity;
    }
    let copied = [
        "tolerations",
        "schedulerName",
        "priorityClassName",
        "topologySpreadConstraints",
        "hostname",
        "subdomain",
    ];
    for field in copied {
        if let Some(value) = spec.get(field) {
            pod[field] = value.clone();
        }
    }
    json!({
        "metadata": {
            "generateName": format!("virt-launcher-{name}-"),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachineInstance",
                "name": name,
                "uid": uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": pod,
    })
}

/// The node selector. The instance's own overrides the cluster-wide one, and its CPU requirements
/// override both.
fn node_selector(spec: &Value, config: &Config) -> BTreeMap<String, String> {
    let mut selector = BTreeMap::from([(SCHEDULABLE.to_owned(), "true".to_owned())]);
    let arch = spec["architecture"].as_str().unwrap_or_default();
    if !arch.is_empty() {
        selector.insert(ARCH.to_owned(), arch.to_lowercase());
    }
    selector.extend(config.node_selectors());
    let own = spec["nodeSelector"].as_object().into_iter().flatten();
    selector.extend(own.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))));
    let model = model(spec);
    // Stock KubeVirt treats any other value as the name of a model.
    if !matches!(model, "" | "host-model" | "host-passthrough") {
        selector.insert(format!("{CPU_MODEL}{model}"), "true".to_owned());
    }
    for feature in features(spec, &["", "require"]) {
        selector.insert(format!("{CPU_FEATURE}{feature}"), "true".to_owned());
    }
    selector
}

/// The affinity of the instance, extended by the requirements of its CPU.
fn affinity(spec: &Value) -> Value {
    let mut absent: Vec<String> = features(spec, &["forbid"])
        .map(|feature| format!("{CPU_FEATURE}{feature}"))
        .collect();
    if model(spec) == "host-model" {
        absent.push(OBSOLETE_HOST_MODEL.to_owned());
    }
    let mut affinity = spec.get("affinity").cloned().unwrap_or_default();
    if absent.is_empty() {
        return affinity;
    }
    let expressions: Vec<Value> = absent
        .into_iter()
        .map(|key| json!({ "key": key, "operator": "DoesNotExist" }))
        .collect();
    if !affinity.is_object() {
        affinity = json!({});
    }
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = affinity
        .pointer_mut(&format!("/nodeAffinity/{required}/nodeSelectorTerms"))
        .and_then(Value::as_array_mut);
    match terms {
        // Terms are alternatives, so the requirement is added to each.
        Some(terms) if !terms.is_empty() => {
            for term in terms {
                match term["matchExpressions"].as_array_mut() {
                    Some(all) => all.extend(expressions.clone()),
                    None => term["matchExpressions"] = json!(expressions),
                }
            }
        }
        _ => {
            if !affinity["nodeAffinity"].is_object() {
                affinity["nodeAffinity"] = json!({});
            }
            affinity["nodeAffinity"][required] =
                json!({ "nodeSelectorTerms": [{ "matchExpressions": expressions }] });
        }
    }
    affinity
}

/// Resource requests of a launcher.
fn resources(spec: &Value, config: &Config) -> Value {
    let domain = &spec["domain"];
    let count = |field: &str| domain["cpu"][field].as_i64().unwrap_or(1).max(1);
    let processors = count("cores")
        .saturating_mul(count("sockets"))
        .saturating_mul(count("threads"));
    let share = processors.saturating_mul(1000) / config.allocation_ratio();
    let asked = |name: &str| domain.pointer(&format!("/resources/requests/{name}"));
    let guest = asked("memory")
        .or_else(|| domain.pointer("/memory/guest"))
        .and_then(|memory| Quantity::from_json(memory).ok());
    let sum = |guest: &Quantity| guest.checked_add(&Quantity::from_str(OVERHEAD).ok()?);
    let usual = || Quantity::from_str(DEFAULT_MEMORY).ok();
    let memory = guest.or_else(usual).as_ref().and_then(sum);
    let memory = memory.map_or_else(|| DEFAULT_MEMORY.to_owned(), |memory| memory.canonical());
    let cpu = asked("cpu").cloned();
    let cpu = cpu.unwrap_or_else(|| json!(format!("{share}m")));
    let device = json!({ "devices.kubevirt.io/kvm": "1" });
    json!({
        "requests": { "cpu": cpu, "memory": memory, "devices.kubevirt.io/kvm": "1" },
        "limits": device,
    })
}

/// The CPU model of an instance.
pub(super) fn model(spec: &Value) -> &str {
    let model = spec.pointer("/domain/cpu/model").and_then(Value::as_str);
    model.unwrap_or_default()
}

/// The CPU features for which an instance has one of these policies.
fn features<'a>(spec: &'a Value, policies: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let all = spec.pointer("/domain/cpu/features");
    let all = all.and_then(Value::as_array).into_iter().flatten();
    all.filter(|feature| {
        let policy = feature["policy"].as_str().unwrap_or_default();
        policies.contains(&policy)
    })
    .filter_map(|feature| feature["name"].as_str())
}

#[cfg(test)]
mod tests;
