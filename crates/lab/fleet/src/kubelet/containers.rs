//! The lifecycle of one container: image pull, start, termination, restart.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::advance::{Clock, KubeletEvent};
use super::behaviour::Outcome;
use crate::hash;

/// First delay before a container restart or another image pull (the kubelet's 10 s, doubling to 5
/// min).
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LAST_BACKOFF: Duration = Duration::from_mins(5);
/// Waiting reason of a container whose image pull is in backoff.
const BACK_OFF: &str = "ImagePullBackOff";

/// The simulated behaviour of a container.
pub(super) struct Plan<'a> {
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
    /// `containers` or `initContainers`.
    pub(super) list: &'static str,
    pub(super) outcome: Outcome,
    pub(super) starts_after: Duration,
    pub(super) started_after: Duration,
    pub(super) ready_after: Duration,
    pub(super) runs_for: Option<Duration>,
    pub(super) exit_code: i32,
    pub(super) restarts: Restarts,
}

/// Restart policy of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restarts {
    Always,
    OnFailure,
    Never,
}

impl Restarts {
    pub(super) fn of(policy: Option<&str>) -> Self {
        match policy {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

/// A container that has not been started.
pub(super) fn fresh(container: &Container, waits_for: &str) -> ContainerStatus {
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        ready: false,
        started: Some(false),
        restart_count: 0,
        state: Some(waiting(waits_for, None)),
        last_state: Some(ContainerState::default()),
        ..ContainerStatus::default()
    }
}

pub(super) fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message,
        }),
        ..ContainerState::default()
    }
}

pub(super) fn running(status: &ContainerStatus) -> Option<&ContainerStateRunning> {
    status.state.as_ref()?.running.as_ref()
}

pub(super) fn terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

fn last_end(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.last_state.as_ref()?.terminated.as_ref()
}

fn time(at: Option<&Time>) -> Option<Timestamp> {
    at.map(|at| at.0)
}

/// Advances a container to the current time, if it may start at `begins`.
pub(super) fn advance(
    status: &mut ContainerStatus,
    plan: &Plan<'_>,
    begins: Timestamp,
    clock: &mut Clock,
    new_events: &mut Vec<KubeletEvent>,
) {
    // Each iteration is one transition with a time of its own, so the loop ends.
    loop {
        let moved = if running(status).is_some() {
            run(status, plan, clock)
        } else if terminated(status).is_some() {
            ended(status, plan, clock, new_events)
        } else {
            wait(status, plan, begins, clock, new_events)
        };
        if !moved {
            return;
        }
    }
}

fn wait(
    status: &mut ContainerStatus,
    plan: &Plan<'_>,
    begins: Timestamp,
    clock: &mut Clock,
    new_events: &mut Vec<KubeletEvent>,
) -> bool {
    let reason = status
        .state
        .as_ref()
        .and_then(|state| state.waiting.as_ref()?.reason.clone())
        .unwrap_or_default();
    let image = plan.container.image.clone().unwrap_or_default();
    if reason == "CrashLoopBackOff" {
        let since = last_end(status).and_then(|end| time(end.finished_at.as_ref()));
        if !clock.reached(since.unwrap_or(begins), backoff(status.restart_count)) {
            return false;
        }
        start(status, plan, clock, new_events);
        return true;
    }
    if let Outcome::NoImage {
        reason: why,
        message,
    } = &plan.outcome
    {
        let pulling = |new_events: &mut Vec<KubeletEvent>| {
            new_events.push(plan.event("Normal", "Pulling", format!("Pulling image {image:?}")));
            let text = format!("Failed to pull image {image:?}: {message}");
            new_events.push(plan.event("Warning", "Failed", text));
            new_events.push(plan.event("Warning", "Failed", format!("Error: {why}")));
        };
        let Some(pull) = pull(plan, begins, clock) else {
            return false;
        };
        // An invalid image name is never pulled, so there is no backoff.
        let pull = if why == "InvalidImageName" {
            Pull::Failed
        } else {
            pull
        };
        match pull {
            Pull::Failed if reason != *why => {
                pulling(new_events);
                status.state = Some(waiting(why, Some(message.clone())));
            }
            Pull::BacksOff if reason != BACK_OFF => {
                if reason != *why {
                    pulling(new_events);
                }
                let text = format!("Back-off pulling image {image:?}");
                new_events.push(plan.event("Normal", "BackOff", text.clone()));
                let text = format!("{text}: {why}: {message}");
                status.state = Some(waiting(BACK_OFF, Some(text)));
            }
            Pull::Failed | Pull::BacksOff => {}
        }
        return false;
    }
    // Once the image is available, the container leaves the backoff at once.
    let again = reason == BACK_OFF || reason == "ErrImagePull";
    if !again && !clock.reached(begins, plan.starts_after) {
        return false;
    }
    new_events.push(plan.event("Normal", "Pulling", format!("Pulling image {image:?}")));
    new_events.push(plan.event("Normal", "Pulled", pulled(plan, &image)));
    start(status, plan, clock, new_events);
    true
}

