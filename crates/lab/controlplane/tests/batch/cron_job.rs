//! CronJobs on a cluster.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::fixture::{Fixture, phase, template};

fn cron(schedule: &str) -> Value {
    json!({
        "metadata": { "name": "tick" },
        "spec": {
            "schedule": schedule,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": { "spec": { "template": template(&json!({}), "x", "Never") } },
        },
    })
}

#[tokio::test]
async fn starts_jobs_and_records_their_outcome() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    let created = fixture.create::<CronJob>(cron("@every 1s")).await?;
    let started = fixture
        .until::<CronJob>("tick", "a job is started", |cron| {
            cron["status"]["active"][0]["name"].is_string()
        })
        .await?;
    assert!(started["status"]["lastScheduleTime"].is_string());
    let name = started["status"]["active"][0]["name"]
        .as_str()
        .unwrap_or_default();
    let job = fixture.api::<Job>().get(name).await?;
    assert_eq!(
        job.owner_references().first().map(|owner| &owner.uid),
        created.metadata.uid.as_ref()
    );
    assert!(
        job.annotations()
            .contains_key("batch.kubernetes.io/cronjob-scheduled-timestamp")
    );
    fixture.crash();
    fixture.resume().await?;
    let pods = fixture
        .until_pods("a pod", |pods| {
            pods.iter().any(|pod| phase(pod) == "Pending")
        })
        .await?;
    let of_job = pods.iter().find(|pod| pod.name_any().starts_with(name));
    let pod = of_job.map(kube::ResourceExt::name_any).unwrap_or_default();
    fixture.report(&pod, "Succeeded").await?;
    fixture
        .until::<CronJob>("tick", "it has seen the end", |cron| {
            cron["status"]["lastSuccessfulTime"].is_string()
        })
        .await?;
    fixture.until_event("tick", "SawCompletedJob").await?;
    Ok(())
}

#[tokio::test]
async fn suspended_cron_job_starts_nothing() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    let mut suspended = cron("@every 1s");
    suspended["spec"]["suspend"] = json!(true);
    fixture.create::<CronJob>(suspended).await?;
    let mut other = cron("@every 1s");
    other["metadata"]["name"] = json!("tock");
    fixture.create::<CronJob>(other).await?;
    // The other one, created later, has started: this one would have, too.
    fixture
        .until::<CronJob>("tock", "it has started", |cron| {
            cron["status"]["lastScheduleTime"].is_string()
        })
        .await?;
    let jobs = fixture.api::<Job>().list(&ListParams::default()).await?;
    assert!(jobs.iter().all(|job| job.name_any().starts_with("tock-")));
    Ok(())
}
