//! Simulated container behaviour: defaults, and the annotations that override them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use machinery::time::parse_duration;

use crate::{hash, names};

/// Run time of a container in a pod that is expected to complete.
const JOB_RUN_TIME: Duration = Duration::from_secs(3);
/// Run time of a container that is set to crash.
const CRASH_RUN_TIME: Duration = Duration::from_secs(2);
/// Run time of an init container.
const INIT_RUN_TIME: Duration = Duration::from_secs(1);
/// Time until containers stop after SIGTERM.
const STOP_TIME: Duration = Duration::from_secs(1);
/// Minimum time of an image pull; jitter adds up to as much again.
const MIN_PULL_TIME: Duration = Duration::from_millis(700);
/// Time of one probe.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// Outcome of a container on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The container runs.
    Runs,
    /// The image cannot be pulled (`ErrImagePull`, `InvalidImageName`, ...).
    NoImage {
        /// The waiting reason in the container status.
        reason: String,
        /// The message in the container status.
        message: String,
    },
    /// The container exits immediately, as a binary built for another architecture does.
    Dies {
        /// The exit code.
        code: i32,
        /// The termination message.
        message: String,
    },
}

/// Decides the outcome of containers. The default runs every image on every node.
pub trait Runtime: Send + Sync + 'static {
    /// The outcome of a container of a pod on a node.
    fn outcome(&self, node: &Node, pod: &Pod, container: &Container) -> Outcome;
}

/// Every image runs on every node.
#[derive(Debug, Clone, Copy, Default)]
pub struct EverythingRuns;

impl Runtime for EverythingRuns {
    fn outcome(&self, _: &Node, _: &Pod, _: &Container) -> Outcome {
        Outcome::Runs
    }
}

/// The behaviour requested by a pod's annotations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Behaviour {
    run_for: Option<Duration>,
    exit_code: Option<i32>,
    ready_after: Option<Duration>,
    stop_after: Option<Duration>,
    fail_image: Option<String>,
}

impl Behaviour {
    /// Parses the annotations of a pod; malformed ones are ignored and returned as warnings.
    pub(crate) fn of(pod: &Pod) -> (Self, Vec<String>) {
        let mut complaints = Vec::new();
        let annotation_of = |name: &str| pod.metadata.annotations.as_ref()?.get(name).cloned();
        let mut duration = |name: &str| {
            let text = annotation_of(name)?;
            let read = parse_duration(&text).ok();
            let read = read.and_then(|read| Duration::try_from(read).ok());
            if read.is_none() {
                complaints.push(format!(
                    "annotation {name} is {text:?}, but must be a duration of zero or more, for example 5s or 1m30s"
                ));
            }
            read
        };
        let run_for = duration(names::RUN_FOR);
        let ready_after = duration(names::READY_AFTER);
        let stop_after = duration(names::STOP_AFTER);
        let exit_code = annotation_of(names::EXIT_CODE).and_then(|text| {
            let read = text.parse().ok().filter(|code| (0..=255).contains(code));
            if read.is_none() {
                complaints.push(format!(
                    "annotation {} is {text:?}, but must be a number from 0 to 255",
                    names::EXIT_CODE
                ));
            }
            read
        });
        let behaviour = Self {
            run_for,
            exit_code,
            ready_after,
            stop_after,
            fail_image: annotation_of(names::FAIL_IMAGE).filter(|reason| !reason.is_empty()),
        };
        (behaviour, complaints)
    }

    /// The outcome of a container; annotations override the runtime's.
    pub(crate) fn outcome(&self, container: &Container, usual: Outcome) -> Outcome {
        match &self.fail_image {
            Some(reason) => Outcome::NoImage {
                reason: reason.clone(),
                message: format!(
                    "failed to pull and unpack image {:?}: simulated by annotation {}",
                    container.image.as_deref().unwrap_or_default(),
                    names::FAIL_IMAGE
                ),
            },
            None => usual,
        }
    }

    /// Run time of a container; `None` means until the pod is deleted.
    pub(crate) fn runs_for(&self, pod: &Pod) -> Option<Duration> {
        let policy = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref());
        match (self.run_for, self.exit_code, policy) {
            (Some(configured), _, _) => Some(configured),
            (None, Some(_), _) => Some(CRASH_RUN_TIME),
            // A virt-launcher is never restarted and runs as long as its virtual machine.
            (None, None, Some("Never")) if is_launcher(pod) => None,
            (None, None, Some("Never" | "OnFailure")) => Some(JOB_RUN_TIME),
            (None, None, _) => None,
        }
    }

    pub(crate) fn exit_code(&self) -> i32 {
        self.exit_code.unwrap_or_default()
    }

    /// How long a container runs before it is ready.
    pub(crate) fn ready_after(&self, container: &Container) -> Duration {
        if let Some(configured) = self.ready_after {
            return configured;
        }
        let delay = |probe: Option<&k8s_openapi::api::core::v1::Probe>| {
            probe.map_or(Duration::ZERO, |probe| {
                let delay = probe.initial_delay_seconds.unwrap_or_default();
                Duration::from_secs(u64::try_from(delay).unwrap_or_default()) + PROBE_TIME
            })
        };
        started_after(container) + delay(container.readiness_probe.as_ref())
    }

    /// How long containers take to stop.
    pub(crate) fn stops_after(&self) -> Duration {
        self.stop_after.unwrap_or(STOP_TIME)
    }
}

/// Whether the pod is a KubeVirt virt-launcher.
fn is_launcher(pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get("kubevirt.io"))
        .is_some_and(|it| it == "virt-launcher")
}

/// Time until a container passes its startup probe.
pub(crate) fn started_after(container: &Container) -> Duration {
    container
        .startup_probe
        .as_ref()
        .map_or(Duration::ZERO, |probe| {
            let delay = probe.initial_delay_seconds.unwrap_or_default();
            Duration::from_secs(u64::try_from(delay).unwrap_or_default()) + PROBE_TIME
        })
}

/// How long an init container runs.
pub(crate) fn init_runs_for() -> Duration {
    INIT_RUN_TIME
}

/// Time until a container starts, with jitter per container.
pub(crate) fn starts_after(pod: &Pod, container: &Container) -> Duration {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    // Derived from the pod and not random: every reconcile has to compute the same time.
    let name = format!("{uid}/{}", container.name);
    MIN_PULL_TIME.mul_f64(1.0 + hash::fraction(&name))
}
