//! Jobs on a cluster.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::fixture::{Fixture, phase, template};

const TRACKING: &str = "batch.kubernetes.io/job-tracking";

fn job(spec: Value) -> Value {
    let mut whole = json!({ "template": template(&json!({}), "x", "Never") });
    if let Value::Object(fields) = spec {
        for (key, value) in fields {
            whole[key] = value;
        }
    }
    json!({ "metadata": { "name": "work" }, "spec": whole })
}

fn holds(job: &Value, type_: &str) -> bool {
    condition(job, type_).is_some_and(|condition| condition["status"] == "True")
}

fn condition<'a>(job: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = job["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == type_)
}

fn active(pods: &[Pod]) -> Vec<&Pod> {
    pods.iter()
        .filter(|pod| matches!(phase(pod), "Pending" | "Running"))
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .collect()
}

async fn end_active(fixture: &Fixture, many: usize, as_what: &str) -> anyhow::Result<()> {
    let what = format!("{many} active pods");
    let pods = fixture
        .until_pods(&what, |pods| active(pods).len() == many)
        .await?;
    for pod in active(&pods) {
        fixture.report(&pod.name_any(), as_what).await?;
    }
    Ok(())
}

async fn until_over(fixture: &Fixture, type_: &str) -> anyhow::Result<Value> {
    fixture
        .until::<Job>("work", type_, |job| holds(job, type_))
        .await
}

#[tokio::test]
async fn runs_pods_until_enough_have_succeeded() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({ "completions": 3, "parallelism": 2 })))
        .await?;
    let running = fixture
        .until::<Job>("work", "two active", |job| job["status"]["active"] == 2)
        .await?;
    assert!(running["status"]["startTime"].is_string());
    let pods = fixture.until_pods("two", |pods| pods.len() == 2).await?;
    for pod in &pods {
        assert_eq!(pod.finalizers(), [TRACKING]);
    }
    end_active(&fixture, 2, "Succeeded").await?;
    end_active(&fixture, 1, "Succeeded").await?;
    let done = until_over(&fixture, "Complete").await?;
    let status = &done["status"];
    assert_eq!(status["succeeded"], 3);
    assert_eq!(status["ready"], 0);
    assert_eq!(status["terminating"], 0);
    assert!(status["active"].is_null());
    assert!(status["completionTime"].is_string());
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    for type_ in ["SuccessCriteriaMet", "Complete"] {
        let why = condition(&done, type_).unwrap_or(&Value::Null);
        assert_eq!(why["reason"], "CompletionsReached", "{type_}");
        assert_eq!(why["message"], "Reached expected number of succeeded pods");
    }
    let pods = fixture.pods().await?;
    assert!(pods.iter().all(|pod| pod.finalizers().is_empty()));
    assert_eq!(
        fixture.until_event("work", "Completed").await?,
        "Job completed"
    );
    Ok(())
}

#[tokio::test]
async fn fails_when_pods_fail_too_often() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(
            json!({ "parallelism": 2, "completions": 2, "backoffLimit": 0 }),
        ))
        .await?;
    let pods = fixture
        .until_pods("two pods", |pods| pods.len() == 2)
        .await?;
    fixture.report(&pods[0].name_any(), "Failed").await?;
    let failed = until_over(&fixture, "Failed").await?;
    for type_ in ["FailureTarget", "Failed"] {
        let why = condition(&failed, type_).unwrap_or(&Value::Null);
        assert_eq!(why["reason"], "BackoffLimitExceeded", "{type_}");
        assert_eq!(
            why["message"],
            "Job has reached the specified backoff limit"
        );
    }
    assert_eq!(failed["status"]["failed"], 2, "the other one ended with it");
    assert!(failed["status"]["completionTime"].is_null());
    fixture
        .until_pods("only the one that failed", |pods| pods.len() == 1)
        .await?;
    Ok(())
}

#[tokio::test]
async fn counts_every_pod_once_across_crashes() -> anyhow::Result<()> {
    let mut fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({ "completions": 12, "parallelism": 4 })))
        .await?;
    for _ in 0..3 {
        end_active(&fixture, 4, "Succeeded").await?;
        fixture.crash();
        fixture.resume().await?;
    }
    let done = until_over(&fixture, "Complete").await?;
    assert_eq!(done["status"]["succeeded"], 12);
    assert!(done["status"]["failed"].is_null());
    assert_eq!(fixture.pods().await?.len(), 12, "none was made twice");
    Ok(())
}

