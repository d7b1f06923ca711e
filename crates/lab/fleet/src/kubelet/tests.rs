use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::admit;
use super::advance::{Clock, LifecycleInputs, Next, advance};
use super::behaviour::{Behaviour, Outcome};
use super::write::difference;
use crate::names;

/// A pod as stored by the API server.
fn pod(annotations: &Value, spec: &Value) -> Pod {
    let mut pod = json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u", "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": "registry.example/app:1" }], "restartPolicy": "Always" },
    });
    if let (Some(whole), Some(more)) = (pod["spec"].as_object_mut(), spec.as_object()) {
        whole.extend(more.clone());
    }
    serde_json::from_value(pod).expect("a pod")
}

fn begin() -> Timestamp {
    "2026-01-01T00:00:00.5Z".parse().expect("a time")
}

fn after(seconds: i64) -> Timestamp {
    begin() + SignedDuration::from_secs(seconds)
}

fn step(pod: &Pod, status: PodStatus, now: Timestamp, outcome: &Outcome, volumes: bool) -> Next {
    let (behaviour, complaints) = Behaviour::of(pod);
    assert_eq!(complaints, [""; 0]);
    let inputs = LifecycleInputs {
        pod,
        behaviour: &behaviour,
        outcome: &|_| outcome.clone(),
        rejection: &|| None,
        host_address: Some("172.16.0.10"),
        address: &|| Some("10.128.0.2".to_owned()),
        volumes_ready: volumes,
        no_sandbox: None,
    };
    advance(status, &inputs, Clock::new(now, 1.0))
}

/// A status as it comes back from the server, where times are whole seconds.
fn stored(status: &PodStatus) -> PodStatus {
    let text = serde_json::to_string(status).expect("JSON");
    serde_json::from_str(&text).expect("a status")
}

/// Advances a pod up to a time; with `forget`, every step starts from the stored status alone.
fn live(pod: &Pod, outcome: &Outcome, until: Timestamp, forget: bool) -> (PodStatus, bool) {
    let mut status = pod.status.clone().unwrap_or_default();
    let mut now = begin();
    for _ in 0..200 {
        let next = step(pod, status, now, outcome, true);
        let again = step(pod, next.status.clone(), now, outcome, true);
        assert_eq!(
            difference(&next.status, &again.status),
            None,
            "asked again, nothing is new"
        );
        let restarted = step(pod, stored(&next.status), now, outcome, true);
        if next.wake.is_none() {
            assert_eq!(
                difference(&next.status, &restarted.status),
                None,
                "a restart changes nothing"
            );
        }
        status = if forget {
            stored(&next.status)
        } else {
            next.status
        };
        match next.wake {
            Some(wake) if !next.gone && wake <= until => now = now.max(wake),
            _ => return (status, next.gone),
        }
    }
    panic!("it does not come to rest: {status:?}");
}

fn phase(status: &PodStatus) -> &str {
    status.phase.as_deref().unwrap_or_default()
}

fn state(status: &PodStatus) -> Value {
    json!(status.container_statuses.as_ref().expect("containers")[0])
}

fn holds(status: &PodStatus, kind: &str) -> Option<bool> {
    let conditions = status.conditions.as_ref()?;
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == kind)?;
    Some(found.status == "True")
}

