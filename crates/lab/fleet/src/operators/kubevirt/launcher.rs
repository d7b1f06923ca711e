//! The launcher pod of an instance: its spec, and the observed state.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DynamicObject, ObjectMeta};
use machinery::quantity::Quantity;
use serde_json::{Value, json};

use super::config::Config;
use super::labels::{
    APP, CPU_FEATURE, CPU_MODEL, CREATED_BY, DOMAIN, GUEST_NAME, INSTANCE_NAME, LAUNCHER,
    MACHINE_TYPE, MIGRATION_JOB, NODE_NAME, OBSERVED_VERSIONS, OBSOLETE_HOST_MODEL, SCHEDULABLE,
    TARGET_READY, UNPAUSED,
};
use super::object::text;
use crate::names::ARCH;

/// The container that runs the guest.
const COMPUTE: &str = "compute";
const IMAGE: &str = "quay.io/kubevirt/virt-launcher:v1.7.0";
/// Approximate memory of a launcher besides that of its guest.
const OVERHEAD: &str = "220Mi";
/// Default memory of an instance.
const DEFAULT_MEMORY: &str = "1Gi";
/// Default grace period of a guest, in seconds.
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// How much longer a launcher has, in seconds.
// virt-handler stops the guest with a padding of `gracePeriodPaddingSeconds`, and the launcher is killed after another one:
// `renderLaunchManifest` in KubeVirt's `pkg/virt-controller/services/template.go`.
const GRACE_PADDING_SECONDS: i64 = 30;
/// Longest host name.
const MAX_HOST_NAME: usize = 63;

/// Observed state of a launcher pod.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about a pod"
)]
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
    pub(super) created: Option<Time>,
    pub(super) image: String,
    pub(super) qos_class: Option<String>,
    /// The condition `PodScheduled` while it is false, in the form of a condition of instances.
    pub(super) unscheduled: Option<Value>,
    /// The condition `Ready`, in the same form.
    pub(super) readiness: Option<Value>,
    /// Whether it has the condition of a guest that is not paused.
    pub(super) unpaused: bool,
    /// The node in its label.
    pub(super) labelled: Option<String>,
    /// Whether it is marked as a target that the guest runs in.
    pub(super) marked: bool,
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
        let conditions = conditions.unwrap_or_default();
        let condition = |about: &str| conditions.iter().find(|one| one.type_ == about);
        let labels = pod.metadata.labels.as_ref();
        let annotations = pod.metadata.annotations.as_ref();
        let compute = spec.and_then(|it| it.containers.iter().find(|it| it.name == COMPUTE));
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node: spec.and_then(|it| it.node_name.clone()).unwrap_or_default(),
            address: status.and_then(|it| it.pod_ip.clone()),
            ready: !containers.is_empty() && containers.iter().all(|one| one.ready),
            phase: status.and_then(|it| it.phase.clone()).unwrap_or_default(),
            leaving: pod.metadata.deletion_timestamp.is_some(),
            created: pod.metadata.creation_timestamp.clone(),
            image: compute.and_then(|it| it.image.clone()).unwrap_or_default(),
            qos_class: status.and_then(|it| it.qos_class.clone()),
            unscheduled: condition("PodScheduled")
                .filter(|one| one.status == "False")
                .map(of_instance),
            readiness: condition("Ready").map(of_instance),
            unpaused: condition(UNPAUSED).is_some_and(|one| one.status == "True"),
            labelled: labels.and_then(|labels| labels.get(NODE_NAME).cloned()),
            marked: annotations.is_some_and(|all| all.contains_key(TARGET_READY)),
            migration: labels.and_then(|labels| labels.get(MIGRATION_JOB).cloned()),
            node_selector: spec
                .and_then(|it| it.node_selector.clone())
                .unwrap_or_default(),
        }
    }

    /// Whether no node fits.
    pub(super) fn is_unschedulable(&self) -> bool {
        let reason = self.unscheduled.as_ref().map(|it| &it["reason"]);
        reason.is_some_and(|reason| reason == "Unschedulable")
    }

    /// Whether the pod has terminated, or is about to.
    pub(super) fn is_going_down(&self) -> bool {
        self.is_down() || self.leaving
    }

    /// Whether the pod has terminated.
    pub(super) fn is_down(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// A condition of a pod as one of an instance: with empty times, as Go writes them, and without empty texts.
fn of_instance(condition: &PodCondition) -> Value {
    let mut same = json!({
        "type": condition.type_,
        "status": condition.status,
        "lastProbeTime": condition.last_probe_time,
        "lastTransitionTime": condition.last_transition_time,
    });
    for (field, text) in [
        ("reason", &condition.reason),
        ("message", &condition.message),
    ] {
        if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
            same[field] = json!(text);
        }
    }
    same
}

