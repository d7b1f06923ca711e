//! The pod lifecycle as a pure function of status and time: from the current status and the current
//! time to the next status. All state is in the status, so a restarted process resumes where it
//! stopped.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, HostIP, Pod, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::admit::Rejection;
use super::behaviour::{self, Behaviour, Outcome};
use super::conditions;
use super::containers::{self, Plan, Restarts};
use crate::scheduler::resources::is_sidecar;

/// Transitions due within this interval are taken at once: they are not worth a write of their own.
const COALESCE_WINDOW: Duration = Duration::from_millis(20);

/// Delay before a kubelet retries creating a sandbox.
const SANDBOX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The current time, the speed of simulated time, and the earliest pending transition.
pub(crate) struct Clock {
    pub(super) now: Timestamp,
    speed: f64,
    wake: Option<Timestamp>,
}

impl Clock {
    pub(crate) fn new(now: Timestamp, speed: f64) -> Self {
        Self {
            now,
            speed,
            wake: None,
        }
    }

    /// Whether the simulated duration has passed since then; if not, requests a wake-up for that
    /// time.
    pub(super) fn reached(&mut self, since: Timestamp, after: Duration) -> bool {
        let after = after.div_f64(self.speed.clamp(1e-6, 1e9));
        self.passed(since, after)
    }

    /// The simulated duration since then.
    pub(super) fn since(&self, then: Timestamp) -> Duration {
        let real = self.now.duration_since(then);
        let real = Duration::try_from(real).unwrap_or_default();
        let seconds = real.as_secs_f64() * self.speed.clamp(1e-6, 1e9);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Whether the real duration has passed since then; if not, requests a wake-up for that time.
    fn passed(&mut self, since: Timestamp, after: Duration) -> bool {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        let Ok(due) = since.checked_add(after) else {
            return false;
        };
        let moment = SignedDuration::try_from(COALESCE_WINDOW).unwrap_or_default();
        if self.now.checked_add(moment).is_ok_and(|soon| due <= soon) {
            return true;
        }
        self.wake = Some(self.wake.map_or(due, |wake| wake.min(due)));
        false
    }
}

/// An event to be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KubeletEvent {
    pub(crate) kind: &'static str,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) part: Option<String>,
}

/// Inputs of the lifecycle besides the pod's status.
pub(crate) struct LifecycleInputs<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) behaviour: &'a Behaviour,
    /// The outcome of a container on this node.
    pub(crate) outcome: &'a dyn Fn(&Container) -> Outcome,
    pub(crate) rejection: &'a dyn Fn() -> Option<Rejection>,
    pub(crate) host_address: Option<&'a str>,
    /// Allocates an address for the pod.
    pub(crate) address: &'a dyn Fn() -> Option<String>,
    pub(crate) volumes_ready: bool,
    /// Why the node's container runtime cannot create a sandbox for the pod.
    pub(crate) no_sandbox: Option<&'a str>,
}

/// The next status of a pod, with the events to emit.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) status: PodStatus,
    /// When to reconcile again, if a transition depends on time alone.
    pub(crate) wake: Option<Timestamp>,
    /// The pod has stopped and can be deleted.
    pub(crate) gone: bool,
    pub(crate) new_events: Vec<KubeletEvent>,
}

/// Advances a pod to the current time.
pub(crate) fn advance(status: PodStatus, inputs: &LifecycleInputs<'_>, mut clock: Clock) -> Next {
    let mut new_events = Vec::new();
    let mut status = status;
    let gone = live(&mut status, inputs, &mut clock, &mut new_events);
    let wake = clock.wake.filter(|_| !gone);
    Next {
        status,
        wake,
        gone,
        new_events,
    }
}

