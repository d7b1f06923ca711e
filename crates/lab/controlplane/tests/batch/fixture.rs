//! A cluster with a namespace and our controllers, in which the test sets the status of pods.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};
use testkit::{TestCluster, wait_until};
use tokio::task::JoinHandle;

use crate::controllers::Controllers;

/// The upstream controllers of these workloads.
const GENUINE: &str = "statefulset-controller,job-controller,cronjob-controller,\
    ttl-after-finished-controller,disruption-controller,replicaset-controller,\
    deployment-controller";
/// Timeout of each wait.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
{
}

pub(crate) struct Fixture {
    pub(crate) cluster: TestCluster,
    pub(crate) namespace: String,
    controllers: Option<Controllers>,
    kubelet: Option<JoinHandle<()>>,
}

impl Fixture {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let namespace = cluster.namespace("batch").await?;
        let mut fixture = Self {
            cluster,
            namespace,
            controllers: None,
            kubelet: None,
        };
        fixture.resume().await?;
        Ok(fixture)
    }

    /// Restarts the controllers.
    pub(crate) async fn resume(&mut self) -> anyhow::Result<()> {
        self.controllers = Some(Controllers::start(&self.cluster, GENUINE).await?);
        Ok(())
    }

    /// Kills the controllers at any await point, like `kill -9`.
    pub(crate) fn crash(&mut self) {
        // This is the last handle of the manager: dropping it ends its tasks at their current
        // await.
        drop(self.controllers.take());
    }

    pub(crate) fn api<K: Object>(&self) -> Api<K> {
        Api::namespaced(self.cluster.client(), &self.namespace)
    }

    pub(crate) async fn create<K: Object>(&self, object: Value) -> anyhow::Result<K> {
        let object: K = from_value(object)?;
        let created = self.api().create(&PostParams::default(), &object).await;
        created.with_context(|| format!("creating {}", object.name_any()))
    }

    pub(crate) async fn patch<K: Object>(&self, name: &str, patch: Value) -> anyhow::Result<K> {
        let api: Api<K> = self.api();
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        patched.with_context(|| format!("patching {name}"))
    }

    /// Waits until an object satisfies the condition.
    pub(crate) async fn until<K: Object>(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let api: Api<K> = self.api();
        let last = std::cell::RefCell::new(Value::Null);
        let found = wait_until(what, WAIT_TIMEOUT, async || {
            let object = serde_json::to_value(api.get_opt(name).await?)?;
            *last.borrow_mut() = object.clone();
            Ok(holds(&object).then_some(object))
        })
        .await;
        found.with_context(|| format!("{name} is {:#}", last.borrow()))
    }

    /// Waits until the pods, sorted by name, satisfy the condition.
    pub(crate) async fn until_pods(
        &self,
        what: &str,
        holds: impl Fn(&[Pod]) -> bool,
    ) -> anyhow::Result<Vec<Pod>> {
        let seen = std::cell::RefCell::new(Vec::new());
        let found = wait_until(what, WAIT_TIMEOUT, async || {
            let pods = self.pods().await?;
            *seen.borrow_mut() = pods.iter().map(summary).collect();
            Ok(holds(&pods).then_some(pods))
        })
        .await;
        found.with_context(|| format!("the pods are {:?}", seen.borrow()))
    }

    pub(crate) async fn pods(&self) -> anyhow::Result<Vec<Pod>> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await?;
        Ok(pods.items)
    }

    /// Waits for an event about an object.
    pub(crate) async fn until_event(&self, about: &str, reason: &str) -> anyhow::Result<String> {
        let api: Api<Event> = self.api();
        wait_until(
            &format!("{reason} about {about}"),
            WAIT_TIMEOUT,
            async || {
                let events = api.list(&ListParams::default()).await?;
                let found = events.items.into_iter().find(|event| {
                    event.involved_object.name.as_deref() == Some(about)
                        && event.reason.as_deref() == Some(reason)
                });
                Ok(found.map(|event| event.message.unwrap_or_default()))
            },
        )
        .await
    }

    /// Sets the status of a pod.
    pub(crate) async fn report(&self, pod: &str, phase: &str) -> anyhow::Result<()> {
        report(&self.api(), pod, phase).await
    }

    /// Marks every created pod as running and ready, from now on.
    pub(crate) fn run_pods(&mut self) {
        let api: Api<Pod> = self.api();
        self.kubelet = Some(tokio::spawn(async move {
            loop {
                let pods = api.list(&ListParams::default()).await;
                for pod in pods
                    .into_iter()
                    .flatten()
                    .filter(|pod| phase(pod) == "Pending")
                {
                    // Pods may be deleted meanwhile.
                    let _ = report(&api, &pod.name_any(), "Running").await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }));
    }

    pub(crate) async fn delete<K: Object>(&self, name: &str) -> anyhow::Result<()> {
        let api: Api<K> = self.api();
        api.delete(name, &DeleteParams::background()).await?;
        Ok(())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(kubelet) = self.kubelet.take() {
            kubelet.abort();
        }
    }
}

async fn report(api: &Api<Pod>, pod: &str, phase: &str) -> anyhow::Result<()> {
    let ready = if phase == "Running" { "True" } else { "False" };
    let exit_code = i32::from(phase == "Failed");
    let state = if phase == "Running" {
        json!({ "running": {} })
    } else {
        json!({ "terminated": { "exitCode": exit_code, "finishedAt": "2026-01-01T00:00:00Z" } })
    };
    let status = json!({ "status": {
        "phase": phase,
        "conditions": [{
            "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "containerStatuses": [{
            "name": "main", "image": "x", "imageID": "x", "ready": phase == "Running",
            "restartCount": 0, "state": state,
        }],
    } });
    api.patch_status(pod, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .with_context(|| format!("reporting {phase} about {pod}"))?;
    Ok(())
}

pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

pub(crate) fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(ResourceExt::name_any).collect()
}

fn summary(pod: &Pod) -> String {
    let leaving = if pod.metadata.deletion_timestamp.is_some() {
        ", leaving"
    } else {
        ""
    };
    format!("{} {}{leaving}", pod.name_any(), phase(pod))
}

/// A pod template of one container, `main`.
pub(crate) fn template(labels: &Value, image: &str, restart: &str) -> Value {
    json!({
        "metadata": { "labels": labels },
        "spec": {
            "restartPolicy": restart,
            "containers": [{ "name": "main", "image": image }],
        },
    })
}
