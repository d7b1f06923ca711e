use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::decide::{self, CronJobInputs, Decision, decide};

const CREATED: &str = "2026-03-01T09:59:00Z";

fn cron(spec: Value, status: Value) -> CronJob {
    let mut whole = json!({
        "schedule": "0 * * * *",
        "jobTemplate": {
            "metadata": { "labels": { "app": "x" } },
            "spec": { "template": { "spec": { "containers": [] } } },
        },
    });
    if let Value::Object(fields) = spec {
        for (key, value) in fields {
            whole[key] = value;
        }
    }
    let mut object = json!({ "metadata": {
        "name": "tick", "namespace": "here", "uid": "cron", "creationTimestamp": CREATED,
    } });
    object["spec"] = whole;
    object["status"] = status;
    from_value(object).unwrap()
}

/// `a Complete 10:05`, `b`.
fn job(text: &str) -> Arc<Job> {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let mut status = json!({});
    if let Some(end) = words.next() {
        let at = format!("2026-03-01T{}:00Z", words.next().unwrap_or("10:00"));
        status = json!({
            "startTime": at,
            "conditions": [{ "type": end, "status": "True", "lastTransitionTime": at }],
        });
        if end == "Complete" {
            status["completionTime"] = json!(at);
        }
    }
    let job: Job = from_value(json!({
        "metadata": { "name": name, "namespace": "here", "uid": name }, "status": status,
    }))
    .unwrap();
    Arc::new(job)
}

fn active(names: &[&str]) -> Value {
    let reference = |name: &&str| json!({ "name": name, "namespace": "here", "uid": name });
    json!(names.iter().map(reference).collect::<Vec<_>>())
}

fn decided(cron: &CronJob, jobs: &[Arc<Job>], now: &str) -> Decision {
    decide(&CronJobInputs {
        cron,
        jobs,
        exists: &|_| false,
        now: now.parse::<Timestamp>().unwrap(),
    })
}

fn reasons(decision: &Decision) -> Vec<&str> {
    decision
        .new_events
        .iter()
        .map(|event| event.reason)
        .collect()
}

fn started(decision: &Decision) -> Option<String> {
    decision.start.as_ref().map(|start| start.at.to_string())
}

#[rstest]
#[case::not_yet(json!({}), "2026-03-01T09:59:30Z", None, &[])]
#[case::on_time(json!({}), "2026-03-01T10:00:00Z", Some("2026-03-01T10:00:00Z"), &[])]
#[case::late(json!({}), "2026-03-01T10:40:00Z", Some("2026-03-01T10:00:00Z"), &[])]
#[case::only_the_last_of_those_missed(
    json!({}), "2026-03-01T15:10:00Z", Some("2026-03-01T15:00:00Z"), &[]
)]
#[case::too_many_missed(
    json!({}), "2026-03-09T15:10:00Z", Some("2026-03-09T15:00:00Z"), &["TooManyMissedTimes"]
)]
#[case::within_the_deadline(
    json!({ "startingDeadlineSeconds": 600 }),
    "2026-03-01T10:09:00Z", Some("2026-03-01T10:00:00Z"), &[]
)]
#[case::past_the_deadline(
    json!({ "startingDeadlineSeconds": 600 }), "2026-03-01T10:11:00Z", None, &[]
)]
#[case::a_deadline_makes_few_of_many(
    json!({ "startingDeadlineSeconds": 600 }),
    "2026-03-09T15:05:00Z", Some("2026-03-09T15:00:00Z"), &[]
)]
#[case::suspended(json!({ "suspend": true }), "2026-03-01T10:00:00Z", None, &[])]
#[case::in_its_zone(
    json!({ "schedule": "30 15 * * *", "timeZone": "Asia/Kolkata" }),
    "2026-03-01T10:00:00Z", Some("2026-03-01T10:00:00Z"), &[]
)]
#[case::in_no_zone(
    json!({ "timeZone": "Mars/Olympus" }), "2026-03-01T10:00:00Z", None, &["UnknownTimeZone"]
)]
#[case::no_schedule(
    json!({ "schedule": "now and then" }), "2026-03-01T10:00:00Z", None, &["UnparseableSchedule"]
)]
fn starts_due_jobs(
    #[case] spec: Value,
    #[case] now: &str,
    #[case] expected: Option<&str>,
    #[case] expected_reasons: &[&str],
) {
    let decision = decided(&cron(spec, json!({})), &[], now);
    assert_eq!(started(&decision).as_deref(), expected);
    assert_eq!(reasons(&decision), expected_reasons);
}

