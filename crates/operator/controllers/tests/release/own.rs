//! Without a cluster version operator, Medley owns the ClusterVersion and writes its messages.

use release_migration::control::OPERATOR;
use serde_json::{Value, json};

use crate::rivals::scale;
use crate::stage::{Stage, condition_text, release};

fn entries(status: &Value) -> Vec<String> {
    let all = status["history"].as_array().into_iter().flatten();
    let word = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    all.map(|it| format!("{} {}", word(&it["state"]), word(&it["image"])))
        .collect()
}

/// The proposal's test plan, up to the node that joins.
#[tokio::test(flavor = "multi_thread")]
async fn migration_completes_when_all_reporting_operators_arrived() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.version().await?;
    stage.own().await?;
    let status = stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    let single = format!("Completed {}", release("single"));
    assert_eq!(entries(&status), [single.as_str()]);
    let object = json!({ "status": status });
    assert_eq!(
        condition_text(&object, "Available"),
        "True : Done applying 4.18.0"
    );
    assert_eq!(condition_text(&object, "Failing"), "False : ");
    assert_eq!(condition_text(&object, "Upgradeable"), "");

    stage
        .ask(json!({ "architecture": "Multi", "version": "4.18.0", "image": "" }))
        .await?;
    let status = stage
        .claims(
            "Progressing",
            "True ClusterOperatorUpdating: Working towards 4.18.0: 1 of 3 done (33% complete), waiting on etcd",
        )
        .await?;
    let multi = format!("Partial {}", release("multi"));
    assert_eq!(entries(&status), [multi.as_str(), single.as_str()]);
    assert_eq!(status["desired"]["architecture"], "Multi");
    assert_eq!(status["observedGeneration"], 2);
    assert_eq!(
        condition_text(&json!({ "status": status }), "ReleaseAccepted"),
        format!(
            "True PayloadLoaded: Payload loaded version=\"4.18.0\" image={:?} architecture=\"Multi\"",
            release("multi")
        )
    );

    stage.operator("etcd", 'b').await?;
    stage
        .claims(
            "Progressing",
            "True ClusterOperatorUpdating: Working towards 4.18.0: 2 of 3 done (66% complete), waiting on machine-config",
        )
        .await?;
    stage.operator("machine-config", 'b').await?;
    let status = stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    let multi = format!("Completed {}", release("multi"));
    assert_eq!(entries(&status), [multi.as_str(), single.as_str()]);
    assert!(status["history"][0]["completionTime"].is_string());
    stage.verdict("Complete", "True Arrived").await?;
    stage.verdict("KeepsClusterVersion", "True Own").await?;

    // Invalid requests are reported, and change nothing.
    stage
        .ask(json!({ "architecture": null, "version": "4.19.0" }))
        .await?;
    stage
        .claims(
            "Invalid",
            "True InvalidClusterVersion: The cluster version is invalid: spec.desiredUpdate.version: Invalid value: \"4.19.0\": when image is empty the update must be an available update",
        )
        .await?;
    let status = stage
        .claims(
            "Progressing",
            "False InvalidClusterVersion: Stopped at 4.18.0: the cluster version is invalid",
        )
        .await?;
    assert_eq!(entries(&status).len(), 2);
    stage.rest().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_during_migration_keeps_history() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.version().await?;
    stage.own().await?;
    stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    stage.ask(json!({ "image": release("multi") })).await?;
    stage.operator("etcd", 'b').await?;
    let waiting = "True ClusterOperatorUpdating: Working towards 4.18.0: 2 of 3 done (66% complete), waiting on machine-config";
    let before = stage.claims("Progressing", waiting).await?;
    stage.rest().await;
    stage.own().await?;
    stage.operator("machine-config", 'b').await?;
    let after = stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    assert_eq!(entries(&after).len(), 2);
    assert_eq!(
        after["history"][0]["startedTime"],
        before["history"][0]["startedTime"]
    );
    assert_eq!(after["history"][1], before["history"][1]);
    stage.rest().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_pools_are_waited_for_if_configured() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.version().await?;
    stage.pool("master", 3).await?;
    stage.pool("worker", 3).await?;
    stage
        .policy(json!({ "mode": "Own", "workerPools": "Require" }))
        .await?;
    stage.own().await?;
    stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    stage.pool("worker", 1).await?;
    stage.ask(json!({ "image": release("multi") })).await?;
    stage.operator("etcd", 'b').await?;
    stage.operator("machine-config", 'b').await?;
    let status = stage
        .claims(
            "Progressing",
            "True MachineConfigPoolUpdating: Working towards 4.18.0: 3 of 3 done (100% complete), waiting on machine config pool worker",
        )
        .await?;
    assert!(entries(&status)[0].starts_with("Partial"));
    let status = stage
        .verdict("Complete", "False MachineConfigPoolUpdating")
        .await?;
    assert_eq!(
        status["pools"][1],
        json!({ "name": "worker", "machines": 3, "updated": 1, "done": false, "message": "1 of 3 nodes are updated" })
    );
    stage.pool("worker", 3).await?;
    let status = stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    assert!(entries(&status)[0].starts_with("Completed"));
    stage.rest().await;
    Ok(())
}

/// In mode Observe there is no permission to write; the policy reports which one is missing.
#[tokio::test(flavor = "multi_thread")]
async fn missing_permission_is_reported() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.version().await?;
    // Once with all permissions, so that those for observing are granted and effective.
    stage.work().await?;
    // No cluster version operator reports that it has applied every manifest.
    stage.verdict("Complete", "False ManifestsUpdating").await?;
    stage.rest().await;
    stage.policy(json!({ "mode": "Own" })).await?;
    stage.work_without_rights().await?;
    let status = stage
        .verdict("KeepsClusterVersion", "False Forbidden")
        .await?;
    let text = condition_text(&json!({ "status": status }), "KeepsClusterVersion");
    assert!(
        text.contains("deploy/optional/release-owner.yaml"),
        "{text}"
    );
    let version = json!(stage.api("ClusterVersion").get("version").await?);
    assert_eq!(version["status"], Value::Null);
    stage.rest().await;
    Ok(())
}

/// The operator runs, and has not written anything yet: its first write would meet ours.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_version_is_not_owned_beside_its_operator() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    let operator = ("openshift-cluster-version", OPERATOR.deployment);
    scale(&stage.client(), operator, 1).await?;
    stage.version().await?;
    stage.policy(json!({ "mode": "Own" })).await?;
    stage.own().await?;
    let status = stage
        .verdict("KeepsClusterVersion", "False ForeignOwner")
        .await?;
    let text = condition_text(&json!({ "status": status }), "KeepsClusterVersion");
    assert!(
        text.contains(
            "the cluster version operator runs (Deployment openshift-cluster-version/cluster-version-operator)"
        ),
        "{text}"
    );
    let version = json!(stage.api("ClusterVersion").get("version").await?);
    assert_eq!(version["status"], Value::Null);
    // It is removed: no restart is needed.
    scale(&stage.client(), operator, 0).await?;
    stage.verdict("KeepsClusterVersion", "True Own").await?;
    stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    stage.rest().await;
    Ok(())
}
