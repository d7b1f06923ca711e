use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::backoff::{self, Backoff};
use super::decide::{self, Outcome, PodAction};
use super::indexes::Indexes;
use super::inputs::{JobInputs, many, phase};
use super::pod::{self, FINALIZER, Wanted};
use super::policy::{Failure, judge, succeeded_early};
use super::status;

const START: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = START.parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

fn job(spec: Value) -> Job {
    let mut whole = json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6,
        "template": { "spec": { "containers": [{ "name": "main" }], "restartPolicy": "Never" } },
    });
    if let Value::Object(fields) = spec {
        for (key, value) in fields {
            whole[key] = value;
        }
    }
    from_value(json!({
        "metadata": { "name": "work", "namespace": "here", "uid": "job" }, "spec": whole,
    }))
    .unwrap()
}

/// `a Failed`, `b 3 Running`, `c Running leaving`, `d Succeeded released`.
fn pod(text: &str) -> Arc<Pod> {
    let mut words = text.split(' ').peekable();
    let uid = words.next().unwrap();
    let index = words.next_if(|word| word.parse::<i32>().is_ok());
    let phase = words.next().unwrap();
    let rest: HashSet<&str> = words.collect();
    let mut pod: Pod = from_value(json!({
        "metadata": {
            "name": uid, "namespace": "here", "uid": uid, "creationTimestamp": START,
            "finalizers": [FINALIZER],
        },
        "status": { "phase": phase, "containerStatuses": [] },
    }))
    .unwrap();
    if let Some(index) = index {
        pod.metadata.annotations =
            from_value(json!({ "batch.kubernetes.io/job-completion-index": index })).unwrap();
    }
    if rest.contains("leaving") {
        pod.metadata.deletion_timestamp = from_value(json!(START)).unwrap();
    }
    if rest.contains("released") {
        pod.metadata.finalizers = None;
    }
    Arc::new(pod)
}

#[rstest]
#[case("", 10, "", 0)]
#[case("3", 10, "3", 1)]
#[case("1,2", 10, "1,2", 2)]
#[case("1,2,3", 10, "1-3", 3)]
#[case("0-3,5,7-9", 10, "0-3,5,7-9", 8)]
#[case("0-3,5,7-9", 6, "0-3,5", 5)]
#[case("x,4", 10, "4", 1)]
fn reads_and_writes_indexes(
    #[case] text: &str,
    #[case] completions: i32,
    #[case] expected: &str,
    #[case] len: i32,
) {
    let indexes = Indexes::parse(text, completions);
    assert_eq!(indexes.to_string(), expected);
    assert_eq!(indexes.len(), len);
}

proptest! {
    #[test]
    fn indexes_are_a_set(a in proptest::collection::btree_set(0..40_i32, 0..20),
                         b in proptest::collection::btree_set(0..40_i32, 0..20)) {
        let (left, right): (Indexes, Indexes) = (a.iter().copied().collect(), b.iter().copied().collect());
        prop_assert_eq!(Indexes::parse(&left.to_string(), 40), left.clone());
        prop_assert_eq!(left.union(&right), a.union(&b).copied().collect());
        prop_assert_eq!(left.common(&right), many(a.intersection(&b)));
        prop_assert!((0..40).all(|index| left.contains(index) == a.contains(&index)));
        let missing: Vec<i32> = (0..40).filter(|index| !a.contains(index)).take(5).collect();
        prop_assert_eq!(left.first_missing(40, 5), missing);
    }
}

#[rstest]
#[case::the_first_rule_that_matches(
    json!([
        { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
        { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } },
    ]),
    json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True" }], "containerStatuses": [] }),
    Failure::Ignored
)]
#[case::an_exit_code(
    json!([{ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [42] } }]),
    json!({ "containerStatuses": [{ "name": "main", "state": { "terminated": { "exitCode": 42 } } }] }),
    Failure::FailsJob(
        "Container main for pod here/p failed with exit code 42 matching FailJob rule at index 0".into()
    )
)]
#[case::success_is_no_exit_code(
    json!([{ "action": "FailIndex", "onExitCodes": { "operator": "NotIn", "values": [42] } }]),
    json!({ "containerStatuses": [{ "name": "main", "state": { "terminated": { "exitCode": 0 } } }] }),
    Failure::Counts
)]
#[case::another_container(
    json!([{ "action": "FailIndex", "onExitCodes": {
        "containerName": "side", "operator": "NotIn", "values": [42]
    } }]),
    json!({ "containerStatuses": [{ "name": "main", "state": { "terminated": { "exitCode": 1 } } }] }),
    Failure::Counts
)]
#[case::a_condition(
    json!([{ "action": "FailJob", "onPodConditions": [{ "type": "ConfigIssue", "status": "True" }] }]),
    json!({ "conditions": [{ "type": "ConfigIssue", "status": "True" }] }),
    Failure::FailsJob("Pod here/p has condition ConfigIssue matching FailJob rule at index 0".into())
)]
fn pod_failure_policy_decides(
    #[case] rules: Value,
    #[case] status: Value,
    #[case] expected: Failure,
) {
    let mut status = status;
    for container in status["containerStatuses"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        container["image"] = json!("x");
        container["imageID"] = json!("x");
        container["ready"] = json!(false);
        container["restartCount"] = json!(0);
    }
    let policy = from_value(json!({ "rules": rules })).unwrap();
    let pod: Pod = from_value(json!({
        "metadata": { "name": "p", "namespace": "here" }, "status": status,
    }))
    .unwrap();
    assert_eq!(judge(Some(&policy), &pod), expected);
}

