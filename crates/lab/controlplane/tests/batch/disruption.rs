//! Disruption budgets on a cluster.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::EvictParams;
use serde_json::{Value, json};

use super::fixture::{Fixture, template};

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
async fn evictions_respect_the_budget() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    let mut set = workload(3);
    set["spec"]["serviceName"] = json!("web");
    fixture.create::<StatefulSet>(set).await?;
    fixture
        .create::<PodDisruptionBudget>(budget(json!({ "maxUnavailable": "34%" })))
        .await?;
    let ready = fixture
        .until::<PodDisruptionBudget>("web", "all are healthy", |budget| {
            numbers(budget) == [3, 1, 3, 2]
        })
        .await?;
    let condition = &ready["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionAllowed");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "SufficientPods");

    fixture
        .patch::<PodDisruptionBudget>("web", json!({ "spec": { "maxUnavailable": 1 } }))
        .await?;
    fixture
        .until::<PodDisruptionBudget>("web", "one may go", |budget| {
            numbers(budget) == [3, 2, 3, 1]
        })
        .await?;
    let pods: Api<Pod> = fixture.api();
    pods.evict("web-1", &EvictParams::default()).await?;
    fixture
        .until::<PodDisruptionBudget>("web", "it is back", |budget| {
            numbers(budget) == [3, 2, 3, 1] && budget["status"]["disruptedPods"].is_null()
        })
        .await?;

    fixture
        .patch::<PodDisruptionBudget>("web", json!({ "spec": { "maxUnavailable": 0 } }))
        .await?;
    let tight = fixture
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
async fn expected_pods_come_from_the_deployment() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture.run_pods();
    fixture.create::<Deployment>(workload(4)).await?;
    fixture
        .create::<PodDisruptionBudget>(budget(json!({ "minAvailable": "50%" })))
        .await?;
    fixture
        .until::<PodDisruptionBudget>("web", "half may go", |budget| {
            numbers(budget) == [4, 2, 4, 2]
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn pods_without_scale_allow_no_disruption() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let job = json!({
        "metadata": { "name": "work" },
        "spec": { "template": template(&json!({ "app": "web" }), "x", "Never") },
    });
    fixture.create::<Job>(job).await?;
    fixture
        .until_pods("one pod", |pods| pods.len() == 1)
        .await?;
    fixture
        .create::<PodDisruptionBudget>(budget(json!({ "maxUnavailable": 1 })))
        .await?;
    let failed = fixture
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
