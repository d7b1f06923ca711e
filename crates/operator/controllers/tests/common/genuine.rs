//! The Deployment and the Lease of a genuine operator, whose program does not run.

use anyhow::Context as _;
use api::golden::GoldenImagePolicy;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testkit::{TestCluster, until};

/// The namespace of genuine operators.
const NAMESPACE: &str = "genuine";

/// Creates or scales the Deployment of an operator.
pub(crate) async fn scale(cluster: &TestCluster, name: &str, replicas: u32) -> anyhow::Result<()> {
    namespace(cluster).await?;
    let labels = json!({ "name": name });
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "manager", "image": "registry.example/genuine:1" }] },
            },
        },
    });
    let api: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
    let params = PatchParams::apply("admin").force();
    api.patch(name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}

/// Holds the Lease of an operator for this long.
#[allow(dead_code, reason = "not all suites use it")]
pub(crate) async fn hold(cluster: &TestCluster, name: &str, seconds: u32) -> anyhow::Result<()> {
    namespace(cluster).await?;
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name },
        "spec": {
            "holderIdentity": "genuine_1", "leaseDurationSeconds": seconds,
            "renewTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        },
    });
    let api: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
    let params = PatchParams::apply("admin").force();
    api.patch(name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}

/// Deletes a Lease.
#[allow(dead_code, reason = "not all suites use it")]
pub(crate) async fn release(cluster: &TestCluster, name: &str) -> anyhow::Result<()> {
    let api: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

async fn namespace(cluster: &TestCluster) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
    });
    let api: Api<Namespace> = Api::all(cluster.client());
    let params = PatchParams::apply("admin").force();
    api.patch(NAMESPACE, &params, &Patch::Apply(&object))
        .await?;
    Ok(())
}

/// Waits until a condition of the policy has this status and reason; returns its message.
pub(crate) async fn reported(
    cluster: &TestCluster,
    kind: &str,
    (status, reason): (&str, &str),
) -> anyhow::Result<String> {
    let api: Api<GoldenImagePolicy> = Api::all(cluster.client());
    let message = |policy: &GoldenImagePolicy| {
        let conditions = policy.status.iter().flat_map(|it| &it.conditions);
        let mut found = conditions.filter(|it| it.type_ == kind);
        found
            .find(|it| it.status == status && it.reason == reason)
            .map(|it| it.message.clone())
    };
    let what = format!("{kind} is {status} ({reason})");
    let timeout = std::time::Duration::from_mins(1);
    let found = until(&api, "default", &what, timeout, |it| message(it).is_some()).await?;
    message(&found).context("the condition")
}
