//! Nodes that restart for a rollout of ours are not remediated.

use std::sync::Arc;

use api::advisor::{ItemState, Phase};
use fleet::operators::node_health_check;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::wait_until;

use crate::stage::{LOAD_AWARE, Stage, WAIT_TIMEOUT, states};

const PSI: &str = "99-worker-psi-karg";
const OURS: &str = "medley: load-aware-rebalancing is rolling out a MachineConfig";

fn checks(stage: &Stage) -> Api<DynamicObject> {
    Api::all_with(stage.cluster.client(), &node_health_check())
}

async fn create(stage: &Stage, name: &str, requests: Value) -> anyhow::Result<()> {
    let check = serde_json::from_value(json!({
        "apiVersion": "remediation.medik8s.io/v1alpha1",
        "kind": "NodeHealthCheck",
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "node-role.kubernetes.io/worker": "" } },
            "minHealthy": "51%",
            "pauseRequests": requests,
            "remediationTemplate": { "kind": "FenceAgentsRemediationTemplate", "name": "any" },
        },
    }))?;
    let params = PostParams::default();
    checks(stage).create(&params, &check).await?;
    Ok(())
}

/// Waits until a check has exactly these pause requests.
async fn has_pause_requests(stage: &Stage, name: &str, expected: Value) -> anyhow::Result<()> {
    let what = format!("the requests of {name} are {expected}");
    wait_until(&what, WAIT_TIMEOUT, async || {
        let check = checks(stage).get(name).await?;
        let requests = check.data.pointer("/spec/pauseRequests");
        let requests = requests.cloned().unwrap_or_default();
        Ok((requests == expected).then_some(()))
    })
    .await
}

/// A cluster with a check paused by another client, and nodes that restart for our rollout.
async fn rolling_out() -> anyhow::Result<Arc<Stage>> {
    let stage = Stage::quiet().await?;
    create(&stage, "theirs", json!(["upgrade"])).await?;
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage
        .until("the first item waits for its pool", LOAD_AWARE, |status| {
            status.phase == Some(Phase::InProgress)
                && states(status) == [ItemState::InProgress, ItemState::Pending]
        })
        .await?;
    has_pause_requests(&stage, "theirs", json!(["upgrade", OURS])).await?;
    Ok(stage)
}

/// The rollout ends while the operator is down: the next process removes the pause requests.
#[tokio::test(flavor = "multi_thread")]
async fn remediation_pauses_while_nodes_restart_for_us() -> anyhow::Result<()> {
    let stage = rolling_out().await?;
    // A check created meanwhile is paused, too.
    create(&stage, "new", Value::Null).await?;
    has_pause_requests(&stage, "new", json!([OURS])).await?;
    stage.stop().await;
    stage.rolled_out(PSI, 10, 10).await?;
    stage.operator("v0.1.30").await?;
    stage.reaches(LOAD_AWARE, Phase::Completed).await?;
    has_pause_requests(&stage, "theirs", json!(["upgrade"])).await?;
    has_pause_requests(&stage, "new", Value::Null).await?;
    let events: Api<Event> = Api::all(stage.cluster.client());
    for reason in ["RemediationPaused", "RemediationResumed"] {
        wait_until(reason, WAIT_TIMEOUT, async || {
            let listed = events.list(&ListParams::default()).await?;
            let mut listed = listed.items.iter();
            Ok(listed.find_map(|event| {
                let about = event.involved_object.name.as_deref() == Some(LOAD_AWARE);
                (about && event.reason.as_deref() == Some(reason)).then(|| event.name_any())
            }))
        })
        .await?;
    }
    Ok(())
}

/// The plan ends in the middle of the rollout, which goes on.
#[tokio::test(flavor = "multi_thread")]
async fn remediation_stays_paused_while_pools_roll() -> anyhow::Result<()> {
    let stage = rolling_out().await?;
    stage.rolled_out(PSI, 3, 10).await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "Ignore" }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Ignored).await?;
    // A check that is created now shows that the controller has seen the new phase: it is not paused any more.
    create(&stage, "new", json!(["by hand"])).await?;
    stage.rolled_out(PSI, 7, 10).await?;
    has_pause_requests(&stage, "theirs", json!(["upgrade", OURS])).await?;
    has_pause_requests(&stage, "new", json!(["by hand"])).await?;
    stage.rolled_out(PSI, 10, 10).await?;
    has_pause_requests(&stage, "theirs", json!(["upgrade"])).await?;
    has_pause_requests(&stage, "new", json!(["by hand"])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn remediation_resumes_when_a_rollout_is_given_up() -> anyhow::Result<()> {
    let stage = rolling_out().await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "Ignore" }))
        .await?;
    has_pause_requests(&stage, "theirs", json!(["upgrade"])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn remediation_resumes_when_the_configuration_is_deleted() -> anyhow::Result<()> {
    let stage = rolling_out().await?;
    let params = DeleteParams::default();
    stage.configs().delete(LOAD_AWARE, &params).await?;
    has_pause_requests(&stage, "theirs", json!(["upgrade"])).await
}