#[rstest]
#[case::all_listed(json!([{ "succeededIndexes": "0-2" }]), "0-2", Some("Matched rules at index 0"))]
#[case::not_all_listed(json!([{ "succeededIndexes": "0-2" }]), "0,1,5", None)]
#[case::enough_of_those_listed(
    json!([{ "succeededCount": 9 }, { "succeededIndexes": "0-2", "succeededCount": 2 }]),
    "0,2", Some("Matched rules at index 1")
)]
#[case::enough(json!([{ "succeededCount": 2 }]), "4,7", Some("Matched rules at index 0"))]
#[case::nothing_yet(json!([{ "succeededCount": 0 }]), "", None)]
fn success_policy_completes_early(
    #[case] rules: Value,
    #[case] succeeded: &str,
    #[case] expected: Option<&str>,
) {
    let policy = from_value(json!({ "rules": rules })).unwrap();
    let succeeded = Indexes::parse(succeeded, 10);
    assert_eq!(
        succeeded_early(Some(&policy), 10, &succeeded).as_deref(),
        expected
    );
}

#[rstest]
#[case::none(0, 0)]
#[case::first(1, 10)]
#[case::second(2, 20)]
#[case::seventh(7, 600)]
#[case::later(40, 600)]
fn backoff_doubles_with_every_failure(#[case] failures: i32, #[case] seconds: u64) {
    let wait = backoff::remaining(failures, at(0), at(0));
    assert_eq!(wait, Duration::from_secs(seconds));
    assert_eq!(backoff::remaining(failures, at(0), at(600)), Duration::ZERO);
}

#[test]
fn success_resets_the_backoff() {
    let failed = Backoff::default().after(&[], &[at(0), at(5)]);
    assert_eq!(failed.remaining(at(5)), Duration::from_secs(20));
    assert_eq!(
        failed.after(&[at(7)], &[at(6)]).remaining(at(7)),
        Duration::ZERO
    );
    assert_eq!(
        failed.after(&[at(7)], &[at(8)]).remaining(at(8)),
        Duration::from_secs(10)
    );
}

fn shown(act: &PodAction) -> String {
    let names = |pods: &[Arc<Pod>]| {
        let mut names: Vec<_> = pods
            .iter()
            .filter_map(|pod| pod.metadata.name.clone())
            .collect();
        names.sort();
        names.join(" ")
    };
    match act {
        PodAction::Nothing => "nothing".to_owned(),
        PodAction::Leave => "leave".to_owned(),
        PodAction::Create(wanted) => {
            let one = |wanted: &Wanted| match wanted.index {
                Some(index) => index.to_string(),
                None => "any".to_owned(),
            };
            let wanted: Vec<_> = wanted.iter().map(one).collect();
            format!("create {}", wanted.join(" "))
        }
        PodAction::Drop(pods) => format!("drop {}", names(pods)),
        PodAction::End(pods) => format!("end {}", names(pods)).trim().to_owned(),
    }
}

