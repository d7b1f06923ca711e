//! Where nobody else does, Medley keeps the ClusterVersion: in the words of the cluster version operator.

use serde_json::{Value, json};

use crate::stage::{Stage, release, said};

fn entries(status: &Value) -> Vec<String> {
    let all = status["history"].as_array().into_iter().flatten();
    let word = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    all.map(|it| format!("{} {}", word(&it["state"]), word(&it["image"])))
        .collect()
}

/// The seed's test plan, up to the node that joins.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_ends_when_every_operator_that_reports_has() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.version().await?;
    stage.own().await?;
    let status = stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    let single = format!("Completed {}", release("single"));
    assert_eq!(entries(&status), [single.as_str()]);
    let object = json!({ "status": status });
    assert_eq!(said(&object, "Available"), "True : Done applying 4.18.0");
    assert_eq!(said(&object, "Failing"), "False : ");
    assert_eq!(said(&object, "Upgradeable"), "");

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
        said(&json!({ "status": status }), "ReleaseAccepted"),
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

    // What makes no sense is said, and changes nothing.
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
async fn a_restart_in_the_middle_keeps_the_history() -> anyhow::Result<()> {
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
async fn pools_of_workers_are_waited_for_if_they_are_to() -> anyhow::Result<()> {
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
        json!({ "name": "worker", "machines": 3, "updated": 1, "done": false, "message": "1 of 3 machines are updated" })
    );
    stage.pool("worker", 3).await?;
    let status = stage
        .claims("Progressing", "False : Cluster version is 4.18.0")
        .await?;
    assert!(entries(&status)[0].starts_with("Completed"));
    stage.rest().await;
    Ok(())
}

/// Whoever is only to look on has no right to write, and says which it would take.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_nothing_is_kept() -> anyhow::Result<()> {
    let stage = Stage::new().await?;
    stage.version().await?;
    // Once with all rights, so that those to look on are granted and seen.
    stage.work().await?;
    stage.verdict("Complete", "True Arrived").await?;
    stage.rest().await;
    stage.policy(json!({ "mode": "Own" })).await?;
    stage.work_without_rights().await?;
    let status = stage
        .verdict("KeepsClusterVersion", "False Forbidden")
        .await?;
    let said = said(&json!({ "status": status }), "KeepsClusterVersion");
    assert!(
        said.contains("deploy/optional/release-owner.yaml"),
        "{said}"
    );
    let version = json!(stage.api("ClusterVersion").get("version").await?);
    assert_eq!(version["status"], Value::Null);
    stage.rest().await;
    Ok(())
}
