//! Repair of states that cannot occur while the webhook is registered, and clusters where KubeVirt is installed later.
//! Without simulation: the tests write the objects as KubeVirt would.

use api::kubevirt::{VirtualMachineInstance, labels};
use cpu_models::names::BEST_MATCH_MODEL;
use fleet::operators;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::{Reply, WebhookServer, wait_until};

use crate::stage::{KUBEVIRT, Stage, WAIT_TIMEOUT, model};

impl Stage {
    /// Two nodes, and an instance on one of them that was handed over without a model.
    async fn hand_over(&self) -> anyhow::Result<VirtualMachineInstance> {
        operators::install(&self.client(), &KUBEVIRT).await?;
        for name in ["a", "b"] {
            let node: Node = serde_json::from_value(json!({
                "metadata": { "name": name, "labels": {
                    "kubevirt.io/schedulable": "true",
                    "cpu-vendor.node.kubevirt.io/AMD": "true",
                    "cpu-model.node.kubevirt.io/EPYC-Rome": "true",
                } },
            }))?;
            self.nodes().create(&PostParams::default(), &node).await?;
            self.patch_node(name, json!({ "spec": { "taints": null } }))
                .await?;
        }
        let instance = serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": { "name": "early" },
            "spec": { "domain": { "cpu": { "model": BEST_MATCH_MODEL } } },
            "status": { "phase": "Scheduled", "nodeName": "a" },
        }))?;
        let instances = self.all::<VirtualMachineInstance>();
        Ok(instances.create(&PostParams::default(), &instance).await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_without_model_is_repaired() -> anyhow::Result<()> {
    let stage = Stage::bare().await?;
    stage.hand_over().await?;
    stage.work().await?;
    stage.start_webhook().await?;
    let repaired = stage
        .instance("early", "has a model", |it| model(it) == "EPYC-Rome")
        .await?;
    assert_eq!(repaired.annotations()["medley.dev/cpu-model"], "EPYC-Rome");
    assert_eq!(repaired.annotations()["medley.dev/cpu-model-node"], "a");
    stage.wait_for_event("early", "CpuModelRepaired").await?;
    stage.rest().await;
    stage.stop_webhook().await;
    Ok(())
}

/// KubeVirt's own webhook allows only KubeVirt to change the spec of an instance.
#[tokio::test(flavor = "multi_thread")]
async fn instance_that_cannot_be_changed_is_replaced() -> anyhow::Result<()> {
    let stage = Stage::bare().await?;
    let instance = stage.hand_over().await?;
    let uid = instance.uid().unwrap_or_default();
    let launcher: Pod = serde_json::from_value(json!({
        "metadata": { "name": "launcher", "labels": {
            labels::APP: "virt-launcher", labels::CREATED_BY: uid,
        } },
        "spec": { "nodeName": "a", "containers": [{ "name": "compute", "image": "a" }] },
    }))?;
    let pods = stage.all::<Pod>();
    pods.create(&PostParams::default(), &launcher).await?;
    let kubevirt = WebhookServer::start(|_, request| {
        if request["object"]["spec"] == request["oldObject"]["spec"] {
            Reply::allow()
        } else {
            Reply::deny("update of VMI object is restricted")
        }
    })
    .await?;
    let checks: Api<ValidatingWebhookConfiguration> = Api::all(stage.client());
    let check = serde_json::from_value(json!({
        "metadata": { "name": "virt-api-validator" },
        "webhooks": [{
            "name": "virtualmachineinstances-update-validator.kubevirt.io",
            "clientConfig": kubevirt.client_config("/update"),
            "rules": [{
                "apiGroups": ["kubevirt.io"], "apiVersions": ["v1"],
                "resources": ["virtualmachineinstances"], "operations": ["UPDATE"],
            }],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    }))?;
    checks.create(&PostParams::default(), &check).await?;
    stage.start_webhook().await?;
    wait_until("KubeVirt checks", WAIT_TIMEOUT, async || {
        let dry_run = kube::api::PatchParams {
            dry_run: true,
            ..kube::api::PatchParams::default()
        };
        let patch = kube::api::Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
        let instances = stage.all::<VirtualMachineInstance>();
        let refused = instances.patch("early", &dry_run, &patch).await.is_err();
        Ok(refused.then_some(()))
    })
    .await?;
    stage.work().await?;
    stage.wait_for_event("early", "LauncherRemoved").await?;
    wait_until("its launcher goes", WAIT_TIMEOUT, async || {
        let left = pods.get_opt("launcher").await?;
        let goes = left.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
        Ok(goes.then_some(()))
    })
    .await?;
    stage.rest().await;
    stage.stop_webhook().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubevirt_installed_later_is_picked_up() -> anyhow::Result<()> {
    let stage = Stage::bare().await?;
    stage.policy(json!({})).await?;
    stage.work().await?;
    let ready = |it: &Value, status: &str, reason: &str| {
        let conditions = it["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions = conditions.into_iter();
        let ready = conditions
            .find(|it| it["type"] == "Ready")
            .unwrap_or_default();
        ready["status"] == status && ready["reason"] == reason
    };
    let absent = |it: &Value| ready(it, "False", "KubeVirtNotInstalled");
    stage.status("there is no KubeVirt", absent).await?;
    operators::install(&stage.client(), &KUBEVIRT).await?;
    let there = |it: &Value| ready(it, "True", "Choosing");
    stage.status("there is one", there).await?;
    stage.rest().await;
    Ok(())
}