#[test]
fn pod_starts_runs_and_becomes_ready() {
    let pod = pod(&json!({}), &json!({}));
    let first = step(&pod, PodStatus::default(), begin(), &Outcome::Runs, true);
    assert_eq!(phase(&first.status), "Pending");
    assert_eq!(
        state(&first.status)["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    assert_eq!(holds(&first.status, "PodScheduled"), Some(true));
    assert_eq!(holds(&first.status, "Initialized"), Some(true));
    assert_eq!(holds(&first.status, "Ready"), Some(false));
    assert_eq!(first.status.pod_ip, None);
    assert_eq!(first.status.host_ip.as_deref(), Some("172.16.0.10"));
    let wake = first.wake.expect("it will start");
    let second = step(&pod, first.status, wake, &Outcome::Runs, true);
    assert_eq!(phase(&second.status), "Running");
    assert_eq!(second.wake, None, "it runs for ever");
    for kind in ["Ready", "ContainersReady", "PodReadyToStartContainers"] {
        assert_eq!(holds(&second.status, kind), Some(true), "{kind}");
    }
    assert_eq!(second.status.pod_ip.as_deref(), Some("10.128.0.2"));
    let reasons: Vec<&str> = second
        .new_events
        .iter()
        .map(|event| &*event.reason)
        .collect();
    assert_eq!(reasons, ["Pulling", "Pulled", "Created", "Started"]);
}

#[test]
fn containers_wait_for_volumes() {
    let pod = pod(&json!({}), &json!({}));
    let next = step(&pod, PodStatus::default(), begin(), &Outcome::Runs, false);
    assert_eq!((phase(&next.status), next.wake), ("Pending", None));
    let later = step(&pod, next.status, after(60), &Outcome::Runs, true);
    assert_eq!(phase(&later.status), "Running");
}

#[rstest]
#[case::job("Never", json!({}), "Succeeded", 0)]
#[case::job_on_failure("OnFailure", json!({}), "Succeeded", 0)]
#[case::told_to_end("Never", json!({names::RUN_FOR: "1s"}), "Succeeded", 0)]
#[case::failing("Never", json!({names::EXIT_CODE: "7"}), "Failed", 7)]
fn completed_containers_finish_the_pod(
    #[case] policy: &str,
    #[case] annotations: Value,
    #[case] end: &str,
    #[case] code: i32,
) {
    let pod = pod(&annotations, &json!({ "restartPolicy": policy }));
    let (status, _) = live(&pod, &Outcome::Runs, after(60), false);
    assert_eq!(phase(&status), end);
    assert_eq!(state(&status)["state"]["terminated"]["exitCode"], code);
    assert_eq!(holds(&status, "Ready"), Some(false));
}

#[test]
fn failing_container_restarts_with_growing_backoff() {
    let pod = pod(
        &json!({ names::EXIT_CODE: "1", names::RUN_FOR: "1s" }),
        &json!({}),
    );
    let (early, _) = live(&pod, &Outcome::Runs, after(5), false);
    assert_eq!(state(&early)["restartCount"], 1);
    assert_eq!(
        state(&early)["state"]["waiting"]["reason"],
        "CrashLoopBackOff"
    );
    assert_eq!(
        state(&early)["state"]["waiting"]["message"],
        "back-off 10s restarting failed container=main pod=p_ns(u)"
    );
    assert_eq!(state(&early)["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(phase(&early), "Running");
    let (later, _) = live(&pod, &Outcome::Runs, after(60), false);
    // Waits of 0, 10 and 20 s have passed, the one of 40 s has not.
    assert_eq!(state(&later)["restartCount"], 3);
}

#[test]
fn image_pull_failure_is_reported_and_recovers() {
    let no_image = Outcome::NoImage {
        reason: "ErrImagePull".into(),
        message: "no match for platform".into(),
    };
    let pod = pod(&json!({}), &json!({}));
    let (status, _) = live(&pod, &no_image, after(60), false);
    assert_eq!(phase(&status), "Pending");
    let waiting = &state(&status)["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    assert!(
        waiting["message"]
            .as_str()
            .is_some_and(|text| text.contains("no match for platform"))
    );
    let mended = step(&pod, status, after(61), &Outcome::Runs, true);
    assert_eq!(phase(&mended.status), "Running");
}

/// The kubelet's back-off: 10 s, doubling to 5 minutes.
#[test]
fn image_pull_backoff_doubles() {
    let no_image = Outcome::NoImage {
        reason: "ErrImagePull".into(),
        message: "no match for platform".into(),
    };
    let pod = pod(&json!({}), &json!({}));
    let mut status = PodStatus::default();
    let mut now = begin();
    let mut tries = Vec::new();
    while now < after(2000) {
        let next = step(&pod, status, now, &no_image, true);
        let reasons: Vec<&str> = next.new_events.iter().map(|event| &*event.reason).collect();
        if reasons == ["Pulling", "Failed", "Failed"] {
            tries.push(now.duration_since(begin()).as_secs());
        } else {
            assert!(matches!(*reasons, [] | ["BackOff"]), "{reasons:?}");
        }
        status = next.status;
        now = now.max(next.wake.expect("it is tried again"));
    }
    let waits: Vec<i64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300, 300, 300, 300]);
}

#[test]
fn missing_sandbox_is_reported_and_retried() {
    let pod = pod(&json!({}), &json!({}));
    let (behaviour, _) = Behaviour::of(&pod);
    let inputs = |no_sandbox| LifecycleInputs {
        pod: &pod,
        behaviour: &behaviour,
        outcome: &|_| Outcome::Runs,
        rejection: &|| None,
        host_address: None,
        address: &|| None,
        volumes_ready: true,
        no_sandbox,
    };
    let why = "no runtime for \"kata\" is configured";
    let next = advance(
        PodStatus::default(),
        &inputs(Some(why)),
        Clock::new(begin(), 1000.0),
    );
    assert_eq!(phase(&next.status), "Pending");
    assert_eq!(
        state(&next.status)["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    assert_eq!(next.new_events.len(), 1);
    assert_eq!(
        (
            next.new_events[0].reason.as_ref(),
            next.new_events[0].message.as_str()
        ),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: no runtime for \"kata\" is configured"
        )
    );
    // The delay is real time: at any simulation speed the sandbox is not retried more often.
    assert_eq!(next.wake, Some(after(5)));
    let mended = advance(next.status, &inputs(None), Clock::new(after(5), 1000.0));
    assert_eq!(phase(&mended.status), "Running");
    // A running pod has a sandbox.
    let later = advance(
        mended.status,
        &inputs(Some(why)),
        Clock::new(after(6), 1000.0),
    );
    assert_eq!(phase(&later.status), "Running");
    assert_eq!(later.new_events, []);
}

#[test]
fn wrong_architecture_exits_at_once() {
    let dies = Outcome::Dies {
        code: 255,
        message: "exec format error".into(),
    };
    let pod = pod(&json!({}), &json!({}));
    let (status, _) = live(&pod, &dies, after(5), false);
    assert_eq!(
        state(&status)["lastState"]["terminated"]["message"],
        "exec format error"
    );
    assert_eq!(
        state(&status)["state"]["waiting"]["reason"],
        "CrashLoopBackOff"
    );
}

#[test]
fn init_containers_run_in_order_and_sidecars_stay() {
    let spec = json!({ "restartPolicy": "Never", "initContainers": [
        { "name": "one", "image": "a" },
        { "name": "beside", "image": "b", "restartPolicy": "Always" },
        { "name": "two", "image": "c" },
    ]});
    let pod = pod(&json!({}), &spec);
    let mut status = PodStatus::default();
    let mut now = begin();
    let mut pictures = Vec::new();
    for _ in 0..30 {
        let next = step(&pod, status, now, &Outcome::Runs, true);
        let kinds: String = next
            .status
            .init_container_statuses
            .iter()
            .flatten()
            .chain(next.status.container_statuses.iter().flatten())
            .map(|own| {
                let state = own.state.clone().unwrap_or_default();
                match (state.waiting, state.running, state.terminated) {
                    (Some(_), _, _) => 'w',
                    (_, Some(_), _) => 'r',
                    _ => 't',
                }
            })
            .collect();
        if pictures.last() != Some(&kinds) {
            pictures.push(kinds);
        }
        status = next.status;
        match next.wake {
            Some(wake) => now = wake,
            None => break,
        }
    }
    assert_eq!(
        pictures,
        [
            "wwww", "rwww", "twww", "trww", "trrw", "trtw", "trtr", "tttt"
        ]
    );
    assert_eq!(phase(&status), "Succeeded");
}

#[test]
fn readiness_waits_for_probes_and_gates() {
    let spec = json!({
        "containers": [{ "name": "main", "image": "a", "readinessProbe": { "initialDelaySeconds": 10 } }],
        "readinessGates": [{ "conditionType": "example.com/ok" }],
    });
    let pod = pod(&json!({}), &spec);
    let (early, _) = live(&pod, &Outcome::Runs, after(5), false);
    assert_eq!(
        (phase(&early), holds(&early, "ContainersReady")),
        ("Running", Some(false))
    );
    let (mut late, _) = live(&pod, &Outcome::Runs, after(30), false);
    assert_eq!(holds(&late, "ContainersReady"), Some(true));
    assert_eq!(holds(&late, "Ready"), Some(false), "the gate is closed");
    let open = json!({ "type": "example.com/ok", "status": "True" });
    late.conditions
        .get_or_insert_default()
        .push(serde_json::from_value(open).expect("a condition"));
    let opened = step(&pod, late, after(31), &Outcome::Runs, true);
    assert_eq!(holds(&opened.status, "Ready"), Some(true));
}

#[test]
fn active_deadline_fails_the_pod() {
    let spec = json!({ "restartPolicy": "Never", "activeDeadlineSeconds": 5 });
    let pod = pod(&json!({ names::RUN_FOR: "1h" }), &spec);
    let (status, _) = live(&pod, &Outcome::Runs, after(60), false);
    assert_eq!(phase(&status), "Failed");
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
}

#[rstest]
#[case::quick(json!({}), 30, 2, "Succeeded", 0)]
#[case::slow(json!({names::STOP_AFTER: "10s"}), 30, 11, "Succeeded", 0)]
#[case::too_slow(json!({names::STOP_AFTER: "1h"}), 30, 31, "Failed", 137)]
fn deleted_pod_stops_within_its_grace_period(
    #[case] annotations: Value,
    #[case] grace: i64,
    #[case] within: i64,
    #[case] end: &str,
    #[case] code: i32,
) {
    let mut pod = pod(&annotations, &json!({}));
    let (running, _) = live(&pod, &Outcome::Runs, after(10), false);
    pod.status = Some(running);
    pod.metadata.deletion_grace_period_seconds = Some(grace);
    let deadline = after(10) + SignedDuration::from_secs(grace);
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        deadline,
    ));
    let mut status = pod.status.clone().unwrap_or_default();
    let mut now = after(10);
    let gone = loop {
        let next = step(&pod, status, now, &Outcome::Runs, true);
        status = next.status;
        if next.gone {
            break now;
        }
        now = next.wake.expect("it will stop");
    };
    assert!(gone <= after(10 + within), "{gone}");
    assert_eq!(phase(&status), end);
    assert_eq!(state(&status)["state"]["terminated"]["exitCode"], code);
    assert_eq!(holds(&status, "Ready"), Some(false));
}

#[test]
fn deleted_pod_that_never_started_is_removed_at_once() {
    let mut pod = pod(&json!({}), &json!({}));
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        after(30),
    ));
    assert!(step(&pod, PodStatus::default(), begin(), &Outcome::Runs, true).gone);
}

