//! Rollouts as users follow and control them with kubectl.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use serde_json::json;

use super::daemon_sets::{add_node, daemon_set};
use super::stage::{Stage, deployment, images};

/// The revisions that `kubectl rollout history` lists.
fn revisions(history: &str) -> Vec<&str> {
    let words = history
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words.filter(|word| word.parse::<u32>().is_ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    let served = stage.cluster.serve().await?;
    let kubectl = async |arguments: &[&str]| served.kubectl(&stage.namespace, arguments).await;
    let mut object = deployment("web", 3);
    object["metadata"]["annotations"] = json!({ "kubernetes.io/change-cause": "first" });
    stage.create::<Deployment>(object).await?;

    let output = kubectl(&["rollout", "status", "deployment/web"]).await?;
    assert!(
        output.ends_with("deployment \"web\" successfully rolled out\n"),
        "{output}"
    );

    kubectl(&["set", "image", "deployment/web", "main=example.com/web:2"]).await?;
    kubectl(&[
        "annotate",
        "deployment/web",
        "kubernetes.io/change-cause=second",
        "--overwrite",
    ])
    .await?;
    kubectl(&["rollout", "status", "deployment/web"]).await?;
    let output = kubectl(&["rollout", "history", "deployment/web"]).await?;
    let lines: Vec<Vec<&str>> = output
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        lines.contains(&vec!["1", "first"]) && lines.contains(&vec!["2", "second"]),
        "{output}"
    );

    kubectl(&["rollout", "undo", "deployment/web"]).await?;
    kubectl(&["rollout", "status", "deployment/web"]).await?;
    let pods = stage.until_pods(3).await?;
    assert_eq!(images(&pods), ["example.com/web:1"; 3]);
    let output = kubectl(&["rollout", "history", "deployment/web"]).await?;
    assert_eq!(revisions(&output), ["2", "3"]);

    kubectl(&["rollout", "pause", "deployment/web"]).await?;
    kubectl(&["rollout", "restart", "deployment/web"])
        .await
        .expect_err("it is paused");
    kubectl(&["rollout", "resume", "deployment/web"]).await?;
    kubectl(&["rollout", "restart", "deployment/web"]).await?;
    kubectl(&["rollout", "status", "deployment/web"]).await?;
    assert_eq!(stage.sets().await?.len(), 3);

    kubectl(&["scale", "deployment/web", "--replicas=1"]).await?;
    kubectl(&["rollout", "status", "deployment/web"]).await?;
    stage.until_pods(1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_sets() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    let served = stage.cluster.serve().await?;
    let kubectl = async |arguments: &[&str]| served.kubectl(&stage.namespace, arguments).await;
    add_node(&stage, "a", "worker").await?;
    add_node(&stage, "b", "worker").await?;
    stage.create::<DaemonSet>(daemon_set("agent")).await?;
    let output = kubectl(&["rollout", "status", "daemonset/agent"]).await?;
    assert!(
        output.ends_with("daemon set \"agent\" successfully rolled out\n"),
        "{output}"
    );

    kubectl(&[
        "set",
        "image",
        "daemonset/agent",
        "main=example.com/agent:2",
    ])
    .await?;
    kubectl(&["rollout", "status", "daemonset/agent"]).await?;
    let output = kubectl(&["rollout", "history", "daemonset/agent"]).await?;
    assert_eq!(revisions(&output), ["1", "2"]);

    kubectl(&["rollout", "undo", "daemonset/agent"]).await?;
    kubectl(&["rollout", "status", "daemonset/agent"]).await?;
    let pods = stage.until_pods(2).await?;
    assert_eq!(images(&pods), ["example.com/agent:1"; 2]);
    let output = kubectl(&["rollout", "history", "daemonset/agent"]).await?;
    assert_eq!(revisions(&output), ["2", "3"]);

    kubectl(&["rollout", "restart", "daemonset/agent"]).await?;
    kubectl(&["rollout", "status", "daemonset/agent"]).await?;
    Ok(())
}
