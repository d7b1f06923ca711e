//! Beside the multiarch-tuning-operator: who places pods is reported, and a pod that was gated before a hand-over leaves the
//! gate.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::DeleteParams;
use placement::multiarch::REGISTRATION;
use placement::ownership::OPERATOR;
use serde_json::{Value, json};
use testkit::wait_until;

use crate::images::Images;
use crate::rivals::scale;
use crate::stage::{Stage, WAIT_TIMEOUT, apply, gates, pod};

impl Stage {
    /// Waits for the condition `Managing` of the policy `default` with this text in its message; returns the message.
    async fn managing(&self, expected: &str, text: &str) -> anyhow::Result<String> {
        let policies: Api<api::placement::PlacementPolicy> = Api::all(self.client());
        wait_until(expected, WAIT_TIMEOUT, async || {
            let policy = policies.get("default").await?;
            let conditions = policy.status.map(|it| it.conditions).unwrap_or_default();
            let mut found = conditions.into_iter().filter(|it| it.type_ == "Managing");
            let is_it = |it: &Condition| {
                format!("{} {}", it.status, it.reason) == expected && it.message.contains(text)
            };
            Ok(found.find(is_it).map(|it| it.message))
        })
        .await
    }

    /// Waits until a new pod would be gated, or would not, and whether its creator would be warned.
    async fn new_pods_are(&self, images: &Images, gated: bool) -> anyhow::Result<()> {
        let round = std::cell::Cell::new(0);
        wait_until("new pods are admitted so", WAIT_TIMEOUT, async || {
            round.set(round.get() + 1);
            let image = images.push_unknown(&format!("probe-{gated}-{}", round.get()))?;
            let made = self.make(&pod("probe", &image, &json!({})), true).await?;
            Ok((made.object["spec"]["schedulingGates"].is_array() == gated).then_some(()))
        })
        .await
    }
}

/// As the operator registers its webhook, for all namespaces. Nothing answers, and its failure policy is Ignore.
fn registration() -> Value {
    json!({
        "metadata": { "name": REGISTRATION },
        "webhooks": [{
            "name": "pod-placement-scheduling-gate.multiarch.openshift.io",
            "clientConfig": { "url": "https://127.0.0.1:1/add-pod-scheduling-gate" },
            "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
        }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_of_placement_is_reported_and_stands_alone() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    stage.policy("default", json!({})).await?;
    stage.managing("True Managing", "").await?;
    stage.new_pods_are(&images, true).await?;

    let registrations: Api<MutatingWebhookConfiguration> = Api::all(stage.client());
    let controller = ("tuning", OPERATOR.deployment);
    scale(&stage.client(), controller, 1).await?;
    apply(&registrations, registration()).await?;
    let message = stage.managing("False UpstreamOperatorRuns", "").await?;
    assert!(
        message.contains("Deployment tuning/pod-placement-controller"),
        "{message}"
    );
    stage.new_pods_are(&images, false).await?;

    // It is gone, and has left its webhook behind.
    scale(&stage.client(), controller, 0).await?;
    let message = stage.managing("False UpstreamOperatorStopped", "").await?;
    assert!(
        message.contains(&format!("MutatingWebhookConfiguration {REGISTRATION}")),
        "{message}"
    );
    registrations
        .delete(REGISTRATION, &DeleteParams::default())
        .await?;
    stage.managing("True Managing", "").await?;
    stage.new_pods_are(&images, true).await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn handed_back_placement_leaves_no_pod_at_the_gate() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    stage
        .policy("default", json!({ "onNoMatch": "Hold" }))
        .await?;
    stage.new_pods_are(&images, true).await?;
    // No node runs it, so that it is held.
    stage
        .pod("held", &images.name("mainframe"), json!({}))
        .await?;
    stage
        .until("held", "is held", |pod| {
            pod.status.iter().any(|it| it.conditions.is_some()) && !gates(pod).is_empty()
        })
        .await?;
    for mode in ["Assist", "Off"] {
        stage
            .policy(
                "default",
                json!({ "onNoMatch": "Hold", "operatorMode": mode }),
            )
            .await?;
        let text = format!("operatorMode {mode}");
        stage.managing("False SetByPolicy", &text).await?;
        stage.new_pods_are(&images, false).await?;
        let released = stage
            .until("held", "is released", |pod| gates(pod).is_empty())
            .await?;
        // It still lands on no node that cannot run it.
        assert!(json!(released.spec).to_string().contains("s390x"));
    }
    stage
        .policy("default", json!({ "operatorMode": "Auto" }))
        .await?;
    stage.managing("True Managing", "").await?;
    stage.new_pods_are(&images, true).await?;
    stage.end().await;
    Ok(())
}