#[rstest]
#[case(names::RUN_FOR, "soon", "duration")]
#[case(names::READY_AFTER, "-5s", "duration")]
#[case(names::EXIT_CODE, "256", "from 0 to 255")]
fn malformed_annotations_are_reported(
    #[case] name: &str,
    #[case] value: &str,
    #[case] accepted: &str,
) {
    let (behaviour, complaints) = Behaviour::of(&pod(&json!({ name: value }), &json!({})));
    assert_eq!(behaviour, Behaviour::default());
    assert_eq!(complaints.len(), 1);
    for part in [name, value, accepted] {
        assert!(complaints[0].contains(part), "{complaints:?}");
    }
}

#[rstest]
#[case::fits(json!({}), None)]
#[case::os(json!({"os": {"name": "windows"}}), Some("PodOSNotSupported"))]
#[case::os_label(json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), Some("PodOSSelectorNodeLabelDoesNotMatch"))]
#[case::arch(json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}}), Some("NodeAffinity"))]
#[case::cpu(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]}), Some("OutOfcpu"))]
#[case::memory(json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "1Ti"}}}]}), Some("OutOfmemory"))]
#[case::ports(json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]}), Some("NodePorts"))]
fn node_rejects_pods_that_do_not_fit(#[case] spec: Value, #[case] reason: Option<&str>) {
    let fleet = crate::Fleet::of_pools(vec![crate::model::Pool::new("n", "amd64")]);
    let node = crate::model::expand(&fleet).remove(0);
    let taken =
        json!({"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]});
    let mut other = pod(&json!({}), &taken);
    other.metadata.uid = Some("other".into());
    other.status = Some(
        serde_json::from_value(json!({ "startTime": "2026-01-01T00:00:00Z" })).expect("a status"),
    );
    let found = admit::rejection(
        &pod(&json!({}), &spec),
        &node,
        &[std::sync::Arc::new(other)],
    );
    assert_eq!(found.map(|found| found.reason).as_deref(), reason);
}

#[test]
fn of_two_competing_pods_one_is_admitted() {
    let pool = crate::model::Pool {
        capacity: [("pods".to_owned(), crate::model::Amount::Number(1))].into(),
        ..crate::model::Pool::new("n", "amd64")
    };
    let node = crate::model::expand(&crate::Fleet::of_pools(vec![pool])).remove(0);
    let named = |uid: &str| {
        let mut pod = pod(&json!({}), &json!({}));
        pod.metadata.uid = Some(uid.into());
        std::sync::Arc::new(pod)
    };
    let both = [named("a"), named("b")];
    let rejected: Vec<_> = both
        .iter()
        .map(|pod| admit::rejection(pod, &node, &both))
        .collect();
    assert_eq!(rejected[0], None);
    assert_eq!(
        rejected[1].as_ref().map(|found| found.reason.as_str()),
        Some("OutOfpods")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Starting every step from the stored status yields the same lifecycle as one long-running
    /// process.
    #[test]
    fn lifecycle_is_the_same_across_restarts(
        policy in prop::sample::select(vec!["Always", "OnFailure", "Never"]),
        inits in 0..3usize,
        sidecar in any::<bool>(),
        code in prop::option::of(0..2i32),
        runs in prop::option::of(0..20u32),
        delay in prop::option::of(0..20i32),
    ) {
        let mut list: Vec<Value> = (0..inits).map(|index| json!({ "name": format!("i{index}"), "image": "i" })).collect();
        if sidecar {
            list.insert(inits / 2, json!({ "name": "s", "image": "s", "restartPolicy": "Always" }));
        }
        let mut annotations = serde_json::Map::new();
        if let Some(code) = code {
            annotations.insert(names::EXIT_CODE.into(), json!(code.to_string()));
        }
        if let Some(runs) = runs {
            annotations.insert(names::RUN_FOR.into(), json!(format!("{runs}s")));
        }
        let spec = json!({
            "restartPolicy": policy,
            "initContainers": if list.is_empty() { Value::Null } else { json!(list) },
            "containers": [{ "name": "main", "image": "m",
                "readinessProbe": delay.map(|delay| json!({ "initialDelaySeconds": delay })) }],
        });
        let pod = pod(&Value::Object(annotations), &spec);
        // Long after anything but a further back-off is due.
        let (one, _) = live(&pod, &Outcome::Runs, after(50), false);
        let (other, _) = live(&pod, &Outcome::Runs, after(50), true);
        prop_assert_eq!(phase(&one), phase(&other));
        if runs != Some(0) {
            let restarts = |status: &PodStatus| status.init_container_statuses.iter().flatten().map(|own| own.restart_count).sum::<i32>();
            prop_assert_eq!(restarts(&one), restarts(&other));
            let count = |status: &PodStatus| state(status)["restartCount"].as_i64().unwrap_or_default();
            // Stored times have no fractions, which shortens a wait by up to a second.
            prop_assert!((count(&one) - count(&other)).abs() <= 1);
        }
    }
}

#[test]
fn speed_shortens_waits() {
    let pod = pod(&json!({}), &json!({}));
    let (behaviour, _) = Behaviour::of(&pod);
    let inputs = LifecycleInputs {
        pod: &pod,
        behaviour: &behaviour,
        outcome: &|_| Outcome::Runs,
        rejection: &|| None,
        host_address: None,
        address: &|| None,
        volumes_ready: true,
        no_sandbox: None,
    };
    let slow = advance(PodStatus::default(), &inputs, Clock::new(begin(), 1.0));
    let wait = slow.wake.expect("it will start").duration_since(begin());
    assert!(wait > SignedDuration::from_millis(500));
    let fast = advance(PodStatus::default(), &inputs, Clock::new(begin(), 10.0));
    let ten_times = fast.wake.expect("it will start").duration_since(begin());
    let tenth = Duration::try_from(wait).expect("positive") / 10;
    assert!(ten_times.unsigned_abs().abs_diff(tenth) < Duration::from_millis(1));
    let at_once = advance(PodStatus::default(), &inputs, Clock::new(begin(), 1e6));
    assert_eq!(
        phase(&at_once.status),
        "Running",
        "no write without a visible change"
    );
}