#[rstest]
#[case::both_run("Allow", Some(0), &[])]
#[case::the_first_runs_on("Forbid", None, &["JobAlreadyActive"])]
#[case::the_first_goes("Replace", Some(1), &[])]
fn concurrency_policy_decides_about_overlap(
    #[case] policy: &str,
    #[case] replaced: Option<usize>,
    #[case] expected_reasons: &[&str],
) {
    let status = json!({ "active": active(&["a"]), "lastScheduleTime": "2026-03-01T10:00:00Z" });
    let cron = cron(json!({ "concurrencyPolicy": policy }), status);
    let decision = decided(&cron, &[job("a")], "2026-03-01T11:00:00Z");
    let replaces = decision.start.as_ref().map(|start| start.replaces.len());
    assert_eq!(replaces, replaced);
    assert_eq!(reasons(&decision), expected_reasons);
}

#[test]
fn started_job_is_not_started_again() {
    let cron = cron(
        json!({}),
        json!({ "lastScheduleTime": "2026-03-01T10:00:00Z" }),
    );
    let decision = decided(&cron, &[], "2026-03-01T10:00:01Z");
    assert_eq!(decision.start, None);
    // A tenth of a second late, in case clocks differ.
    assert_eq!(decision.wait, Some(Duration::from_millis(3_599_100)));
}

#[test]
fn started_job_is_named_by_its_minute_and_recorded() {
    let cron = cron(
        json!({ "timeZone": "Asia/Kolkata", "schedule": "* * * * *" }),
        json!({}),
    );
    let decision = decided(&cron, &[], "2026-03-01T10:00:30Z");
    let start = decision.start.unwrap();
    let shown = serde_json::to_value(&start.job).unwrap();
    let minute = start.at.as_second() / 60;
    assert_eq!(shown["metadata"]["name"], format!("tick-{minute}"));
    assert_eq!(shown["metadata"]["labels"], json!({ "app": "x" }));
    assert_eq!(
        shown["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-03-01T15:30:00+05:30"
    );
    assert_eq!(shown["metadata"]["ownerReferences"][0]["uid"], "cron");
    let status = decide::started(decision.status, &start.job, &start);
    assert_eq!(status.active.unwrap_or_default().len(), 1);
    assert_eq!(status.last_schedule_time.map(|time| time.0), Some(start.at));
}

#[test]
fn records_the_state_of_jobs() {
    let status = json!({ "active": active(&["a", "b", "gone"]), "lastScheduleTime": "2026-03-01T10:00:00Z" });
    let cron = cron(json!({}), status);
    let jobs = [
        job("a Complete 10:05"),
        job("b"),
        job("c"),
        job("d Complete 10:03"),
    ];
    let decision = decided(&cron, &jobs, "2026-03-01T10:10:00Z");
    let active = decision.status.active.clone().unwrap_or_default();
    assert_eq!(active.len(), 1);
    assert_eq!(active[0].name.as_deref(), Some("b"));
    assert_eq!(
        decision
            .status
            .last_successful_time
            .as_ref()
            .map(|time| time.0.to_string()),
        Some("2026-03-01T10:05:00Z".to_owned())
    );
    assert_eq!(
        reasons(&decision),
        ["SawCompletedJob", "UnexpectedJob", "MissingJob"]
    );
    assert_eq!(
        decision.new_events[0].message,
        "Saw completed job: a, condition: Complete"
    );
}

#[test]
fn history_limits_keep_the_latest_jobs() {
    let cron = cron(
        json!({ "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0 }),
        json!({ "lastScheduleTime": "2026-03-01T10:00:00Z" }),
    );
    let jobs = [
        job("late Complete 10:07"),
        job("early Complete 10:05"),
        job("bad Failed 10:06"),
        job("running"),
    ];
    let decision = decided(&cron, &jobs, "2026-03-01T10:10:00Z");
    let forgotten: Vec<_> = decision
        .forget
        .iter()
        .filter_map(|job| job.metadata.name.clone())
        .collect();
    assert_eq!(forgotten, ["early", "bad"]);
}