#[tokio::test]
async fn indexed_job_runs_every_index_and_records_failures() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({
            "completionMode": "Indexed", "completions": 3, "parallelism": 3,
            "backoffLimitPerIndex": 0,
        })))
        .await?;
    let pods = fixture
        .until_pods("three pods", |pods| pods.len() == 3)
        .await?;
    let mut indexes: Vec<_> = pods
        .iter()
        .map(|pod| pod.labels()["batch.kubernetes.io/job-completion-index"].clone())
        .collect();
    indexes.sort();
    assert_eq!(indexes, ["0", "1", "2"]);
    for pod in &pods {
        let index = &pod.annotations()["batch.kubernetes.io/job-completion-index"];
        assert!(pod.name_any().starts_with(&format!("work-{index}-")));
        let outcome = if index == "1" { "Failed" } else { "Succeeded" };
        fixture.report(&pod.name_any(), outcome).await?;
    }
    let failed = until_over(&fixture, "Failed").await?;
    assert_eq!(failed["status"]["completedIndexes"], "0,2");
    assert_eq!(failed["status"]["failedIndexes"], "1");
    assert_eq!(failed["status"]["succeeded"], 2);
    assert_eq!(failed["status"]["failed"], 1);
    let why = condition(&failed, "Failed").unwrap_or(&Value::Null);
    assert_eq!(why["reason"], "FailedIndexes");
    Ok(())
}

#[tokio::test]
async fn suspended_job_has_no_pods_until_resumed() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({ "completions": 1, "parallelism": 1 })))
        .await?;
    fixture
        .until_pods("one pod", |pods| pods.len() == 1)
        .await?;
    fixture
        .patch::<Job>("work", json!({ "spec": { "suspend": true } }))
        .await?;
    fixture.until_pods("none", <[Pod]>::is_empty).await?;
    let suspended = until_over(&fixture, "Suspended").await?;
    let why = condition(&suspended, "Suspended").unwrap_or(&Value::Null);
    assert_eq!(why["reason"], "JobSuspended");
    assert!(suspended["status"]["startTime"].is_null());
    assert!(suspended["status"]["failed"].is_null(), "nothing failed");
    fixture
        .patch::<Job>("work", json!({ "spec": { "suspend": false } }))
        .await?;
    end_active(&fixture, 1, "Succeeded").await?;
    let done = until_over(&fixture, "Complete").await?;
    let why = condition(&done, "Suspended").unwrap_or(&Value::Null);
    assert_eq!(
        (&why["status"], &why["reason"]),
        (&json!("False"), &json!("JobResumed"))
    );
    Ok(())
}

#[tokio::test]
async fn policies_decide_about_failure_and_success() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({
            "completionMode": "Indexed", "completions": 4, "parallelism": 4,
            "successPolicy": { "rules": [{ "succeededIndexes": "0", "succeededCount": 1 }] },
        })))
        .await?;
    let pods = fixture.until_pods("four", |pods| pods.len() == 4).await?;
    let leader = pods
        .iter()
        .find(|pod| pod.name_any().starts_with("work-0-"))
        .map(kube::ResourceExt::name_any)
        .unwrap_or_default();
    fixture.report(&leader, "Succeeded").await?;
    let done = until_over(&fixture, "Complete").await?;
    let why = condition(&done, "Complete").unwrap_or(&Value::Null);
    assert_eq!(why["reason"], "SuccessPolicy");
    assert_eq!(why["message"], "Matched rules at index 0");
    assert_eq!(done["status"]["succeeded"], 1);

    let mut fatal = job(json!({
        "podFailurePolicy": { "rules": [{
            "action": "FailJob", "onExitCodes": { "operator": "In", "values": [1] }
        }] },
    }));
    fatal["metadata"]["name"] = json!("fatal");
    fixture.create::<Job>(fatal).await?;
    end_active(&fixture, 1, "Failed").await?;
    let failed = fixture
        .until::<Job>("fatal", "its failure", |job| holds(job, "Failed"))
        .await?;
    let why = condition(&failed, "Failed").unwrap_or(&Value::Null);
    assert_eq!(why["reason"], "PodFailurePolicy");
    let message = why["message"].as_str().unwrap_or_default();
    let end = "failed with exit code 1 matching FailJob rule at index 0";
    assert!(
        message.starts_with("Container main for pod ") && message.ends_with(end),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn orphaned_pod_loses_the_finalizer() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({ "completions": 1, "parallelism": 1 })))
        .await?;
    fixture
        .until_pods("one pod", |pods| pods.len() == 1)
        .await?;
    fixture.delete::<Job>("work").await?;
    // There is no garbage collector here: the pod stays, and no Job will count it.
    fixture
        .until_pods("it is let go", |pods| {
            pods.iter().all(|pod| pod.finalizers().is_empty())
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn finished_job_is_deleted_after_its_ttl() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({ "ttlSecondsAfterFinished": 0 })))
        .await?;
    end_active(&fixture, 1, "Succeeded").await?;
    // In the foreground: the missing garbage collector would delete its pods first.
    let going = fixture
        .until::<Job>("work", "it is to go", |job| {
            job["metadata"]["deletionTimestamp"].is_string()
        })
        .await?;
    assert_eq!(
        going["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert!(holds(&going, "Complete"));
    Ok(())
}

#[tokio::test]
async fn active_deadline_fails_the_job() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({ "activeDeadlineSeconds": 1 })))
        .await?;
    let failed = until_over(&fixture, "Failed").await?;
    let why = condition(&failed, "Failed").unwrap_or(&Value::Null);
    assert_eq!(why["reason"], "DeadlineExceeded");
    assert_eq!(
        why["message"],
        "Job was active longer than specified deadline"
    );
    fixture
        .until_pods("none is left", <[Pod]>::is_empty)
        .await?;
    assert_eq!(
        fixture.until_event("work", "DeadlineExceeded").await?,
        "Job was active longer than specified deadline"
    );
    Ok(())
}