/// The pod that an instance runs in, or will: the newest one on its node, or at all while it has none.
pub(super) fn current<'a>(
    instance: &DynamicObject,
    launchers: &'a [Launcher],
) -> Option<&'a Launcher> {
    let node = text(instance, "/status/nodeName");
    let here = launchers
        .iter()
        .filter(|one| node.is_empty() || one.node == node);
    // Of several that were created in the same second, one that runs.
    here.max_by_key(|one| (one.created.as_ref().map(|at| at.0), !one.is_down()))
}

/// Renders the launcher pod of an instance.
pub(super) fn render(instance: &DynamicObject, config: &Config) -> Value {
    let meta = &instance.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let uid = meta.uid.as_deref().unwrap_or_default();
    let spec = instance.data.get("spec").unwrap_or(&Value::Null);
    let host = host_name(spec, name);
    let mut labels = meta.labels.clone().unwrap_or_default();
    for (key, value) in [
        (APP, LAUNCHER),
        (CREATED_BY, uid),
        (GUEST_NAME, host),
        (INSTANCE_NAME, host_name(&Value::Null, name)),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds":
            grace.unwrap_or(DEFAULT_GRACE_SECONDS).saturating_add(GRACE_PADDING_SECONDS),
        "hostname": host,
        "readinessGates": [{ "conditionType": UNPAUSED }],
        "nodeSelector": node_selector(instance, config),
        "containers": [{
            "name": COMPUTE,
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
            "annotations": annotations(meta),
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

/// The host name of a guest.
fn host_name<'a>(spec: &'a Value, name: &'a str) -> &'a str {
    if let Some(own) = spec["hostname"].as_str().filter(|own| !own.is_empty()) {
        return own;
    }
    let host = name.split('.').next().unwrap_or(name);
    host.get(..MAX_HOST_NAME).unwrap_or(host)
}

/// The annotations of a launcher: those of its instance, and what tools need to know about it.
fn annotations(meta: &ObjectMeta) -> BTreeMap<String, String> {
    let mut all = meta.annotations.clone().unwrap_or_default();
    all.retain(|key, _| {
        !key.starts_with("kubectl.kubernetes.io") && !OBSERVED_VERSIONS.contains(&key.as_str())
    });
    let name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let freezer = |what: &str| {
        format!(
            r#"["/usr/bin/virt-freezer", "--{what}", "--name", "{name}", "--namespace", "{namespace}"]"#
        )
    };
    let own = [
        (DOMAIN, name.to_owned()),
        (
            "kubectl.kubernetes.io/default-container",
            COMPUTE.to_owned(),
        ),
        ("kubevirt.io/migrationTransportUnix", "true".to_owned()),
        // The descheduler asks for an eviction, which becomes a migration.
        (
            "descheduler.alpha.kubernetes.io/request-evict-only",
            String::new(),
        ),
        ("pre.hook.backup.velero.io/container", COMPUTE.to_owned()),
        ("pre.hook.backup.velero.io/command", freezer("freeze")),
        ("post.hook.backup.velero.io/container", COMPUTE.to_owned()),
        ("post.hook.backup.velero.io/command", freezer("unfreeze")),
    ];
    all.extend(own.map(|(key, value)| (key.to_owned(), value)));
    all
}

/// The node selector. The instance's own overrides the cluster-wide one, and its CPU requirements
/// override both.
fn node_selector(instance: &DynamicObject, config: &Config) -> BTreeMap<String, String> {
    let spec = instance.data.get("spec").unwrap_or(&Value::Null);
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
    // The type that runs, for the target of a migration.
    let running = text(instance, "/status/machine/type");
    let asked = text(instance, "/spec/domain/machine/type");
    if let Some(machine) = [running, asked].into_iter().find(|it| !it.is_empty()) {
        selector.insert(format!("{MACHINE_TYPE}{machine}"), "true".to_owned());
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