/// State of an image pull that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pull {
    /// An attempt just failed.
    Failed,
    /// Waiting for the next attempt.
    BacksOff,
}

/// State of a failing image pull, computed from the time alone: the first attempt is immediate, the
/// next ones follow after 10 s, 20 s, 40 s and so on, up to every 5 minutes. `None` before the
/// first attempt.
fn pull(plan: &Plan<'_>, begins: Timestamp, clock: &mut Clock) -> Option<Pull> {
    let mut tried = plan.starts_after;
    if !clock.reached(begins, tried) {
        return None;
    }
    let mut wait = FIRST_BACKOFF;
    loop {
        if wait == LAST_BACKOFF {
            // From here on the interval is constant, so compute the position in it instead of
            // iterating.
            let since = clock.since(begins).saturating_sub(tried);
            let tries = since.as_secs() / LAST_BACKOFF.as_secs();
            let tries = u32::try_from(tries).unwrap_or(u32::MAX).saturating_sub(1);
            tried = tried.saturating_add(LAST_BACKOFF.saturating_mul(tries));
        }
        if !clock.reached(begins, tried + plan.starts_after * 2) {
            return Some(Pull::Failed);
        }
        let next = tried.saturating_add(wait);
        if !clock.reached(begins, next) {
            return Some(Pull::BacksOff);
        }
        tried = next;
        wait = wait.saturating_mul(2).min(LAST_BACKOFF);
    }
}

fn pulled(plan: &Plan<'_>, image: &str) -> String {
    let took = plan.starts_after.as_millis();
    format!(
        "Successfully pulled image {image:?} in {took}ms ({took}ms including waiting). Image size: {} bytes.",
        // Derived from the name, so that an image has the same size in every event and every run.
        10_000_000 + hash::of(image.as_bytes()) % 90_000_000
    )
}

fn start(
    status: &mut ContainerStatus,
    plan: &Plan<'_>,
    clock: &Clock,
    new_events: &mut Vec<KubeletEvent>,
) {
    if last_end(status).is_some() {
        status.restart_count += 1;
    }
    let uid = plan.pod.metadata.uid.as_deref().unwrap_or_default();
    // Not random, so that a repeated reconcile writes the same ID; the count gives each restart
    // another one.
    let instance = format!("{uid}/{}/{}", status.name, status.restart_count);
    status.container_id = Some(format!("containerd://{}", digest(&instance)));
    let image = plan.container.image.as_deref().unwrap_or_default();
    image.clone_into(&mut status.image);
    status.image_id = format!("{}@sha256:{}", repository(image), digest(image));
    status.state = Some(ContainerState {
        running: Some(ContainerStateRunning {
            started_at: Some(Time(clock.now)),
        }),
        ..ContainerState::default()
    });
    status.started = Some(plan.started_after.is_zero());
    status.ready = false;
    new_events.push(plan.event("Normal", "Created", "Container created".to_owned()));
    new_events.push(plan.event("Normal", "Started", "Container started".to_owned()));
}

