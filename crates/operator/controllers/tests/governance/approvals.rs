//! A plan that needs two approvals, with the webhook that records them.

use std::net::{Ipv4Addr, SocketAddr};

use api::advisor::{Phase, VirtPlatformConfig, names};
use governance::roles::APPROVER;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::wait_until;

use crate::stage::{LOAD_AWARE, NAMESPACE, Stage, WAIT_TIMEOUT, condition, item};

/// The configurations, through the client of an approver.
fn as_user(stage: &Stage, user: &str) -> anyhow::Result<Api<VirtPlatformConfig>> {
    let groups = [APPROVER, "system:authenticated"];
    Ok(Api::all(stage.cluster.client_as(user, &groups)?))
}

async fn patch(configs: &Api<VirtPlatformConfig>, patch: Value) -> anyhow::Result<()> {
    let params = PatchParams::default();
    configs
        .patch(LOAD_AWARE, &params, &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// A cluster with the webhook, and approvers.
async fn guarded() -> anyhow::Result<(std::sync::Arc<Stage>, webhook::WebhookServer)> {
    let stage = Stage::quiet().await?;
    let group = "rbac.authorization.k8s.io";
    let binding = serde_json::from_value(json!({
        "metadata": { "name": "approvers" },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": APPROVER },
        "subjects": [{ "apiGroup": group, "kind": "Group", "name": APPROVER }],
    }))?;
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.cluster.client());
    bindings.create(&PostParams::default(), &binding).await?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let check = webhook::start(stage.cluster.client(), any, &webhook::Webhooks::default()).await?;
    let probe = as_user(&stage, "probe")?;
    wait_until("the API server asks the check", WAIT_TIMEOUT, async || {
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let change = json!({ "spec": { "options": { "loadAware": { "deschedulingIntervalSeconds": 900 } } } });
        let answer = probe.patch(LOAD_AWARE, &params, &Patch::Merge(change)).await;
        Ok(answer.ok().and_then(|config| config.annotations().get(names::AUTHORS).cloned()))
    })
    .await?;
    Ok((stage, check))
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_runs_after_two_approvals_besides_author() -> anyhow::Result<()> {
    let (stage, check) = guarded().await?;
    let ann = as_user(&stage, "ann")?;
    patch(
        &ann,
        json!({ "spec": {
            "action": "DryRun",
            "approvalPolicy": { "requiredApprovals": { "high": 2 } },
            "options": { "loadAware": { "deschedulingIntervalSeconds": 1800 } },
        } }),
    )
    .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let digest = status.plan_digest.unwrap_or_default();
    patch(&ann, json!({ "spec": { "action": "Apply" } })).await?;
    let withheld = async |have: &str| {
        let expected = format!("needs 2 approvals (spec.approvalPolicy), and has {have}");
        stage
            .until(&expected, LOAD_AWARE, |status| {
                let (approved, reason, message) = condition(status, "Approved");
                status.phase == Some(Phase::ReviewRequired)
                    && (approved.as_str(), reason.as_str()) == ("False", "TooFewApprovals")
                    && message.contains(&expected)
            })
            .await
    };
    // The author's approval is recorded, but does not count.
    withheld("0").await?;
    let approve = json!({ "metadata": { "annotations": { names::APPROVE: digest } } });
    patch(&ann, approve.clone()).await?;
    withheld("0").await?;
    patch(&as_user(&stage, "bob")?, approve.clone()).await?;
    withheld("1").await?;
    // A second approval of the same user does not count.
    patch(&as_user(&stage, "bob")?, approve.clone()).await?;
    withheld("1").await?;
    assert!(!stage.has_machine_config("99-worker-psi-karg").await?);
    patch(&as_user(&stage, "cat")?, approve).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::InProgress).await?;
    assert_eq!(
        condition(&status, "Approved").2,
        "The plan is approved by bob, cat"
    );
    wait_until("the item is carried out", WAIT_TIMEOUT, async || {
        Ok(stage
            .has_machine_config("99-worker-psi-karg")
            .await?
            .then_some(()))
    })
    .await?;
    stage.rolled_out("99-worker-psi-karg", 10, 10).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    assert!(item(&status, "enable-psi-metrics").message.is_some());
    let client = stage.cluster.client();
    let records = controllers::governance::history::records(&client, NAMESPACE, LOAD_AWARE).await?;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].approved_by, ["bob", "cat"]);
    check.stop().await;
    Ok(())
}
