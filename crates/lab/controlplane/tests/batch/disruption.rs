//! Disruption budgets on a cluster.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::EvictParams;
use serde_json::{Value, json};

use super::world::{World, template};

fn workload(replicas: i32) -> Value {
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": template(&json!({ "app": "web" }), "x", "Always"),
        },
    })
}

fn budget(spec: Value) -> Value {
    let mut whole = json!({ "selector": { "matchLabels": { "app": "web" } } });
    if let Value::Object(fields) = spec {
        for (key, value) in fields {
            whole[key] = value;
        }
    }
    json!({ "metadata": { "name": "web" }, "spec": whole })
}

fn numbers(budget: &Value) -> [i64; 4] {
    let status = &budget["status"];
    [
        "expectedPods",
        "desiredHealthy",
        "currentHealthy",
        "disruptionsAllowed",
    ]
    .map(|field| status[field].as_i64().unwrap_or(-1))
}

#[tokio::test]
async fn evictions_go_as_far_as_the_budget() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.run_pods();
    let mut set = workload(3);
    set["spec"]["serviceName"] = json!("web");
    world.create::<StatefulSet>(set).await?;
    world
        .create::<PodDisruptionBudget>(budget(json!({ "maxUnavailable": "34%" })))
        .await?;
    let ready = world
        .until::<PodDisruptionBudget>("web", "all are healthy", |budget| {
            numbers(budget) == [3, 1, 3, 2]
        })
        .await?;
    let condition = &ready["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionAllowed");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "SufficientPods");

    world
        .patch::<PodDisruptionBudget>("web", json!({ "spec": { "maxUnavailable": 1 } }))
        .await?;
    world
        .until::<PodDisruptionBudget>("web", "one may go", |budget| {
            numbers(budget) == [3, 2, 3, 1]
        })
        .await?;
    let pods: Api<Pod> = world.api();
    pods.evict("web-1", &EvictParams::default()).await?;
    world
        .until::<PodDisruptionBudget>("web", "it is back", |budget| {
            numbers(budget) == [3, 2, 3, 1] && budget["status"]["disruptedPods"].is_null()
        })
        .await?;

    world
        .patch::<PodDisruptionBudget>("web", json!({ "spec": { "maxUnavailable": 0 } }))
        .await?;
    let tight = world
        .until::<PodDisruptionBudget>("web", "none may go", |budget| {
            numbers(budget) == [3, 3, 3, 0]
        })
        .await?;
    assert_eq!(
        tight["status"]["conditions"][0]["reason"],
        "InsufficientPods"
    );
    let refused = pods.evict("web-1", &EvictParams::default()).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 429),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_deployment_is_asked_how_many_pods_there_should_be() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.run_pods();
    world.create::<Deployment>(workload(4)).await?;
    world
        .create::<PodDisruptionBudget>(budget(json!({ "minAvailable": "50%" })))
        .await?;
    world
        .until::<PodDisruptionBudget>("web", "half may go", |budget| {
            numbers(budget) == [4, 2, 4, 2]
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn what_has_no_scale_lets_nothing_go() -> anyhow::Result<()> {
    let world = World::start().await?;
    let job = json!({
        "metadata": { "name": "work" },
        "spec": { "template": template(&json!({ "app": "web" }), "x", "Never") },
    });
    world.create::<Job>(job).await?;
    world.until_pods("one pod", |pods| pods.len() == 1).await?;
    world
        .create::<PodDisruptionBudget>(budget(json!({ "maxUnavailable": 1 })))
        .await?;
    let failed = world
        .until::<PodDisruptionBudget>("web", "it says so", |budget| {
            budget["status"]["conditions"][0]["reason"] == "SyncFailed"
        })
        .await?;
    assert_eq!(
        failed["status"]["conditions"][0]["message"],
        "jobs.batch does not implement the scale subresource"
    );
    assert_eq!(failed["status"]["disruptionsAllowed"], 0);
    Ok(())
}
