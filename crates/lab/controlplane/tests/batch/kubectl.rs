//! Workloads as users follow and control them with kubectl.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, from_value, json};

use super::fixture::{Fixture, phase, template};

fn set(replicas: i32) -> Value {
    json!({
        "metadata": { "name": "db" },
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": { "matchLabels": { "app": "db" } },
            "template": template(&json!({ "app": "db" }), "example.com/db:1", "Always"),
        },
    })
}

fn images(pods: &[Pod]) -> Vec<&str> {
    let containers = pods
        .iter()
        .filter_map(|pod| pod.spec.as_ref()?.containers.first());
    containers
        .filter_map(|container| container.image.as_deref())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rolls_stateful_sets_out_and_back() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    let served = fixture.cluster.serve().await?;
    let kubectl = async |arguments: &[&str]| served.kubectl(&fixture.namespace, arguments).await;
    fixture.create::<StatefulSet>(set(2)).await?;
    let output = kubectl(&["rollout", "status", "statefulset/db"]).await?;
    assert!(
        output.contains("partitioned roll out complete: 2 new pods have been updated...\n"),
        "{output}"
    );
    kubectl(&["set", "image", "statefulset/db", "main=example.com/db:2"]).await?;
    let output = kubectl(&["rollout", "status", "statefulset/db"]).await?;
    assert!(output.contains("roll out complete"), "{output}");
    assert_eq!(images(&fixture.pods().await?), ["example.com/db:2"; 2]);
    let history = kubectl(&["rollout", "history", "statefulset/db"]).await?;
    let numbers = |history: &str| -> Vec<u32> {
        let words = history
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    assert_eq!(numbers(&history), [1, 2]);

    kubectl(&["rollout", "undo", "statefulset/db"]).await?;
    kubectl(&["rollout", "status", "statefulset/db"]).await?;
    assert_eq!(images(&fixture.pods().await?), ["example.com/db:1"; 2]);
    let history = kubectl(&["rollout", "history", "statefulset/db"]).await?;
    assert_eq!(numbers(&history), [2, 3]);

    kubectl(&["scale", "statefulset/db", "--replicas=3"]).await?;
    kubectl(&["rollout", "status", "statefulset/db"]).await?;
    kubectl(&["rollout", "restart", "statefulset/db"]).await?;
    kubectl(&["rollout", "status", "statefulset/db"]).await?;
    assert_eq!(fixture.pods().await?.len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn drains_a_node_one_pod_after_the_other() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    let served = fixture.cluster.serve().await?;
    let nodes: Api<Node> = Api::all(fixture.cluster.client());
    let node: Node = from_value(json!({ "metadata": { "name": "old" } }))?;
    nodes.create(&PostParams::default(), &node).await?;
    let mut pinned = set(2);
    pinned["spec"]["template"]["spec"]["nodeName"] = json!("old");
    // There is no kubelet that would terminate pods gracefully.
    pinned["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(0);
    fixture.create::<StatefulSet>(pinned).await?;
    let budget = json!({
        "metadata": { "name": "db" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "db" } } },
    });
    fixture.create::<PodDisruptionBudget>(budget).await?;
    fixture
        .until::<PodDisruptionBudget>("db", "one may go", |budget| {
            budget["status"]["disruptionsAllowed"] == 1 && budget["status"]["currentHealthy"] == 2
        })
        .await?;
    let before = fixture.pods().await?;
    served
        .kubectl(&fixture.namespace, &["drain", "old", "--timeout=100s"])
        .await?;
    let after = fixture.pods().await?;
    for pod in &before {
        let same = after.iter().any(|now| now.metadata.uid == pod.metadata.uid);
        assert!(!same, "{} is still there", pod.name_any());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_jobs_and_waits_for_them() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let served = fixture.cluster.serve().await?;
    let kubectl = async |arguments: &[&str]| served.kubectl(&fixture.namespace, arguments).await;
    kubectl(&[
        "create",
        "cronjob",
        "nightly",
        "--image=x",
        "--schedule=0 3 * * *",
    ])
    .await?;
    fixture
        .patch::<CronJob>(
            "nightly",
            json!({ "spec": { "timeZone": "Europe/Vienna" } }),
        )
        .await?;
    kubectl(&["create", "job", "now", "--from=cronjob/nightly"]).await?;
    let pods = fixture.until_pods("a pod", |pods| pods.len() == 1).await?;
    assert_eq!(phase(&pods[0]), "Pending");
    fixture.report(&pods[0].name_any(), "Succeeded").await?;
    kubectl(&[
        "wait",
        "--for=condition=complete",
        "job/now",
        "--timeout=60s",
    ])
    .await?;
    let output = kubectl(&["get", "job", "now", "--no-headers"]).await?;
    let words: Vec<&str> = output.split_whitespace().take(3).collect();
    assert_eq!(words, ["now", "Complete", "1/1"]);
    // A Job that another client created for a CronJob counts as its own.
    fixture
        .until::<CronJob>("nightly", "it has seen the job", |cron| {
            cron["status"]["lastSuccessfulTime"].is_string()
        })
        .await?;
    kubectl(&["delete", "job", "now", "--cascade=orphan", "--wait=false"]).await?;
    fixture
        .until::<Job>("now", "it is to go", |job| {
            job.is_null() || job["metadata"]["deletionTimestamp"].is_string()
        })
        .await?;
    Ok(())
}