#[rstest]
#[case::as_many_as_run_at_once(json!({ "completions": 3, "parallelism": 2 }), &[], "create any any")]
#[case::no_more_than_are_left(
    json!({ "completions": 3, "parallelism": 2 }), &["a Succeeded", "b Succeeded"], "create any"
)]
#[case::enough_run(json!({ "completions": 3, "parallelism": 1 }), &["a Running"], "nothing")]
#[case::too_many_run(
    json!({ "completions": 3, "parallelism": 1 }), &["a Running", "b Pending"], "drop b"
)]
#[case::a_queue_runs_out(
    json!({ "completions": null, "parallelism": 3 }), &["a Succeeded", "b Running"], "nothing"
)]
#[case::suspended(json!({ "suspend": true }), &["a Running"], "drop a")]
#[case::a_pod_on_its_way_out_is_replaced(json!({}), &["a Running leaving"], "create any")]
#[case::unless_it_is_waited_for(
    json!({ "podReplacementPolicy": "Failed" }), &["a Running leaving"], "nothing"
)]
#[case::indexes(
    json!({ "completionMode": "Indexed", "completions": 5, "parallelism": 3 }),
    &["a 0 Succeeded", "b 2 Running"], "create 1 3"
)]
#[case::an_index_twice(
    json!({ "completionMode": "Indexed", "completions": 2, "parallelism": 2 }),
    &["a 0 Running", "b 0 Pending", "c 1 Running"], "drop b"
)]
#[case::an_index_beyond(
    json!({ "completionMode": "Indexed", "completions": 2, "parallelism": 2 }),
    &["a 0 Running", "b 1 Running", "c 7 Running"], "drop c"
)]
#[case::too_many_failures(
    json!({ "backoffLimit": 0, "completions": 2, "parallelism": 2 }),
    &["a Failed", "b Running"], "end b"
)]
#[case::past_its_deadline(json!({ "activeDeadlineSeconds": 0 }), &["a Running"], "end a")]
fn plan_is_the_next_action(#[case] spec: Value, #[case] pods: &[&str], #[case] expected: &str) {
    let job = job(spec);
    let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
    let inputs = JobInputs::of(
        &job,
        job.spec.as_ref().unwrap(),
        &pods,
        Backoff::default(),
        at(100),
    );
    assert_eq!(shown(&decide::plan(&inputs).act), expected);
}

#[test]
fn failure_delays_the_next_pod() {
    let job = job(json!({}));
    let pods = [pod("a Failed")];
    let spec = job.spec.as_ref().unwrap();
    let inputs = JobInputs::of(&job, spec, &pods, Backoff::default(), at(4));
    let plan = decide::plan(&inputs);
    assert_eq!(plan.act, PodAction::Nothing);
    assert_eq!(plan.wait, Some(Duration::from_secs(6)));
}

#[test]
fn failed_pod_carries_its_index_failures() {
    let job = job(json!({
        "completionMode": "Indexed", "completions": 1, "parallelism": 1,
        "backoffLimitPerIndex": 2, "backoffLimit": i32::MAX,
    }));
    let spec = job.spec.as_ref().unwrap();
    let first = [pod("a 0 Failed")];
    let inputs = JobInputs::of(&job, spec, &first, Backoff::default(), at(100));
    let plan = decide::plan(&inputs);
    let PodAction::Create(wanted) = &plan.act else {
        panic!("{plan:?}");
    };
    assert_eq!(wanted[0].failures, Some((1, 0)));
    let kept = decide::report(&inputs, &plan, &Outcome::default());
    assert!(kept.release.is_empty(), "it is kept until it is replaced");

    let replaced = pod::render(&job, &spec.template, &wanted[0]);
    assert_eq!(pod::failures_before(&replaced), 1);
    let both = [pod("a 0 Failed"), pod("b 0 Running")];
    let inputs = JobInputs::of(&job, spec, &both, Backoff::default(), at(100));
    let report = decide::report(&inputs, &decide::plan(&inputs), &Outcome::default());
    assert_eq!(report.release.len(), 1);
}

