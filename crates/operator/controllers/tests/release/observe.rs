//! Beside a cluster version operator: Medley judges the release, and does not write the ClusterVersion.

use serde_json::{Value, json};
use testkit::has;

use crate::stage::{CVO, Stage, pull};

/// Field managers and resourceVersion of the ClusterVersion.
async fn written(stage: &Stage) -> anyhow::Result<(Vec<String>, Value)> {
    let found = json!(stage.api("ClusterVersion").get("version").await?);
    let entries = found["metadata"]["managedFields"].as_array();
    let managers = entries
        .into_iter()
        .flatten()
        .map(|it| it["manager"].to_string());
    let mut managers: Vec<String> = managers.collect();
    managers.sort();
    managers.dedup();
    Ok((managers, found["metadata"]["resourceVersion"].clone()))
}

/// The original problem: the cluster version operator reports completion at once.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_version_of_another_owner_is_not_written() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.cvo("multi", true).await?;
    let before = written(&stage).await?;
    assert!(before.0.contains(&format!("{CVO:?}")));

    // Without a policy, one is created for the verdict.
    stage.work().await?;
    let status = stage.verdict("Agrees", "False ClaimedEarly").await?;
    let wanted = pull('b');
    let event = stage.wait_for_event("ClaimedEarly").await?;
    let message = event.message.unwrap_or_default();
    has(
        &message,
        &[
            "the cluster version operator claims that 4.18.0 is complete, but it is not",
            &format!("etcd has not reported operator-image {wanted}"),
            &format!("machine-config has not reported operator-image {wanted}"),
        ],
    );
    assert_eq!(status["target"]["startedTime"], "2026-01-02T12:00:00Z");
    assert_eq!(status["target"]["change"], "SingleToMulti");
    assert_eq!(status["progress"]["operators"], 3);
    assert_eq!(status["progress"]["arrived"], 1);
    assert_eq!(status["progress"]["reporting"], 2);
    has(
        &stage.metrics(),
        &[
            "medley_release_claimed_early{} 1.0",
            "medley_release_operators{state=\"updating\"} 2.0",
        ],
    );

    // Only the image of each operator changes, which triggers the reconcile.
    stage.operator("etcd", 'b').await?;
    stage
        .until(
            "ReleasePolicy",
            "default",
            "shows that etcd has arrived",
            |it| it["status"]["progress"]["arrived"] == 2,
        )
        .await?;
    stage.operator("machine-config", 'b').await?;
    let status = stage.verdict("Complete", "True Arrived").await?;
    let agrees = json!({ "status": status });
    assert!(crate::stage::condition_text(&agrees, "Agrees").starts_with("True Agrees"));
    let names: Vec<_> = status["history"].as_array().into_iter().flatten().collect();
    assert_eq!(names.len(), 2, "{status:#}");
    stage.wait_for_event("ReleaseComplete").await?;
    stage.wait_for_event("OperatorArrived").await?;
    has(
        &stage.metrics(),
        &[
            "medley_release_claimed_early{} 0.0",
            "medley_release_complete{} 1.0",
        ],
    );
    assert_eq!(written(&stage).await?, before, "nobody else has written it");
    stage.rest().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_own_is_rejected_beside_another_owner() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.cvo("multi", true).await?;
    let before = written(&stage).await?;
    stage.own().await?;
    let status = stage
        .verdict("KeepsClusterVersion", "False ForeignOwner")
        .await?;
    let text = crate::stage::condition_text(&json!({ "status": status }), "KeepsClusterVersion");
    has(&text, &[CVO, "Medley writes nothing there"]);
    stage.wait_for_event("ForeignOwner").await?;
    // The verdict is still reported.
    stage.verdict("Agrees", "False ClaimedEarly").await?;
    stage.operator("etcd", 'b').await?;
    stage.operator("machine-config", 'b').await?;
    stage.verdict("Complete", "True Arrived").await?;
    assert_eq!(written(&stage).await?, before);
    has(&stage.metrics(), &["medley_release_not_owned{} 1.0"]);
    stage.rest().await;
    Ok(())
}

/// A restart resumes from the status.
#[tokio::test(flavor = "multi_thread")]
async fn restart_resumes_from_status() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.cvo("multi", false).await?;
    stage.work().await?;
    stage.verdict("Complete", "False").await?;
    stage.operator("etcd", 'b').await?;
    let before = stage
        .until(
            "ReleasePolicy",
            "default",
            "knows how long etcd took",
            |it| {
                it["status"]["history"][0]["operator"] == "etcd"
                    && pending_since(it, "machine-config").is_some()
            },
        )
        .await?;
    stage.rest().await;
    stage.work().await?;
    // Another change, to see that the controller runs.
    stage.operator("dns", 'a').await?;
    stage.cvo("multi", true).await?;
    let after = stage.verdict("Agrees", "False ClaimedEarly").await?;
    let after = json!({ "status": after });
    assert_eq!(after["status"]["history"], before["status"]["history"]);
    assert_eq!(
        after["status"]["target"]["startedTime"],
        before["status"]["target"]["startedTime"]
    );
    assert_eq!(
        pending_since(&after, "machine-config"),
        pending_since(&before, "machine-config")
    );
    stage.rest().await;
    Ok(())
}

/// Since when an operator is pending.
fn pending_since(policy: &Value, name: &str) -> Option<String> {
    let rows = policy["status"]["operators"].as_array()?;
    let row = rows.iter().find(|it| it["name"] == name)?;
    row["waitingSince"].as_str().map(str::to_owned)
}
