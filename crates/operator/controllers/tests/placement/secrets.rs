//! Which pull secrets images are inspected with, under the RBAC that goes with each mode.

use api::placement::PlacementPolicy;
use base64::Engine as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use manifests::PullSecrets;
use serde_json::json;
use testkit::{PASSWORD, USERNAME, wait_until};

use crate::images::Images;
use crate::stage::{Stage, WAIT_TIMEOUT, gates, why};

const CONDITION: &str = "PullSecretsReadable";

/// Creates a pull secret for the registry.
async fn secret(stage: &Stage, images: &Images, namespace: &str, name: &str) -> anyhow::Result<()> {
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("{USERNAME}:{PASSWORD}"));
    let auths = json!({ "auths": { images.registry.host(): { "auth": auth } } });
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": name }, "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": auths.to_string() },
    }))?;
    let api: Api<Secret> = Api::namespaced(stage.client(), namespace);
    api.create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// Waits until the condition of the policy `default` has this status; returns its message.
async fn condition_message(stage: &Stage, wanted: &str) -> anyhow::Result<String> {
    let api: Api<PlacementPolicy> = Api::all(stage.client());
    wait_until(&format!("{CONDITION}={wanted}"), WAIT_TIMEOUT, async || {
        let status = api.get("default").await?.status.unwrap_or_default();
        let mut found = status.conditions.into_iter();
        let found = found.find(|it| it.type_ == CONDITION);
        let found = found.filter(|it| format!("{} {}", it.status, it.reason) == wanted);
        Ok(found.map(|it| it.message))
    })
    .await
}

/// Creates a pod and waits until it is released although its image was not inspected.
async fn released_uninspected(stage: &Stage, name: &str, image: &str) -> anyhow::Result<()> {
    let with = json!({ "imagePullSecrets": [{ "name": "own" }] });
    stage.pod(name, image, with).await?;
    let goes = stage
        .until(name, "goes", |pod| gates(pod).is_empty())
        .await?;
    let why = why(&goes);
    assert!(why.starts_with("ImageNotInspected: "), "{why}");
    assert!(!why.contains(PASSWORD), "{why}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn named_secrets_are_read_without_access_to_all_secrets() -> anyhow::Result<()> {
    let images = Images::private().await?;
    let stage = Stage::idle(&[&images.registry.host()]).await?;
    let vault = stage.cluster.namespace("vault").await?;
    secret(&stage, &images, &vault, "inspect").await?;
    // The pod's own secret would work, but is not read.
    secret(&stage, &images, &stage.namespace, "own").await?;
    let named: PullSecrets = format!("{vault}/inspect")
        .parse()
        .map_err(anyhow::Error::msg)?;
    let pull_secrets =
        json!({ "mode": "Named", "named": [{ "namespace": vault, "name": "inspect" }] });
    stage
        .policy("default", json!({ "pullSecrets": pull_secrets }))
        .await?;
    stage.work_as_installed(named, false).await?;
    condition_message(&stage, "True Readable").await?;
    let arm = images.name("arm");
    stage.pod("named", &arm, json!({})).await?;
    assert!(stage.lands("named").await?.starts_with("arm-"));

    // With mode None, the image is left to the node, and no Secret is read.
    stage
        .policy("default", json!({ "pullSecrets": { "mode": "None" } }))
        .await?;
    condition_message(&stage, "True NotRead").await?;
    released_uninspected(&stage, "none", &images.name("both")).await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_pull_secrets_are_reported_and_gate_no_pod() -> anyhow::Result<()> {
    let images = Images::private().await?;
    let stage = Stage::idle(&[&images.registry.host()]).await?;
    secret(&stage, &images, &stage.namespace, "own").await?;
    stage.policy("default", json!({})).await?;
    stage.work_as_installed(PullSecrets::None, true).await?;
    released_uninspected(&stage, "pods", &images.name("arm")).await?;
    let message = condition_message(&stage, "False Forbidden").await?;
    assert!(
        message.contains("secrets \"own\" is forbidden") && message.contains("--pull-secrets pods"),
        "{message}"
    );
    // A policy that names a secret without a Role reports that before the first pod.
    let named =
        json!({ "mode": "Named", "named": [{ "namespace": stage.namespace, "name": "own" }] });
    stage
        .policy("default", json!({ "pullSecrets": named }))
        .await?;
    wait_until("the remedy is another", WAIT_TIMEOUT, async || {
        let message = condition_message(&stage, "False Forbidden").await?;
        Ok(message
            .contains("--pull-secrets NAMESPACE/NAME")
            .then_some(()))
    })
    .await?;
    stage.end().await;
    Ok(())
}
