//! Nodes, and what schedulers, kubelets and virt-handlers do: binding and running pods, running and moving guests.
//!
//! Played beside the genuine virt-controller and its stand-in, neither of which has them there.
#![allow(dead_code, reason = "no suite uses all of it")]

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PostParams,
};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::by;
use tokio::task::JoinHandle;

/// Field manager of kubelets and of the scheduler.
pub(crate) const KUBELET: &str = "kubelet";
/// Field manager of virt-handlers.
pub(crate) const HANDLER: &str = "virt-handler";

/// Interval of heartbeats; kube-controller-manager tolerates 50 seconds without one.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Interval in which kubelets look for pods that end.
const POD_INTERVAL: Duration = Duration::from_millis(500);
/// The machine type that a VM requests by default, and the one that QEMU resolves it to.
const MACHINES: [&str; 2] = ["q35", MACHINE];
const MACHINE: &str = "pc-q35-10.1";

/// A label of an administrator for the nodes of a vendor.
pub(crate) const POOL: &str = "example.com/pool";

/// A node, as KubeVirt's labeller describes its CPU.
pub(crate) struct Hardware {
    pub(crate) name: &'static str,
    pub(crate) vendor: &'static str,
    pub(crate) host_model: &'static str,
    /// Models that libvirt can run there.
    pub(crate) models: &'static [&'static str],
}

/// The nodes of the stories. QEMU reports models of other vendors as usable.
pub(crate) const NODES: [Hardware; 4] = [
    Hardware {
        name: "icelake-1",
        vendor: "Intel",
        host_model: "Icelake-Server-noTSX",
        models: &[
            "Icelake-Server-noTSX",
            "Skylake-Server-noTSX-IBRS",
            "Haswell-noTSX",
        ],
    },
    Hardware {
        name: "skylake-1",
        vendor: "Intel",
        host_model: "Skylake-Server-IBRS",
        models: &["Skylake-Server-noTSX-IBRS", "Haswell-noTSX"],
    },
    Hardware {
        name: "skylake-2",
        vendor: "Intel",
        host_model: "Skylake-Server-IBRS",
        models: &["Skylake-Server-noTSX-IBRS", "Haswell-noTSX"],
    },
    Hardware {
        name: "milan-1",
        vendor: "AMD",
        host_model: "EPYC-Milan",
        models: &["EPYC-Milan", "EPYC-Rome", "Haswell-noTSX"],
    },
];

/// Creates a namespace.
pub(crate) async fn create_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    objects(client, "v1", "Namespace", None)
        .patch(name, &by(KUBELET).force(), &Patch::Apply(namespace))
        .await?;
    Ok(())
}

/// Creates a node, with the labels that virt-handler gives it.
pub(crate) async fn create_node(client: &Client, hardware: &Hardware) -> anyhow::Result<()> {
    let name = hardware.name;
    let mut labels = json!({
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        POOL: hardware.vendor,
        "kubevirt.io/schedulable": "true",
        format!("cpu-vendor.node.kubevirt.io/{}", hardware.vendor): "true",
        format!("host-model-cpu.node.kubevirt.io/{}", hardware.host_model): "true",
        format!("cpu-model-migration.node.kubevirt.io/{}", hardware.host_model): "true",
        "host-model-required-features.node.kubevirt.io/ssbd": "true",
        "cpu-feature.node.kubevirt.io/ssbd": "true",
    });
    for model in hardware.models {
        labels[format!("cpu-model.node.kubevirt.io/{model}")] = json!("true");
        labels[format!("cpu-model-migration.node.kubevirt.io/{model}")] = json!("true");
    }
    for machine in MACHINES {
        labels[format!("machine-type.node.kubevirt.io/{machine}")] = json!("true");
    }
    let nodes = objects(client, "v1", "Node", None);
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {
            "name": name, "labels": labels,
            "annotations": { "kubevirt.io/heartbeat": now() },
        },
    });
    nodes
        .patch(name, &by(KUBELET).force(), &Patch::Apply(node))
        .await?;
    let resources = json!({
        "cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi",
        "devices.kubevirt.io/kvm": "1k", "devices.kubevirt.io/tun": "1k",
        "devices.kubevirt.io/vhost-net": "1k",
    });
    let status = json!({ "status": {
        "capacity": resources, "allocatable": resources,
        "conditions": [ready()],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "bootID": "", "machineID": "",
            "systemUUID": "", "kernelVersion": "", "osImage": "", "kubeletVersion": "",
            "containerRuntimeVersion": "", "kubeProxyVersion": "",
        },
    } });
    let patch = Patch::Strategic(status);
    nodes.patch_status(name, &by(KUBELET), &patch).await?;
    Ok(())
}

