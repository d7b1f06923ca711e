//! Unresponsive nodes, and their pods.

use std::time::Duration;

use controlplane::nodes::{self, Timing};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use runtime::Manager;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};

use crate::{WAIT_TIMEOUT, api, create, pod, service_account, set_status, until, until_gone};

/// Kubernetes' rules with short timeouts.
fn quick() -> Timing {
    Timing {
        grace: Duration::from_millis(1500),
        startup_grace: Duration::from_millis(1500),
        between_evictions: Duration::from_millis(100),
        between_evictions_in_trouble: Duration::from_millis(100),
        quarantine: Duration::from_millis(300),
        sweep: Duration::from_millis(200),
    }
}

async fn node(cluster: &TestCluster, name: &str) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let labels = json!({ "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64" });
    create(
        &nodes,
        json!({ "metadata": { "name": name, "labels": labels } }),
    )
    .await?;
    ready(cluster, name).await
}

/// Reports a node as ready, as its kubelet would.
async fn ready(cluster: &TestCluster, name: &str) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let now = json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        Timestamp::now()
    ));
    let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status, "lastHeartbeatTime": now, "reason": "Kubelet", "message": "m" });
    let conditions = json!([
        condition("Ready", "True"),
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
    ]);
    set_status(&nodes, name, json!({ "conditions": conditions })).await?;
    Ok(())
}

/// Renews the lease of a node as long as the returned task runs.
async fn beating(
    cluster: &TestCluster,
    name: &'static str,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    wait_until("there is a place for leases", WAIT_TIMEOUT, || async {
        Ok(namespaces.get_opt("kube-node-lease").await?.map(drop))
    })
    .await?;
    let leases: Api<Lease> = api(cluster, "kube-node-lease");
    if leases.get_opt(name).await?.is_none() {
        let spec = json!({ "holderIdentity": name, "leaseDurationSeconds": 1 });
        create(
            &leases,
            json!({ "metadata": { "name": name }, "spec": spec }),
        )
        .await?;
    }
    Ok(tokio::spawn(async move {
        loop {
            let patch =
                Patch::Merge(json!({ "spec": { "renewTime": MicroTime(Timestamp::now()) } }));
            // A single lost heartbeat does not matter.
            let _ = leases.patch(name, &PatchParams::default(), &patch).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }))
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    let mut found: Vec<_> = taints
        .map(|taint| {
            format!(
                "{}:{}",
                taint.key.trim_start_matches("node.kubernetes.io/"),
                taint.effect
            )
        })
        .collect();
    found.sort();
    found
}

fn conditions(object: &impl serde::Serialize) -> Vec<(String, String, String)> {
    let value = json!(object);
    let list = value
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .cloned();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.unwrap_or_default()
        .iter()
        .map(|it| (text(&it["type"]), text(&it["status"]), text(&it["reason"])))
        .collect()
}

fn gives(object: &impl serde::Serialize, (type_, status, reason): (&str, &str, &str)) -> bool {
    let wanted = (type_.to_owned(), status.to_owned(), reason.to_owned());
    conditions(object).contains(&wanted)
}

/// A finalizer keeps the pod observable after its deletion.
fn kept(mut pod: Value) -> Value {
    pod["metadata"]["finalizers"] = json!(["example.com/look"]);
    pod
}

fn released() -> Patch<Value> {
    Patch::Merge(json!({ "metadata": { "finalizers": null } }))
}

fn has_condition(object: &impl serde::Serialize, type_: &str, status: &str) -> bool {
    conditions(object)
        .iter()
        .any(|(name, value, _)| name == type_ && value == status)
}

