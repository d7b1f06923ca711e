//! Endpoints, nodes and storage on a real API server.

#[path = "infrastructure/network.rs"]
mod network;
#[path = "infrastructure/nodes.rs"]
mod nodes;
#[path = "infrastructure/storage.rs"]
mod storage;

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use runtime::Manager;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::TestCluster;

/// Generous: test hosts are loaded.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Objects of one namespace.
fn api<K>(cluster: &TestCluster, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(cluster.client(), namespace)
}

/// Creates an object from a manifest.
async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}

/// Patches the status of an object, as a kubelet does.
async fn set_status<K>(api: &Api<K>, name: &str, status: Value) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned,
{
    let patch = Patch::Strategic(json!({ "status": status }));
    Ok(api
        .patch_status(name, &PatchParams::default(), &patch)
        .await?)
}

/// Waits until an object satisfies the condition, and returns it.
async fn until<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    is: impl Fn(&K) -> bool,
) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    testkit::until(api, name, what, WAIT_TIMEOUT, is).await
}

/// Waits until an object is deleted.
async fn until_gone<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    testkit::until_gone(api, name, WAIT_TIMEOUT).await
}

/// A pod without a kubelet. kube-apiserver requires the service account it names.
fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": {
            "containers": [{ "name": "c", "image": "i", "ports": [{ "name": "http", "containerPort": 8080 }] }],
            "automountServiceAccountToken": false,
        },
    });
    if let Value::Object(fields) = spec {
        for (key, field) in fields {
            pod["spec"][key] = field;
        }
    }
    pod
}

/// The service account of every pod.
async fn service_account(cluster: &TestCluster, namespace: &str) -> anyhow::Result<()> {
    let api: Api<k8s_openapi::api::core::v1::ServiceAccount> = api(cluster, namespace);
    if cluster.has_controllers() {
        until(&api, "default", "is there", |_| true).await?;
    } else {
        create(&api, json!({ "metadata": { "name": "default" } })).await?;
    }
    Ok(())
}

/// Controllers: ours, or on an upstream control plane its own, as the reference.
struct Controllers<F> {
    cluster: TestCluster,
    manager: Option<Manager>,
    start: F,
}

impl<F: AsyncFn(&Manager)> Controllers<F> {
    /// Starts a server and controllers.
    async fn start(start: F) -> anyhow::Result<Self> {
        let cluster = TestCluster::controlled().await?;
        let mut controllers = Self {
            cluster,
            manager: None,
            start,
        };
        controllers.resume().await;
        Ok(controllers)
    }

    /// Stops the controllers. The next ones start without their in-memory state.
    async fn stop(&mut self) {
        if let Some(manager) = self.manager.take() {
            manager.stop().await;
        }
    }

    /// Starts the controllers again.
    async fn resume(&mut self) {
        if !self.cluster.has_controllers() {
            let manager = Manager::new(self.cluster.client());
            (self.start)(&manager).await;
            self.manager = Some(manager);
        }
    }
}
