//! Pods in a table (`printPod`).

use jiff::Timestamp;
use machinery::time;
use serde_json::Value;

use crate::builtin::entry::Cell::{At, IfNotEmpty, Of};
use crate::builtin::entry::{AGE, Column, NAME, column};
use crate::builtin::pod_spec::is_sidecar;
use crate::builtin::print;
use crate::builtin::value::Read;

/// Columns.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    column!("Ready" string Of(|pod| {
        let summary = Summary::of(pod);
        format!("{}/{}", summary.ready, summary.total).into()
    }) => "Containers that are ready, out of all"),
    column!("Status" string Of(|pod| Summary::of(pod).reason.into())
        => "Status of the pod, or the reason of its failure"),
    column!("Restarts" string At(restarts) => "How often containers were restarted, and when last"),
    AGE,
    column!("IP" wide Of(|pod| print::or(super::first_ip(pod), "<none>"))
        => "First address of the pod"),
    column!("Node" wide IfNotEmpty("spec.nodeName", "<none>") => "Node the pod runs on"),
    column!("Nominated Node" wide IfNotEmpty("status.nominatedNodeName", "<none>")
        => "Node that is being cleared for the pod"),
    column!("Readiness Gates" wide Of(readiness_gates)
        => "Readiness gates that are true, out of all"),
];

/// Number of restarts, and the time of the last one.
#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += status.number("restartCount");
        let ended = status.maybe_text("lastState.terminated.finishedAt");
        let ended = ended.and_then(|text| time::parse_time(text).ok());
        self.last = self.last.max(ended);
    }
}

/// State of a pod over all its containers (`printPod`).
struct Summary {
    total: usize,
    ready: usize,
    reason: String,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let phase = pod.text("status.phase");
        let mut reason = match pod.text("status.reason") {
            "" => phase.to_owned(),
            reason => reason.to_owned(),
        };
        for condition in pod.items("status.conditions") {
            if condition.text("type") == "PodScheduled"
                && condition.text("reason") == "SchedulingGated"
            {
                "SchedulingGated".clone_into(&mut reason);
            }
        }
        let inits = pod.items("spec.initContainers");
        let total = pod.count("spec.containers") + inits.iter().filter(|c| is_sidecar(c)).count();
        let (initializing, mut ready, all, of_sidecars) = summarize_inits(pod, inits, &mut reason);
        let mut restarts = all;
        let initialized = print::condition_is_true(pod.items("status.conditions"), "Initialized");
        if !initializing || initialized {
            restarts = of_sidecars;
            ready += summarize_containers(pod, &mut reason, &mut restarts);
        }
        if pod.has("metadata.deletionTimestamp") {
            if pod.text("status.reason") == "NodeLost" {
                "Unknown".clone_into(&mut reason);
            } else if !matches!(phase, "Failed" | "Succeeded") {
                "Terminating".clone_into(&mut reason);
            }
        }
        Self {
            total,
            ready,
            reason,
            restarts,
        }
    }
}

fn restarts(pod: &Value, now: Timestamp) -> Value {
    let restarts = Summary::of(pod).restarts;
    match restarts.last {
        Some(last) if restarts.count != 0 => {
            let ago = time::human_duration(now.duration_since(last));
            format!("{} ({ago} ago)", restarts.count).into()
        }
        _ => restarts.count.to_string().into(),
    }
}

/// Init containers: whether one is still running, how many sidecars are ready, restarts of all and
/// of sidecars alone.
fn summarize_inits(
    pod: &Value,
    inits: &[Value],
    reason: &mut String,
) -> (bool, usize, Restarts, Restarts) {
    let (mut all, mut of_sidecars) = (Restarts::default(), Restarts::default());
    let mut ready = 0;
    for (i, status) in pod.items("status.initContainerStatuses").iter().enumerate() {
        let sidecar = inits
            .iter()
            .any(|c| c.text("name") == status.text("name") && is_sidecar(c));
        all.add(status);
        if sidecar {
            of_sidecars.add(status);
        }
        let terminated = status.at("state.terminated");
        if !terminated.is_null() && terminated.number("exitCode") == 0 {
            continue;
        }
        if sidecar && status.is_true("started") {
            ready += usize::from(status.is_true("ready"));
            continue;
        }
        let waiting = status.text("state.waiting.reason");
        *reason = if !terminated.is_null() {
            format!("Init:{}", ending(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{i}/{}", inits.len())
        };
        return (true, ready, all, of_sidecars);
    }
    (false, ready, all, of_sidecars)
}

/// How a container ended.
fn ending(terminated: &Value) -> String {
    match (terminated.text("reason"), terminated.number("signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Main containers, last first, so that the status shows the first failing one.
fn summarize_containers(pod: &Value, reason: &mut String, restarts: &mut Restarts) -> usize {
    let mut ready = 0;
    let mut running = false;
    let mut failure = None;
    for status in pod.items("status.containerStatuses").iter().rev() {
        restarts.add(status);
        let waiting = status.text("state.waiting.reason");
        if !waiting.is_empty() {
            waiting.clone_into(reason);
        } else if status.has("state.terminated") {
            *reason = ending(status.at("state.terminated"));
            if status.number("state.terminated.exitCode") != 0 {
                failure = Some(reason.clone());
            }
        } else if status.is_true("ready") && status.has("state.running") {
            running = true;
            ready += 1;
        }
    }
    if reason == "Completed" {
        if running && print::condition_is_true(pod.items("status.conditions"), "Ready") {
            "Running".clone_into(reason);
        } else if let Some(failure) = failure {
            *reason = failure;
        } else if running {
            "NotReady".clone_into(reason);
        }
    }
    ready
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = pod.items("spec.readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let conditions = pod.items("status.conditions");
    let open = gates.iter().filter(|gate| {
        let kind = gate.text("conditionType");
        let condition = conditions
            .iter()
            .find(|condition| condition.text("type") == kind);
        condition.is_some_and(|condition| condition.text("status") == "True")
    });
    format!("{}/{}", open.count(), gates.len()).into()
}