fn run(status: &mut ContainerStatus, plan: &Plan<'_>, clock: &mut Clock) -> bool {
    let started = running(status).and_then(|running| time(running.started_at.as_ref()));
    let started = started.unwrap_or(clock.now);
    // Before the normal end, which such a container never reaches.
    if let Outcome::Dies { code, message } = &plan.outcome {
        let text = Some(message.clone());
        status.state = Some(end(status, *code, text, clock.now));
        status.ready = false;
        status.started = Some(false);
        return true;
    }
    if let Some(runs_for) = plan.runs_for
        && clock.reached(started, runs_for)
    {
        status.state = Some(end(status, plan.exit_code, None, clock.now));
        status.ready = false;
        status.started = Some(false);
        return true;
    }
    if status.started != Some(true) && clock.reached(started, plan.started_after) {
        status.started = Some(true);
    }
    if !status.ready && clock.reached(started, plan.ready_after) {
        status.started = Some(true);
        status.ready = true;
    }
    false
}

/// The terminated state of a container that ends now.
pub(super) fn end(
    status: &ContainerStatus,
    code: i32,
    message: Option<String>,
    now: Timestamp,
) -> ContainerState {
    let reason = if code == 0 { "Completed" } else { "Error" };
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: status.container_id.clone(),
            exit_code: code,
            finished_at: Some(Time(now)),
            started_at: running(status).and_then(|running| running.started_at.clone()),
            message,
            reason: Some(reason.to_owned()),
            signal: None,
        }),
        ..ContainerState::default()
    }
}

fn ended(
    status: &mut ContainerStatus,
    plan: &Plan<'_>,
    clock: &Clock,
    new_events: &mut Vec<KubeletEvent>,
) -> bool {
    let code = terminated(status).map_or(0, |end| end.exit_code);
    let again = match plan.restarts {
        Restarts::Always => true,
        Restarts::OnFailure => code != 0,
        Restarts::Never => false,
    };
    if !again {
        return false;
    }
    let wait = backoff(status.restart_count);
    status.last_state = status.state.take();
    if wait.is_zero() {
        start(status, plan, clock, new_events);
        return true;
    }
    let meta = &plan.pod.metadata;
    let name = |part: &Option<String>| part.clone().unwrap_or_default();
    let pod = format!(
        "{}_{}({})",
        name(&meta.name),
        name(&meta.namespace),
        name(&meta.uid)
    );
    let text = format!(
        "back-off {} restarting failed container={} pod={pod}",
        machinery::time::format_duration(SignedDuration::try_from(wait).unwrap_or_default()),
        status.name
    );
    new_events.push(plan.event(
        "Warning",
        "BackOff",
        format!(
            "Back-off restarting failed container {} in pod {pod}",
            status.name
        ),
    ));
    status.state = Some(waiting("CrashLoopBackOff", Some(text)));
    true
}

/// The first restart is immediate, each further one later.
fn backoff(restarts: i32) -> Duration {
    match u32::try_from(restarts) {
        Ok(0) | Err(_) => Duration::ZERO,
        Ok(restarts) => FIRST_BACKOFF
            .saturating_mul(1 << (restarts - 1).min(8))
            .min(LAST_BACKOFF),
    }
}

/// A string in the form of a sha256 digest.
fn digest(of: &str) -> String {
    let half = |salt: &str| hash::of(format!("{of}{salt}").as_bytes());
    format!("{:032x}{:032x}", half("a"), half("b"))
}

/// An image without its tag.
fn repository(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

impl Plan<'_> {
    pub(super) fn event(
        &self,
        kind: &'static str,
        reason: &'static str,
        message: String,
    ) -> KubeletEvent {
        KubeletEvent {
            kind,
            reason: reason.into(),
            message,
            part: Some(format!("spec.{}{{{}}}", self.list, self.container.name)),
        }
    }
}
