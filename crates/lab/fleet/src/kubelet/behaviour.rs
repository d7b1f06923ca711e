//! How the containers of a pod behave: what annotations ask for, and what is usual.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use machinery::time::parse_duration;

use crate::{hash, names};

/// How long a container of a pod that is meant to end runs.
const JOB: Duration = Duration::from_secs(3);
/// How long a container that is meant to fail runs.
const CRASH: Duration = Duration::from_secs(2);
/// How long an init container runs.
const INIT: Duration = Duration::from_secs(1);
/// How long containers take to stop.
const STOP: Duration = Duration::from_secs(1);
/// Pulling an image takes this, and up to as much again.
const PULL: Duration = Duration::from_millis(700);
/// A probe takes a moment.
const PROBE: Duration = Duration::from_millis(500);

/// What becomes of a container on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It runs.
    Runs,
    /// Its image cannot be had (`ErrImagePull`, `InvalidImageName`, ...).
    NoImage {
        /// The reason its status shows.
        reason: String,
        /// What is wrong, in a sentence.
        message: String,
    },
    /// It starts and ends at once, as a program for another architecture does.
    Dies {
        /// The code it ends with.
        code: i32,
        /// What it said.
        message: String,
    },
}

/// Says what becomes of containers. The default lets every image run everywhere.
pub trait Runtime: Send + Sync + 'static {
    /// What becomes of a container of a pod on a node.
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

/// What annotations of a pod ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Behaviour {
    run_for: Option<Duration>,
    exit_code: Option<i32>,
    ready_after: Option<Duration>,
    stop_after: Option<Duration>,
    fail_image: Option<String>,
}

impl Behaviour {
    /// Reads the annotations of a pod; what cannot be read does not count and is complained about.
    pub(crate) fn of(pod: &Pod) -> (Self, Vec<String>) {
        let mut complaints = Vec::new();
        let said = |name: &str| pod.metadata.annotations.as_ref()?.get(name).cloned();
        let mut duration = |name: &str| {
            let text = said(name)?;
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
        let exit_code = said(names::EXIT_CODE).and_then(|text| {
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
            fail_image: said(names::FAIL_IMAGE).filter(|reason| !reason.is_empty()),
        };
        (behaviour, complaints)
    }

    /// What becomes of a container, given what the runtime says of it.
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

    /// How long a container runs; `None` is for ever.
    pub(crate) fn runs_for(&self, pod: &Pod) -> Option<Duration> {
        let policy = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref());
        match (self.run_for, self.exit_code, policy) {
            (Some(told), _, _) => Some(told),
            (None, Some(_), _) => Some(CRASH),
            // It never starts anew, and runs for as long as the virtual machine in it.
            (None, None, Some("Never")) if is_launcher(pod) => None,
            (None, None, Some("Never" | "OnFailure")) => Some(JOB),
            (None, None, _) => None,
        }
    }

    pub(crate) fn exit_code(&self) -> i32 {
        self.exit_code.unwrap_or_default()
    }

    /// How long a container runs before it is ready.
    pub(crate) fn ready_after(&self, container: &Container) -> Duration {
        if let Some(told) = self.ready_after {
            return told;
        }
        let delay = |probe: Option<&k8s_openapi::api::core::v1::Probe>| {
            probe.map_or(Duration::ZERO, |probe| {
                let delay = probe.initial_delay_seconds.unwrap_or_default();
                Duration::from_secs(u64::try_from(delay).unwrap_or_default()) + PROBE
            })
        };
        started_after(container) + delay(container.readiness_probe.as_ref())
    }

    /// How long containers take to stop.
    pub(crate) fn stops_after(&self) -> Duration {
        self.stop_after.unwrap_or(STOP)
    }
}

/// Whether a virtual machine of KubeVirt's is in a pod.
fn is_launcher(pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get("kubevirt.io"))
        .is_some_and(|it| it == "virt-launcher")
}

/// How long a container runs before its startup probe is content.
pub(crate) fn started_after(container: &Container) -> Duration {
    container
        .startup_probe
        .as_ref()
        .map_or(Duration::ZERO, |probe| {
            let delay = probe.initial_delay_seconds.unwrap_or_default();
            Duration::from_secs(u64::try_from(delay).unwrap_or_default()) + PROBE
        })
}

/// How long an init container runs.
pub(crate) fn init_runs_for() -> Duration {
    INIT
}

/// How long it takes until a container starts: not the same for all.
pub(crate) fn starts_after(pod: &Pod, container: &Container) -> Duration {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let name = format!("{uid}/{}", container.name);
    PULL.mul_f64(1.0 + hash::fraction(&name))
}