/// Objects of a kind.
pub(crate) fn objects(
    client: &Client,
    version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let resource = resource(version, kind);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

pub(crate) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The current second. Not the nearest one: a migration that begins in the future has not begun.
fn now() -> Value {
    let now = Timestamp::from_second(Timestamp::now().as_second());
    json!(now.map(|now| now.to_string()).ok())
}

fn ready() -> Value {
    json!({ "type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now() })
}

/// The kubelets of all nodes. Dropping it stops them.
pub(crate) struct Kubelets(JoinHandle<()>);

impl Kubelets {
    /// Sends heartbeats, and removes deleted pods as kubelets do when their containers have ended.
    pub(crate) fn start(client: &Client, namespace: &str) -> Self {
        let nodes = objects(client, "v1", "Node", None);
        let pods = objects(client, "v1", "Pod", Some(namespace));
        Self(tokio::spawn(async move {
            let mut beat = tokio::time::interval(HEARTBEAT_INTERVAL);
            let mut look = tokio::time::interval(POD_INTERVAL);
            loop {
                // Errors pass: the next round repeats what failed, and a story that depends on it times out.
                tokio::select! {
                    _ = beat.tick() => send_heartbeats(&nodes).await,
                    _ = look.tick() => remove_deleted(&pods).await.unwrap_or_default(),
                }
            }
        }))
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn send_heartbeats(nodes: &Api<DynamicObject>) {
    for hardware in &NODES {
        let status = json!({ "status": { "conditions": [ready()] } });
        let patch = Patch::Strategic(status);
        let _ = nodes
            .patch_status(hardware.name, &by(KUBELET), &patch)
            .await;
    }
}

async fn remove_deleted(pods: &Api<DynamicObject>) -> kube::Result<()> {
    for pod in pods.list(&ListParams::default()).await? {
        if pod.metadata.deletion_timestamp.is_some() {
            let at_once = DeleteParams::default().grace_period(0);
            pods.delete(&pod.name_any(), &at_once).await?;
        }
    }
    Ok(())
}

/// Binds a pod to a node, in place of a scheduler.
pub(crate) async fn bind_pod(
    pods: &Api<DynamicObject>,
    pod: &DynamicObject,
    node: &str,
) -> anyhow::Result<()> {
    let name = pod.name_any();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let params = PostParams::default();
    let _: Value = pods
        .create_subresource("binding", &name, &params, &binding)
        .await?;
    Ok(())
}

/// Reports that a pod fits no node, in place of a scheduler.
pub(crate) async fn report_unschedulable(
    pods: &Api<DynamicObject>,
    pod: &DynamicObject,
) -> anyhow::Result<()> {
    let status = json!({ "status": { "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/4 nodes are available",
    }] } });
    let patch = Patch::Strategic(status);
    pods.patch_status(&pod.name_any(), &by(KUBELET), &patch)
        .await?;
    Ok(())
}

/// Reports that the containers of a pod have ended, in place of its kubelet.
pub(crate) async fn end_pod(
    pods: &Api<DynamicObject>,
    pod: &str,
    phase: &str,
) -> anyhow::Result<()> {
    let code = i32::from(phase == "Failed");
    let status = json!({ "status": {
        "phase": phase,
        "containerStatuses": [{
            "name": "compute", "image": "i", "imageID": "sha256:1", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": code, "finishedAt": now() } },
        }],
        "conditions": [
            { "type": "Ready", "status": "False" }, { "type": "ContainersReady", "status": "False" },
        ],
    } });
    let patch = Patch::Strategic(status);
    pods.patch_status(pod, &by(KUBELET), &patch).await?;
    Ok(())
}

/// Reports that all containers of a scheduled pod run, in place of its kubelet.
pub(crate) async fn run_pod(pods: &Api<DynamicObject>, pod: &DynamicObject) -> anyhow::Result<()> {
    let containers = pod.data["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten();
    let statuses: Vec<Value> = containers
        .map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "sha256:1",
                "ready": true, "started": true, "restartCount": 0,
                "state": { "running": { "startedAt": now() } },
            })
        })
        .collect();
    let status = json!({ "status": {
        "phase": "Running", "podIP": "10.1.0.1", "podIPs": [{ "ip": "10.1.0.1" }], "startTime": now(),
        "containerStatuses": statuses,
        "conditions": [
            { "type": "Ready", "status": "True" }, { "type": "ContainersReady", "status": "True" },
        ],
    } });
    let patch = Patch::Strategic(status);
    pods.patch_status(&pod.name_any(), &by(KUBELET), &patch)
        .await?;
    Ok(())
}