/// Advances the status; returns whether the pod can be deleted.
fn live(
    status: &mut PodStatus,
    inputs: &LifecycleInputs<'_>,
    clock: &mut Clock,
    new_events: &mut Vec<KubeletEvent>,
) -> bool {
    let empty = PodSpec::default();
    let pod = inputs.pod;
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let leaving = pod.metadata.deletion_timestamp.is_some();
    let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if over {
        return leaving;
    }
    if status.start_time.is_none() {
        if leaving {
            return true;
        }
        if let Some(rejection) = (inputs.rejection)() {
            status.phase = Some("Failed".into());
            status.start_time = Some(Time(clock.now));
            status.reason = Some(rejection.reason.clone());
            status.message = Some(format!("Pod was rejected: {}", rejection.message));
            new_events.push(KubeletEvent {
                kind: "Warning",
                reason: rejection.reason.into(),
                message: rejection.message,
                part: None,
            });
            conditions::set(status, pod, spec, clock.now);
            return false;
        }
        admit(status, spec, inputs, clock.now);
    }
    if leaving {
        return stop(status, inputs, spec, clock, new_events);
    }
    let started = status.start_time.as_ref().map_or(clock.now, |at| at.0);
    if let Some(seconds) = spec.active_deadline_seconds {
        let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        // In real time: deadlines are part of the spec that a user reads, while the durations of
        // pulls and starts are simulated.
        if clock.passed(started, limit) {
            finish(status, clock.now, 137);
            status.phase = Some("Failed".into());
            status.reason = Some("DeadlineExceeded".into());
            status.message =
                Some("Pod was active on the node longer than the specified deadline".into());
            conditions::set(status, pod, spec, clock.now);
            return false;
        }
    }
    if let Some(why) = inputs.no_sandbox.filter(|_| !has_begun(status)) {
        new_events.push(KubeletEvent {
            kind: "Warning",
            reason: "FailedCreatePodSandBox".into(),
            message: format!("Failed to create pod sandbox: {why}"),
            part: None,
        });
        // Only for its side effect, a wake-up.
        clock.passed(clock.now, SANDBOX_RETRY_DELAY);
        conditions::set(status, pod, spec, clock.now);
        return false;
    }
    if inputs.volumes_ready {
        run(status, spec, inputs, started, clock, new_events);
    }
    status.phase = Some(phase(status, spec).to_owned());
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        // Sidecars run as long as the pod and terminate with it.
        finish(status, clock.now, 0);
        clock.wake = None;
    }
    conditions::set(status, pod, spec, clock.now);
    false
}

/// Whether any container of the pod has started.
fn has_begun(status: &PodStatus) -> bool {
    let all = status.container_statuses.iter().flatten();
    let mut all = all.chain(status.init_container_statuses.iter().flatten());
    all.any(begun)
}

fn begun(own: &ContainerStatus) -> bool {
    containers::running(own).is_some()
        || containers::terminated(own).is_some()
        || own.restart_count > 0
}

/// Admits the pod to the node; no container runs yet.
fn admit(status: &mut PodStatus, spec: &PodSpec, inputs: &LifecycleInputs<'_>, now: Timestamp) {
    status.phase = Some("Pending".into());
    status.start_time = Some(Time(now));
    if let Some(host) = inputs.host_address {
        status.host_ip = Some(host.to_owned());
        status.host_ips = Some(vec![HostIP {
            ip: host.to_owned(),
        }]);
    }
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let waits_for = if inits.is_empty() {
        "ContainerCreating"
    } else {
        "PodInitializing"
    };
    let fresh = |list: &[Container]| -> Vec<ContainerStatus> {
        list.iter()
            .map(|container| containers::fresh(container, waits_for))
            .collect()
    };
    status.container_statuses = Some(fresh(&spec.containers));
    status.init_container_statuses = (!inits.is_empty()).then(|| fresh(inits));
}

/// Starts, runs and ends containers: init containers one after the other, then all others.
fn run(
    status: &mut PodStatus,
    spec: &PodSpec,
    inputs: &LifecycleInputs<'_>,
    started: Timestamp,
    clock: &mut Clock,
    new_events: &mut Vec<KubeletEvent>,
) {
    let policy = Restarts::of(spec.restart_policy.as_deref());
    let mut begins = started;
    let mut initialized = true;
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let mut init_statuses = status.init_container_statuses.take().unwrap_or_default();
    for container in inits {
        let Some(own) = init_statuses
            .iter_mut()
            .find(|status| status.name == container.name)
        else {
            continue;
        };
        let sidecar = is_sidecar(container);
        let plan = Plan {
            list: "initContainers",
            runs_for: (!sidecar).then(behaviour::init_runs_for),
            exit_code: 0,
            restarts: match (sidecar, policy) {
                (true, _) => Restarts::Always,
                (false, Restarts::Never) => Restarts::Never,
                (false, _) => Restarts::OnFailure,
            },
            ..plan(inputs, container)
        };
        containers::advance(own, &plan, begins, clock, new_events);
        let done = if sidecar {
            let running = containers::running(own).filter(|_| own.started == Some(true));
            running.and_then(|running| running.started_at.clone())
        } else {
            let end = containers::terminated(own).filter(|end| end.exit_code == 0);
            let done = end.and_then(|end| end.finished_at.clone());
            own.ready = done.is_some();
            done
        };
        let Some(done) = done else {
            initialized = false;
            break;
        };
        begins = begins.max(done.0);
    }
    if !init_statuses.is_empty() {
        status.init_container_statuses = Some(init_statuses);
    }
    // Containers that have started keep running while a failed sidecar restarts.
    let mut statuses = status.container_statuses.take().unwrap_or_default();
    for container in &spec.containers {
        let Some(own) = statuses
            .iter_mut()
            .find(|status| status.name == container.name)
        else {
            continue;
        };
        if !initialized && !begun(own) {
            continue;
        }
        let plan = Plan {
            list: "containers",
            runs_for: inputs.behaviour.runs_for(inputs.pod),
            exit_code: inputs.behaviour.exit_code(),
            restarts: policy,
            ..plan(inputs, container)
        };
        containers::advance(own, &plan, begins, clock, new_events);
    }
    status.container_statuses = Some(statuses);
    if status.pod_ip.is_none() && has_begun(status) {
        let address = if spec.host_network == Some(true) {
            status.host_ip.clone()
        } else {
            (inputs.address)()
        };
        status.pod_ips = address.clone().map(|ip| vec![PodIP { ip }]);
        status.pod_ip = address;
    }
}

