//! A component is down for a while: pods are neither lost nor misplaced.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::images::Images;
use crate::stage::{Stage, WAIT_TIMEOUT, gates, pod, why};

#[tokio::test(flavor = "multi_thread")]
async fn gated_pods_are_released_after_restart() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    // Stopped a moment ago, so that its Lease is still fresh.
    stage.rest().await;
    let waiting = stage.pod("arm", &images.name("arm"), json!({})).await?;
    assert_eq!(gates(&waiting), ["medley.dev/placement"]);
    assert!(why(&waiting).starts_with("Waiting: "), "{}", why(&waiting));
    stage.work().await?;
    assert!(stage.lands("arm").await?.starts_with("arm-"));
    // Killed while pods are gated, and restarted.
    stage.rest().await;
    let waiting = stage
        .pod("nested", &images.name("nested"), json!({}))
        .await?;
    assert_eq!(gates(&waiting), ["medley.dev/placement"]);
    stage.work().await?;
    assert!(stage.lands("nested").await?.starts_with("arm-"));
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_policy_applies_while_webhook_is_down() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    let arm = images.name("arm");
    stage.stop_webhook().await;
    let made = stage.pod("made", &arm, json!({})).await?;
    assert_eq!((gates(&made), why(&made)), (Vec::new(), ""));
    stage.start_webhook().await?;
    stage
        .policy("default", json!({ "failurePolicy": "Fail" }))
        .await?;
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(stage.client());
    testkit::until(
        &registrations,
        "medley-placement",
        "fails",
        WAIT_TIMEOUT,
        |it| {
            let checks = it.webhooks.iter().flatten();
            let policies: Vec<_> = checks.map(|it| it.failure_policy.as_deref()).collect();
            policies == [Some("Fail")]
        },
    )
    .await?;
    stage.stop_webhook().await;
    testkit::wait_until("pods are refused", WAIT_TIMEOUT, async || {
        let refused = stage.make(&pod("refused", &arm, &json!({})), true).await?;
        Ok((refused.code == 500).then_some(()))
    })
    .await?;
    // A new webhook, with another certificate.
    stage.start_webhook().await?;
    stage.pod("placed", &arm, json!({})).await?;
    assert!(stage.lands("placed").await?.starts_with("arm-"));
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_webhook_loses_no_pod() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    let arm = images.name("arm");
    // A server that accepts connections and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}/placement", silent.local_addr()?);
    let registrations: Api<MutatingWebhookConfiguration> = Api::all(stage.client());
    let redirect = async |url: &str, policy: &str| {
        let patch = json!([
            { "op": "replace", "path": "/webhooks/0/clientConfig/url", "value": url },
            { "op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 1 },
            { "op": "replace", "path": "/webhooks/0/failurePolicy", "value": policy },
        ]);
        let patch = Patch::<()>::Json(serde_json::from_value(patch)?);
        let params = PatchParams::default();
        registrations
            .patch("medley-placement", &params, &patch)
            .await?;
        anyhow::Ok(())
    };
    redirect(&url, "Ignore").await?;
    testkit::wait_until("pods are made as they are", WAIT_TIMEOUT, async || {
        let made = stage.make(&pod("made", &arm, &json!({})), true).await?;
        Ok((made.code == 201 && made.object["spec"]["schedulingGates"].is_null()).then_some(()))
    })
    .await?;
    redirect(&url, "Fail").await?;
    testkit::wait_until("pods are refused", WAIT_TIMEOUT, async || {
        let refused = stage.make(&pod("refused", &arm, &json!({})), true).await?;
        Ok((refused.code >= 500).then_some(()))
    })
    .await?;
    // The webhook is back, and a retry of the denied pod is placed.
    stage.stop_webhook().await;
    stage.start_webhook().await?;
    stage.pod("refused", &arm, json!({})).await?;
    assert!(stage.lands("refused").await?.starts_with("arm-"));
    stage.end().await;
    Ok(())
}