/// Updates an instance as virt-handler does: the whole object, again after a conflict. The client is that of
/// virt-handler's account; virt-api ignores the status in updates by others.
pub(crate) async fn update_instance(
    instances: &Api<DynamicObject>,
    name: &str,
    change: impl Fn(&mut DynamicObject),
) -> anyhow::Result<DynamicObject> {
    loop {
        let mut instance = instances.get(name).await?;
        change(&mut instance);
        let params = PostParams {
            field_manager: Some(HANDLER.to_owned()),
            ..PostParams::default()
        };
        match instances.replace(name, &params, &instance).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => return Ok(other?),
        }
    }
}

/// The guest runs.
pub(crate) fn start_guest(instance: &mut DynamicObject) {
    let status = &mut instance.data["status"];
    status["phase"] = json!("Running");
    status["machine"] = json!({ "type": MACHINE });
    status["migrationMethod"] = json!("LiveMigration");
    // virt-controller creates no target pod without it.
    status["selinuxContext"] = json!("none");
    push(
        &mut status["phaseTransitionTimestamps"],
        json!({ "phase": "Running", "phaseTransitionTimestamp": now() }),
    );
    for kind in ["LiveMigratable", "StorageLiveMigratable"] {
        // With empty times, as Go writes them: virt-controller's patches test whether the conditions are what it read.
        let condition = json!({
            "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": null,
        });
        push(&mut status["conditions"], condition);
    }
}

/// The guest has ended, in this phase.
pub(crate) fn end_guest(instance: &mut DynamicObject, phase: &str) {
    let status = &mut instance.data["status"];
    status["phase"] = json!(phase);
    push(
        &mut status["phaseTransitionTimestamps"],
        json!({ "phase": phase, "phaseTransitionTimestamp": now() }),
    );
}

/// The target node listens for the guest.
pub(crate) fn prepare_target(instance: &mut DynamicObject) {
    let state = &mut instance.data["status"]["migrationState"];
    state["targetNodeAddress"] = json!("10.0.0.2");
    state["targetDirectMigrationNodePorts"] = json!({ "40001": 0 });
}

/// The source node sends the guest.
pub(crate) fn send_guest(instance: &mut DynamicObject) {
    let state = &mut instance.data["status"]["migrationState"];
    state["startTimestamp"] = now();
    state["mode"] = json!("PreCopy");
}

/// The target node has the guest, and takes the instance over.
pub(crate) fn receive_guest(instance: &mut DynamicObject) {
    let status = &mut instance.data["status"];
    let target = status["migrationState"]["targetNode"].clone();
    status["migrationState"]["targetNodeDomainDetected"] = json!(true);
    status["migrationState"]["targetNodeDomainReadyTimestamp"] = now();
    status["migrationState"]["endTimestamp"] = now();
    status["nodeName"] = target.clone();
    status["launcherContainerImageVersion"] = json!("");
    let labels = instance.metadata.labels.get_or_insert_default();
    let target = target.as_str().unwrap_or_default().to_owned();
    labels.insert("kubevirt.io/nodeName".to_owned(), target);
}

/// The target node has finished the migration.
pub(crate) fn finish_migration(instance: &mut DynamicObject) {
    instance.data["status"]["migrationState"]["completed"] = json!(true);
}

/// The target node has forgotten the migration.
pub(crate) fn clean_up_migration(instance: &mut DynamicObject) {
    let labels = instance.metadata.labels.get_or_insert_default();
    labels.remove("kubevirt.io/migrationTargetNodeName");
}

fn push(list: &mut Value, one: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(one),
        None => *list = json!([one]),
    }
}