#[tokio::test]
async fn unresponsive_node_is_tainted_and_its_pods_evicted() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("nodes").await?;
    service_account(&cluster, &namespace).await?;
    let manager = Manager::new(cluster.client());
    nodes::start_with(&manager, quick()).await;
    let nodes: Api<Node> = Api::all(cluster.client());
    let pods: Api<Pod> = api(&cluster, &namespace);
    node(&cluster, "well").await?;
    node(&cluster, "silent").await?;
    let _well = beating(&cluster, "well").await?;
    let beating_on = beating(&cluster, "silent").await?;
    let labelled = until(&nodes, "silent", "has the old labels too", |node: &Node| {
        let labels = node.metadata.labels.as_ref();
        labels.is_some_and(|labels| labels.contains_key("beta.kubernetes.io/arch"))
    });
    assert_eq!(
        json!(labelled.await?.metadata.labels)["beta.kubernetes.io/arch"],
        json!("arm64")
    );

    let forever = json!([{ "operator": "Exists" }]);
    let moment = json!([{ "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1 }]);
    for (name, tolerations) in [("stays", forever), ("goes", moment)] {
        let spec = json!({
            "nodeName": "silent",
            "tolerations": tolerations,
            "terminationGracePeriodSeconds": 0,
        });
        create(&pods, kept(pod(name, spec))).await?;
        let status =
            json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        set_status(&pods, name, status).await?;
    }
    assert!(taints(&nodes.get("silent").await?).is_empty());

    beating_on.abort();
    let silent = until(&nodes, "silent", "is unreachable", |node: &Node| {
        taints(node) == ["unreachable:NoExecute", "unreachable:NoSchedule"]
    })
    .await?;
    let ready_says = (
        "Ready".to_owned(),
        "Unknown".to_owned(),
        "NodeStatusUnknown".to_owned(),
    );
    assert!(
        conditions(&silent).contains(&ready_says),
        "{:?}",
        conditions(&silent)
    );
    until(&pods, "stays", "is not ready", |pod: &Pod| {
        has_condition(pod, "Ready", "False")
    })
    .await?;

    // Toleration seconds keep running while no controller does.
    manager.stop().await;
    let manager = Manager::new(cluster.client());
    nodes::start_with(&manager, quick()).await;
    until(&pods, "goes", "is evicted", |pod: &Pod| {
        let why = ("DisruptionTarget", "True", "DeletionByTaintManager");
        pod.metadata.deletion_timestamp.is_some() && gives(pod, why)
    })
    .await?;
    pods.patch("goes", &PatchParams::default(), &released())
        .await?;
    until_gone(&pods, "goes").await?;
    let events: Api<Event> = api(&cluster, &namespace);
    wait_until("the event is emitted", WAIT_TIMEOUT, || async {
        let emitted = events.list(&ListParams::default()).await?.items;
        let emitted = emitted.iter().any(|it| {
            it.reason.as_deref() == Some("TaintManagerEviction")
                && it.message == Some(format!("Marking for deletion Pod {namespace}/goes"))
        });
        Ok(emitted.then_some(()))
    })
    .await?;
    assert!(pods.get_opt("stays").await?.is_some());

    let _again = beating(&cluster, "silent").await?;
    ready(&cluster, "silent").await?;
    until(&nodes, "silent", "is back", |node: &Node| {
        taints(node).is_empty()
    })
    .await?;

    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes
        .patch("well", &PatchParams::default(), &cordon)
        .await?;
    until(&nodes, "well", "is cordoned", |node: &Node| {
        taints(node) == ["unschedulable:NoSchedule"]
    })
    .await?;
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn no_eviction_when_all_nodes_are_down() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let manager = Manager::new(cluster.client());
    nodes::start_with(&manager, quick()).await;
    let nodes: Api<Node> = Api::all(cluster.client());
    node(&cluster, "only").await?;
    let down = until(&nodes, "only", "is unreachable", |node: &Node| {
        has_condition(node, "Ready", "Unknown") && !taints(node).is_empty()
    })
    .await?;
    assert_eq!(taints(&down), ["unreachable:NoSchedule"]);

    // Once another node is healthy, the outage is not the controller's own.
    node(&cluster, "other").await?;
    let _other = beating(&cluster, "other").await?;
    until(&nodes, "only", "drives pods away", |node: &Node| {
        taints(node) == ["unreachable:NoExecute", "unreachable:NoSchedule"]
    })
    .await?;
    manager.stop().await;
    Ok(())
}

#[tokio::test]
async fn pods_of_deleted_nodes_are_deleted() -> anyhow::Result<()> {
    let cluster = TestCluster::start().await?;
    let namespace = cluster.namespace("nodes").await?;
    service_account(&cluster, &namespace).await?;
    let nodes: Api<Node> = Api::all(cluster.client());
    let pods: Api<Pod> = api(&cluster, &namespace);
    for name in ["gone", "here"] {
        node(&cluster, name).await?;
        create(
            &pods,
            kept(pod(&format!("on-{name}"), json!({ "nodeName": name }))),
        )
        .await?;
    }
    nodes.delete("gone", &DeleteParams::default()).await?;
    // It was deleted before the controllers started.
    let manager = Manager::new(cluster.client());
    nodes::start_with(&manager, quick()).await;
    let failed = until(&pods, "on-gone", "is deleted", |pod: &Pod| {
        let why = ("DisruptionTarget", "True", "DeletionByPodGC");
        pod.metadata.deletion_timestamp.is_some() && gives(pod, why)
    })
    .await?;
    assert_eq!(json!(failed.status)["phase"], json!("Failed"));
    pods.patch("on-gone", &PatchParams::default(), &released())
        .await?;
    until_gone(&pods, "on-gone").await?;
    assert!(pods.get_opt("on-here").await?.is_some());
    manager.stop().await;
    Ok(())
}