#[test]
fn pod_has_its_index_in_all_places() {
    let job = job(json!({ "completionMode": "Indexed" }));
    let wanted = Wanted {
        index: Some(3),
        failures: None,
    };
    let pod = pod::render(&job, &job.spec.as_ref().unwrap().template, &wanted);
    let shown = serde_json::to_value(&pod).unwrap();
    let key = "batch.kubernetes.io/job-completion-index";
    assert_eq!(shown["metadata"]["generateName"], "work-3-");
    assert_eq!(shown["metadata"]["labels"][key], "3");
    assert_eq!(shown["metadata"]["annotations"][key], "3");
    assert_eq!(shown["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(shown["spec"]["hostname"], "work-3");
    assert_eq!(
        shown["spec"]["containers"][0]["env"],
        json!([{ "name": "JOB_COMPLETION_INDEX", "valueFrom": { "fieldRef": {
            "fieldPath": format!("metadata.labels['{key}']")
        } } }])
    );
}

/// A simulated cluster with one Job. Every write may be the last of a reconcile.
struct Simulation {
    job: Job,
    pods: Vec<Pod>,
    backoff: Backoff,
    now: i64,
    made: usize,
}

impl Simulation {
    fn new(spec: Value) -> Self {
        Self {
            job: job(spec),
            pods: Vec::new(),
            backoff: Backoff::default(),
            now: 0,
            made: 0,
        }
    }

    /// One reconcile, interrupted after this number of writes.
    fn round(&mut self, mut writes: usize) {
        self.now += 700;
        let job = self.job.clone();
        let pods: Vec<Arc<Pod>> = self.pods.iter().cloned().map(Arc::new).collect();
        let spec = job.spec.as_ref().unwrap();
        let inputs = JobInputs::of(&job, spec, &pods, self.backoff, at(self.now));
        let mut may_write = || {
            let may = writes > 0;
            writes = writes.saturating_sub(1);
            may
        };
        let plan = decide::plan(&inputs);
        let mut outcome = Outcome::default();
        match &plan.act {
            PodAction::Create(wanted) => {
                for one in wanted {
                    if !may_write() {
                        return;
                    }
                    self.made += 1;
                    let mut pod = pod::render(&job, &spec.template, one);
                    pod.metadata.uid = Some(format!("uid-{}", self.made));
                    self.pods.push(pod);
                    outcome.created += 1;
                }
            }
            PodAction::End(pods) | PodAction::Drop(pods) => {
                for pod in pods {
                    if !may_write() {
                        return;
                    }
                    let uid = pod.metadata.uid.clone().unwrap();
                    self.delete(&uid);
                    outcome.removed.insert(uid);
                }
            }
            PodAction::Nothing | PodAction::Leave => {}
        }
        let report = decide::report(&inputs, &plan, &outcome);
        if !may_write() {
            return;
        }
        self.job.status = Some(report.status.clone());
        self.backoff = inputs.backoff;
        let mut tracked = decide::tracked(&inputs);
        for pod in &report.release {
            if !may_write() {
                return;
            }
            let uid = pod.metadata.uid.clone().unwrap();
            self.release(&uid);
            tracked.remove(&uid);
        }
        if !may_write() {
            return;
        }
        let mut status = status::complete(self.job.status.as_ref());
        status::count_released(&mut status, &tracked);
        if let Some(verdict) = report.verdict.filter(|_| !report.more) {
            decide::finish(&inputs, &mut status, &verdict);
        }
        self.job.status = Some(status);
    }

    fn delete(&mut self, uid: &str) {
        for pod in &mut self.pods {
            if pod.metadata.uid.as_deref() == Some(uid) {
                pod.metadata.deletion_timestamp = from_value(json!(START)).unwrap();
            }
        }
    }

    fn release(&mut self, uid: &str) {
        for pod in &mut self.pods {
            if pod.metadata.uid.as_deref() == Some(uid) {
                pod.metadata.finalizers = None;
            }
        }
        self.pods
            .retain(|pod| pod.metadata.deletion_timestamp.is_none() || pod::is_tracked(pod));
    }

    /// Terminates a running pod.
    fn end(&mut self, number: usize, how: &str) -> bool {
        let mut running = self
            .pods
            .iter_mut()
            .filter(|pod| phase(pod) == "Pending" && pod.metadata.deletion_timestamp.is_none());
        let Some(pod) = running.nth(number) else {
            return false;
        };
        pod.status = from_value(json!({ "phase": how })).unwrap();
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Regardless of interruptions every terminated pod is counted once.
    #[test]
    fn every_pod_is_counted_once(
        indexed in any::<bool>(),
        moves in proptest::collection::vec((0..8_usize, 0..3_usize, any::<bool>()), 0..60),
    ) {
        let mode = if indexed { "Indexed" } else { "NonIndexed" };
        let mut simulation = Simulation::new(json!({
            "completionMode": mode, "completions": 6, "parallelism": 3, "backoffLimit": 1000,
        }));
        let (mut succeeded, mut failed) = (0, 0);
        for (writes, number, well) in moves {
            simulation.round(writes);
            let how = if well { "Succeeded" } else { "Failed" };
            if simulation.end(number, how) {
                *(if well { &mut succeeded } else { &mut failed }) += 1;
            }
        }
        for _ in 0..60 {
            if status::is_finished(simulation.job.status.as_ref()) {
                break;
            }
            simulation.round(usize::MAX);
            if simulation.end(0, "Succeeded") {
                succeeded += 1;
            }
        }
        let status = simulation.job.status.clone().unwrap();
        prop_assert!(status::find_true(&status, "Complete").is_some(), "{:?}", status);
        prop_assert_eq!(status.failed.unwrap_or(0), failed);
        if indexed {
            prop_assert_eq!(status.completed_indexes.as_deref(), Some("0-5"));
            prop_assert_eq!(status.succeeded, Some(6));
        } else {
            prop_assert_eq!(status.succeeded, Some(succeeded));
        }
        prop_assert!(simulation.pods.iter().all(|pod| !pod::is_tracked(pod)));
    }
}
