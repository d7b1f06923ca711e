//! A cluster with the controllers of workloads, and a task in place of kubelets.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{TestCluster, wait_until};
use tokio::task::JoinHandle;

use crate::controllers::Controllers;

/// Longer than any step takes on a loaded host.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// The upstream controllers of these workloads.
const GENUINE: &str = "replicaset-controller,deployment-controller,daemonset-controller";

pub(crate) struct Stage {
    pub(crate) cluster: TestCluster,
    pub(crate) namespace: String,
    controllers: Option<Controllers>,
    kubelet: Option<JoinHandle<()>>,
}

impl Stage {
    /// A cluster with controllers, in which pods stay as created.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = TestCluster::start().await?;
        let namespace = cluster.namespace("rollout").await?;
        let mut stage = Self {
            cluster,
            namespace,
            controllers: None,
            kubelet: None,
        };
        stage.start_controllers().await?;
        Ok(stage)
    }

    pub(crate) async fn start_controllers(&mut self) -> anyhow::Result<()> {
        self.controllers = Some(Controllers::start(&self.cluster, GENUINE).await?);
        Ok(())
    }

    /// Kills the controllers at any await point, like a crash.
    pub(crate) fn kill_controllers(&mut self) {
        self.controllers = None;
    }

    /// Whether the controllers are upstream's.
    pub(crate) fn has_genuine_controllers(&self) -> bool {
        matches!(self.controllers, Some(Controllers::Genuine { .. }))
    }

    /// From now on pods become ready soon after their creation, on their target node if they have
    /// one, and terminate soon after their deletion.
    pub(crate) fn keep_running(&mut self) {
        let pods = self.api::<Pod>();
        self.kubelet = Some(tokio::spawn(async move {
            loop {
                let list = pods.list(&ListParams::default()).await;
                for pod in list.into_iter().flatten() {
                    // It may be deleted by now.
                    let _ = run(&pods, &pod).await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }));
    }

    pub(crate) fn stop_running(&mut self) {
        if let Some(kubelet) = self.kubelet.take() {
            kubelet.abort();
        }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), &self.namespace)
    }

    pub(crate) async fn create<K>(&self, object: Value) -> anyhow::Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object)?;
        let created = self.api().create(&PostParams::default(), &object).await;
        created.context("creating an object of a test")
    }

    pub(crate) async fn patch<K>(&self, name: &str, change: Value) -> anyhow::Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let patched = self
            .api()
            .patch(name, &PatchParams::default(), &Patch::Merge(&change))
            .await;
        patched.with_context(|| format!("patching {name} with {change}"))
    }

    /// Waits until an object satisfies the condition.
    pub(crate) async fn until<K>(
        &self,
        what: &str,
        name: &str,
        fine: impl Fn(&K) -> bool,
    ) -> anyhow::Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        testkit::until(&self.api::<K>(), name, what, WAIT_TIMEOUT, fine).await
    }

    /// Waits until the rollout of a deployment's current generation is complete.
    pub(crate) async fn rolled_out(&self, name: &str) -> anyhow::Result<Deployment> {
        self.until("the deployment is rolled out", name, |it: &Deployment| {
            let (Some(spec), Some(status)) = (&it.spec, &it.status) else {
                return false;
            };
            let all = |count: Option<i32>| count.unwrap_or_default() == spec.replicas.unwrap_or(1);
            status.observed_generation == it.metadata.generation
                && all(status.replicas)
                && all(status.updated_replicas)
                && all(status.available_replicas)
        })
        .await
    }

    /// Pods that are not being deleted, by name.
    pub(crate) async fn pods(&self) -> anyhow::Result<Vec<Pod>> {
        let mut pods = self.api::<Pod>().list(&ListParams::default()).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(Pod::name_any);
        Ok(pods)
    }

    /// Waits until there is this number of pods.
    pub(crate) async fn until_pods(&self, count: usize) -> anyhow::Result<Vec<Pod>> {
        wait_until(&format!("there are {count} pods"), WAIT_TIMEOUT, || async {
            Ok(Some(self.pods().await?).filter(|pods| pods.len() == count))
        })
        .await
    }

    /// ReplicaSets, oldest revision first.
    pub(crate) async fn sets(&self) -> anyhow::Result<Vec<ReplicaSet>> {
        let mut sets = self
            .api::<ReplicaSet>()
            .list(&ListParams::default())
            .await?
            .items;
        sets.sort_by_key(|set| revision(set).parse::<i64>().unwrap_or_default());
        Ok(sets)
    }

    /// Waits for an event about an object.
    pub(crate) async fn until_event(
        &self,
        about: &str,
        reason: &str,
        message_part: &str,
    ) -> anyhow::Result<Event> {
        let what = format!("event {reason} about {about}: {message_part}");
        let events = self.api::<Event>();
        let events = &events;
        wait_until(&what, WAIT_TIMEOUT, || async move {
            let list = events.list(&ListParams::default()).await?;
            Ok(list.items.into_iter().find(|event| {
                event.involved_object.name.as_deref() == Some(about)
                    && event.reason.as_deref() == Some(reason)
                    && event
                        .message
                        .as_deref()
                        .is_some_and(|it| it.contains(message_part))
            }))
        })
        .await
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop_running();
    }
}

/// The revision annotation of a deployment or a set.
pub(crate) fn revision<K: Resource>(object: &K) -> String {
    let annotations = object.annotations();
    let noted = annotations.get("deployment.kubernetes.io/revision");
    noted.cloned().unwrap_or_default()
}

/// The images of the first containers of pods.
pub(crate) fn images(pods: &[Pod]) -> Vec<String> {
    let image = |pod: &Pod| pod.spec.as_ref()?.containers.first()?.image.clone();
    pods.iter().filter_map(image).collect()
}

/// Acts as scheduler and kubelet for a pod.
async fn run(pods: &Api<Pod>, pod: &Pod) -> anyhow::Result<()> {
    let name = pod.name_any();
    let status = pod.status.as_ref();
    let assigned = pod
        .spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some());
    if pod.metadata.deletion_timestamp.is_some() {
        pods.delete(&name, &DeleteParams::default().grace_period(0))
            .await?;
        return Ok(());
    }
    if let Some(node) = target(pod).filter(|_| !assigned) {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": name },
            "target": { "kind": "Node", "name": node },
        });
        let _: Value = pods
            .create_subresource("binding", &name, &PostParams::default(), &binding)
            .await?;
    }
    if status.is_some_and(|status| status.phase.as_deref() == Some("Pending")) {
        say_running(pods, &name).await?;
    }
    Ok(())
}

/// The node that a pod is pinned to.
pub(crate) fn target(pod: &Pod) -> Option<String> {
    let affinity = pod
        .spec
        .as_ref()?
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let term = required.node_selector_terms.first()?;
    let field = term.match_fields.as_ref()?.first()?.clone();
    assert_eq!(
        (field.key.as_str(), field.operator.as_str()),
        ("metadata.name", "In")
    );
    field.values?.first().cloned()
}

/// Marks a pod as running and ready.
pub(crate) async fn say_running(pods: &Api<Pod>, name: &str) -> anyhow::Result<Pod> {
    let since = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let status = json!({ "status": {
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": since }],
    }});
    let patched = pods
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await;
    patched.with_context(|| format!("saying that pod {name} runs"))
}

/// A pod template with one container.
pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": image }] },
    })
}

/// A deployment with this name, and labels derived from it.
pub(crate) fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": template(name, "example.com/web:1"),
        },
    })
}
