//! The descheduler's operator and the controllers that run its Deployment, where a test runs neither.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::by;

const NAMESPACE: &str = "openshift-kube-descheduler-operator";
const OPERAND: &str = "descheduler";
/// On the pod template of the Deployment: the generation of the KubeDescheduler.
const GENERATION: &str = "kubedeschedulers.operator.openshift.io/cluster";
/// On nodes where KubeVirt runs VMs.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";
const CONDITION: &str = "TargetConfigControllerDegraded";
/// Tests wait for much longer than this.
const INTERVAL: Duration = Duration::from_millis(100);

/// Plays a part of the descheduler's cluster until it is dropped.
pub struct DeschedulerPlayer {
    task: AbortHandle,
}

impl DeschedulerPlayer {
    /// Accepts every KubeDescheduler, as its operator does, and runs its Deployment.
    pub fn accepting(client: Client) -> Self {
        Self::play(client, true)
    }

    /// Runs the Deployment that an operator writes, in place of kube-controller-manager and a kubelet, and labels nodes as
    /// KubeVirt does: without, the operator rejects profiles that move VMs.
    pub fn running(client: Client) -> Self {
        Self::play(client, false)
    }

    fn play(client: Client, accepts: bool) -> Self {
        let task = async move {
            loop {
                // An error is a kind that is not served yet, or a write that came in between: the next round repeats it.
                if accepts {
                    let _ = accept(&client).await;
                }
                let _ = run(&client).await;
                tokio::time::sleep(INTERVAL).await;
            }
        };
        let task = tokio::spawn(task).abort_handle();
        Self { task }
    }
}

impl Drop for DeschedulerPlayer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn objects(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// Writes the Deployment of the current generation, and the condition.
async fn accept(client: &Client) -> Result<(), kube::Error> {
    let deschedulers = objects(client, "operator.openshift.io", "KubeDescheduler");
    let Some(live) = deschedulers.get_opt("cluster").await? else {
        return Ok(());
    };
    let operator = by("descheduler-operator");
    let generation = live.metadata.generation.unwrap_or_default().to_string();
    let deployments = objects(client, "apps", "Deployment");
    let written = deployments.get_opt(OPERAND).await?;
    let written = written
        .map(|it| it.data["spec"]["template"]["metadata"]["annotations"][GENERATION].clone());
    if written != Some(json!(generation)) {
        let labels = json!({ "app": OPERAND });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": OPERAND },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels, "annotations": { GENERATION: generation } },
                    "spec": { "containers": [{ "name": OPERAND, "image": OPERAND }] },
                },
            },
        });
        deployments
            .patch(
                OPERAND,
                &operator.clone().force(),
                &Patch::Apply(deployment),
            )
            .await?;
    }
    if live.data["status"]["conditions"].is_null() {
        let condition = json!({
            "type": CONDITION, "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = json!({ "status": { "conditions": [condition] } });
        deschedulers
            .patch_status("cluster", &operator, &Patch::Merge(status))
            .await?;
    }
    Ok(())
}

/// Labels nodes, and reports that the Deployment is available.
async fn run(client: &Client) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let unlabelled = ListParams::default().labels(&format!("!{SCHEDULABLE}"));
    for node in nodes.list(&unlabelled).await? {
        let patch = json!({ "metadata": { "labels": { SCHEDULABLE: "true" } } });
        let handler = by("virt-handler");
        nodes
            .patch(&node.name_any(), &handler, &Patch::Merge(patch))
            .await?;
    }
    let deployments = objects(client, "apps", "Deployment");
    let Some(live) = deployments.get_opt(OPERAND).await? else {
        return Ok(());
    };
    let generation = json!(live.metadata.generation);
    if live.data["status"]["observedGeneration"] == generation {
        return Ok(());
    }
    let time = "2026-01-01T00:00:00Z";
    let replicas: &Value = &live.data["spec"]["replicas"];
    let condition = json!({
        "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
        "message": "Deployment has minimum availability.",
        "lastTransitionTime": time, "lastUpdateTime": time,
    });
    let status = json!({ "status": {
        "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas, "conditions": [condition],
    } });
    let name = live.name_any();
    deployments
        .patch_status(&name, &by("kube-controller-manager"), &Patch::Merge(status))
        .await?;
    Ok(())
}
