//! Helpers for objects: waiting for a state, nodes without a kubelet, and requests of a field
//! manager.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{TestCluster, wait_until};

/// Waits until an object satisfies the condition, and returns it. On timeout the error has its last
/// state.
pub async fn until<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    limit: Duration,
    holds: impl Fn(&K) -> bool,
) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let last = Mutex::new(Value::Null);
    let found = wait_until(&format!("{name}: {what}"), limit, async || {
        let found = api.get_opt(name).await?;
        *last.lock() = json!(found);
        Ok(found.filter(|object| holds(object)))
    })
    .await;
    found.with_context(|| format!("{name} is {:#}", last.lock()))
}

/// Waits until an object is deleted.
pub async fn until_gone<K>(api: &Api<K>, name: &str, limit: Duration) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    wait_until(&format!("{name} is gone"), limit, async || {
        Ok(api.get_opt(name).await?.is_none().then_some(()))
    })
    .await
}

/// Patch parameters of a field manager.
pub fn by(manager: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    }
}

impl TestCluster {
    /// Creates a Linux node with a role and a complete status, in place of a kubelet.
    pub async fn node(&self, name: &str, architecture: &str, role: &str) -> anyhow::Result<()> {
        let node = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": {
                "kubernetes.io/arch": architecture, "kubernetes.io/os": "linux",
                format!("node-role.kubernetes.io/{role}"): "",
            } },
        }))?;
        let nodes: Api<Node> = Api::all(self.client());
        nodes.create(&PostParams::default(), &node).await?;
        let status_patch = json!({ "status": { "nodeInfo": {
            "architecture": architecture, "operatingSystem": "linux", "bootID": "", "machineID": "",
            "systemUUID": "", "kernelVersion": "", "osImage": "", "kubeletVersion": "",
            "containerRuntimeVersion": "", "kubeProxyVersion": "",
        } } });
        nodes
            .patch_status(name, &by("kubelet"), &Patch::Merge(status_patch))
            .await?;
        Ok(())
    }
}