#[tokio::test]
async fn index_is_retried_up_to_its_limit() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({
            "completionMode": "Indexed", "completions": 2, "parallelism": 2,
            "backoffLimitPerIndex": 1, "maxFailedIndexes": 0,
        })))
        .await?;
    let count = "batch.kubernetes.io/job-index-failure-count";
    for failures in ["0", "1"] {
        let pods = fixture
            .until_pods("both indexes run", |pods| active(pods).len() == 2)
            .await?;
        let first = active(&pods)
            .into_iter()
            .find(|pod| pod.name_any().starts_with("work-0-"))
            .map(|pod| (pod.name_any(), pod.annotations()[count].clone()))
            .unwrap_or_default();
        assert_eq!(first.1, failures);
        fixture.report(&first.0, "Failed").await?;
    }
    let failed = until_over(&fixture, "Failed").await?;
    let why = condition(&failed, "Failed").unwrap_or(&Value::Null);
    assert_eq!(why["reason"], "MaxFailedIndexesExceeded");
    assert_eq!(failed["status"]["failedIndexes"], "0");
    assert_eq!(
        failed["status"]["failed"], 3,
        "two tries, and the other index"
    );
    Ok(())
}

#[tokio::test]
async fn replacement_waits_for_terminating_pod_if_configured() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({ "podReplacementPolicy": "Failed" })))
        .await?;
    let pods = fixture
        .until_pods("one pod", |pods| pods.len() == 1)
        .await?;
    let first = pods[0].name_any();
    fixture.delete::<Pod>(&first).await?;
    let waiting = fixture
        .until::<Job>("work", "it waits", |job| job["status"]["terminating"] == 1)
        .await?;
    assert!(waiting["status"]["active"].is_null());
    assert!(waiting["status"]["failed"].is_null());
    fixture.report(&first, "Failed").await?;
    fixture
        .until_pods("another one", |pods| {
            pods.len() == 1 && pods[0].name_any() != first
        })
        .await?;
    fixture
        .until::<Job>("work", "it counts the first", |job| {
            job["status"]["failed"] == 1 && job["status"]["active"] == 1
        })
        .await?;
    Ok(())
}

#[tokio::test]
async fn job_of_another_controller_is_left_alone() -> anyhow::Result<()> {
    let fixture = Fixture::start().await?;
    fixture
        .create::<Job>(job(json!({ "managedBy": "example.com/queue" })))
        .await?;
    let mut other = job(json!({}));
    other["metadata"]["name"] = json!("other");
    fixture.create::<Job>(other).await?;
    // The one created later has its pod: this one would have, too.
    let pods = fixture
        .until_pods("one pod", |pods| !pods.is_empty())
        .await?;
    assert!(pods.iter().all(|pod| pod.name_any().starts_with("other-")));
    let left = fixture
        .until::<Job>("work", "it is there", Value::is_object)
        .await?;
    assert_eq!(left["status"], json!({}));
    Ok(())
}
