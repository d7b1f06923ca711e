//! Workloads as people follow and steer them.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, from_value, json};

use super::world::{World, phase, template};

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
    let mut world = World::start().await?;
    world.run_pods();
    let served = world.cluster.serve().await?;
    let kubectl = async |arguments: &[&str]| served.kubectl(&world.namespace, arguments).await;
    world.create::<StatefulSet>(set(2)).await?;
    let said = kubectl(&["rollout", "status", "statefulset/db"]).await?;
    assert!(
        said.contains("partitioned roll out complete: 2 new pods have been updated...\n"),
        "{said}"
    );
    kubectl(&["set", "image", "statefulset/db", "main=example.com/db:2"]).await?;
    let said = kubectl(&["rollout", "status", "statefulset/db"]).await?;
    assert!(said.contains("roll out complete"), "{said}");
    assert_eq!(images(&world.pods().await?), ["example.com/db:2"; 2]);
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
    assert_eq!(images(&world.pods().await?), ["example.com/db:1"; 2]);
    let history = kubectl(&["rollout", "history", "statefulset/db"]).await?;
    assert_eq!(numbers(&history), [2, 3]);

    kubectl(&["scale", "statefulset/db", "--replicas=3"]).await?;
    kubectl(&["rollout", "status", "statefulset/db"]).await?;
    kubectl(&["rollout", "restart", "statefulset/db"]).await?;
    kubectl(&["rollout", "status", "statefulset/db"]).await?;
    assert_eq!(world.pods().await?.len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn drains_a_node_one_pod_after_the_other() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.run_pods();
    let served = world.cluster.serve().await?;
    let nodes: Api<Node> = Api::all(world.cluster.client());
    let node: Node = from_value(json!({ "metadata": { "name": "old" } }))?;
    nodes.create(&PostParams::default(), &node).await?;
    let mut pinned = set(2);
    pinned["spec"]["template"]["spec"]["nodeName"] = json!("old");
    // There is no node that would end pods gracefully.
    pinned["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(0);
    world.create::<StatefulSet>(pinned).await?;
    let budget = json!({
        "metadata": { "name": "db" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "db" } } },
    });
    world.create::<PodDisruptionBudget>(budget).await?;
    world
        .until::<PodDisruptionBudget>("db", "one may go", |budget| {
            budget["status"]["disruptionsAllowed"] == 1 && budget["status"]["currentHealthy"] == 2
        })
        .await?;
    let before = world.pods().await?;
    served
        .kubectl(&world.namespace, &["drain", "old", "--timeout=100s"])
        .await?;
    let after = world.pods().await?;
    for pod in &before {
        let same = after.iter().any(|now| now.metadata.uid == pod.metadata.uid);
        assert!(!same, "{} is still there", pod.name_any());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_jobs_and_waits_for_them() -> anyhow::Result<()> {
    let world = World::start().await?;
    let served = world.cluster.serve().await?;
    let kubectl = async |arguments: &[&str]| served.kubectl(&world.namespace, arguments).await;
    kubectl(&[
        "create",
        "cronjob",
        "nightly",
        "--image=x",
        "--schedule=0 3 * * *",
    ])
    .await?;
    world
        .patch::<CronJob>(
            "nightly",
            json!({ "spec": { "timeZone": "Europe/Vienna" } }),
        )
        .await?;
    kubectl(&["create", "job", "now", "--from=cronjob/nightly"]).await?;
    let pods = world.until_pods("a pod", |pods| pods.len() == 1).await?;
    assert_eq!(phase(&pods[0]), "Pending");
    world.report(&pods[0].name_any(), "Succeeded").await?;
    kubectl(&[
        "wait",
        "--for=condition=complete",
        "job/now",
        "--timeout=60s",
    ])
    .await?;
    let said = kubectl(&["get", "job", "now", "--no-headers"]).await?;
    let words: Vec<&str> = said.split_whitespace().take(3).collect();
    assert_eq!(words, ["now", "Complete", "1/1"]);
    // A job that somebody else made for a CronJob counts as one of its own.
    world
        .until::<CronJob>("nightly", "it has seen the job", |cron| {
            cron["status"]["lastSuccessfulTime"].is_string()
        })
        .await?;
    kubectl(&["delete", "job", "now", "--cascade=orphan", "--wait=false"]).await?;
    world
        .until::<Job>("now", "it is to go", |job| {
            job.is_null() || job["metadata"]["deletionTimestamp"].is_string()
        })
        .await?;
    Ok(())
}