fn plan<'a>(inputs: &LifecycleInputs<'a>, container: &'a Container) -> Plan<'a> {
    Plan {
        pod: inputs.pod,
        container,
        list: "containers",
        outcome: inputs
            .behaviour
            .outcome(container, (inputs.outcome)(container)),
        starts_after: behaviour::starts_after(inputs.pod, container),
        started_after: behaviour::started_after(container),
        ready_after: inputs.behaviour.ready_after(container),
        runs_for: None,
        exit_code: 0,
        restarts: Restarts::Always,
    }
}

/// The phase of a pod, derived from its containers as the kubelet does it.
fn phase(status: &PodStatus, spec: &PodSpec) -> &'static str {
    let policy = Restarts::of(spec.restart_policy.as_deref());
    let inits = spec.init_containers.iter().flatten();
    for (container, own) in inits.zip(status.init_container_statuses.iter().flatten()) {
        if is_sidecar(container) {
            if own.started != Some(true) && own.restart_count == 0 {
                return "Pending";
            }
            continue;
        }
        match containers::terminated(own) {
            Some(end) if end.exit_code == 0 => {}
            Some(_) if policy == Restarts::Never => return "Failed",
            _ => return "Pending",
        }
    }
    let (mut running, mut waiting, mut succeeded, mut failed) = (0, 0, 0, 0);
    for own in status.container_statuses.iter().flatten() {
        let ended = containers::terminated(own).or_else(|| {
            let waits = own.state.as_ref()?.waiting.is_some();
            let last = own.last_state.as_ref()?.terminated.as_ref();
            last.filter(|_| waits)
        });
        match ended {
            _ if containers::running(own).is_some() => running += 1,
            Some(end) if end.exit_code == 0 => succeeded += 1,
            Some(_) => failed += 1,
            None => waiting += 1,
        }
    }
    match (waiting, running, succeeded, failed) {
        (1.., _, _, _) | (0, 0, 0, 0) => "Pending",
        (0, 0, 1.., 0) if policy != Restarts::Always => "Succeeded",
        (0, 0, _, 1..) if policy == Restarts::Never => "Failed",
        _ => "Running",
    }
}

/// Terminates all running containers.
fn finish(status: &mut PodStatus, now: Timestamp, code: i32) {
    let all = status.container_statuses.iter_mut().flatten();
    let inits = status.init_container_statuses.iter_mut().flatten();
    for own in all.chain(inits) {
        if containers::running(own).is_some() {
            own.state = Some(containers::end(own, code, None, now));
            own.ready = false;
            own.started = Some(false);
        }
    }
}

/// Stops a pod that is being deleted; returns whether it has stopped.
fn stop(
    status: &mut PodStatus,
    inputs: &LifecycleInputs<'_>,
    spec: &PodSpec,
    clock: &mut Clock,
    new_events: &mut Vec<KubeletEvent>,
) -> bool {
    let meta = &inputs.pod.metadata;
    let grace = meta.deletion_grace_period_seconds.unwrap_or_default();
    let deadline = meta
        .deletion_timestamp
        .as_ref()
        .map_or(clock.now, |at| at.0);
    let requested_at = deadline
        .checked_sub(SignedDuration::from_secs(grace))
        .unwrap_or(clock.now);
    let runs = |own: &ContainerStatus| containers::running(own).is_some();
    let all = status.container_statuses.iter().flatten();
    let running = all
        .chain(status.init_container_statuses.iter().flatten())
        .any(runs);
    let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
    // Nominal durations are compared, as if the simulation ran in real time: whether a container is
    // killed with 137 must not depend on the speed.
    let in_time = inputs.behaviour.stops_after() <= grace;
    if running {
        let stopped = if in_time {
            clock.reached(requested_at, inputs.behaviour.stops_after())
        } else {
            clock.passed(requested_at, grace)
        };
        if !stopped {
            return false;
        }
        for own in status.container_statuses.iter().flatten() {
            if runs(own) {
                new_events.push(KubeletEvent {
                    kind: "Normal",
                    reason: "Killing".into(),
                    message: format!("Stopping container {}", own.name),
                    part: Some(format!("spec.containers{{{}}}", own.name)),
                });
            }
        }
    }
    finish(status, clock.now, if in_time { 0 } else { 137 });
    let succeeded = status
        .container_statuses
        .iter()
        .flatten()
        .all(|own| containers::terminated(own).is_some_and(|end| end.exit_code == 0));
    let phase = if succeeded { "Succeeded" } else { "Failed" };
    status.phase = Some(phase.into());
    conditions::set(status, inputs.pod, spec, clock.now);
    true
}
