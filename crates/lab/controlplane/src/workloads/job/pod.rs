//! The pods of a Job.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec,
};
use machinery::meta::MAX_GENERATED_NAME_BASE;

use super::super::pods::pod_from_template;
use super::policy::{Failure, judge};
use crate::object;

/// Keeps a terminated pod until it has been counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Whether a pod waits to be counted.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    let mut finalizers = pod.metadata.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == FINALIZER)
}

/// The completion index of a pod.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    number(pod, INDEX)
}

/// Failures of a pod's index before it.
pub(super) fn failures_before(pod: &Pod) -> i32 {
    number(pod, FAILURES).unwrap_or(0)
}

/// The same, including failures that the policy ignores.
pub(super) fn all_failures_before(pod: &Pod) -> i32 {
    failures_before(pod).saturating_add(number(pod, IGNORED_FAILURES).unwrap_or(0))
}

fn number(pod: &Pod, annotation: &str) -> Option<i32> {
    let text = object::annotation(&pod.metadata, annotation)?;
    text.parse().ok().filter(|number| *number >= 0)
}

/// A pod to create.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    /// Its completion index.
    pub(super) index: Option<i32>,
    /// Failures and ignored failures of its index so far, with a backoff limit per index.
    pub(super) failures: Option<(i32, i32)>,
}

impl Wanted {
    /// The replacement pod of an index.
    pub(super) fn instead(job: &Job, index: i32, failed: Option<&Pod>) -> Self {
        let spec = job.spec.as_ref();
        let policy = spec.and_then(|spec| spec.pod_failure_policy.as_ref());
        let failures = failed.map_or((0, 0), |pod| {
            let counted = failures_before(pod);
            let ignored = number(pod, IGNORED_FAILURES).unwrap_or(0);
            match judge(policy, pod) {
                Failure::Ignored => (counted, ignored.saturating_add(1)),
                _ => (counted.saturating_add(1), ignored),
            }
        });
        Self {
            index: Some(index),
            failures: Some(failures),
        }
    }
}

/// Renders a pod.
pub(super) fn render(job: &Job, template: &PodTemplateSpec, wanted: &Wanted) -> Pod {
    let mut pod = pod_from_template(job, template);
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let Some(index) = wanted.index else {
        return pod;
    };
    let name = object::name(&job.metadata);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(INDEX.to_owned(), index.to_string());
    if let Some((counted, ignored)) = wanted.failures {
        annotations.insert(FAILURES.to_owned(), counted.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
        }
    }
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(INDEX.to_owned(), index.to_string());
    pod.metadata.generate_name = Some(prefix(name, index));
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{name}-{index}"));
    let first = spec.init_containers.iter_mut().flatten();
    for container in first.chain(&mut spec.containers) {
        add_index_variable(container);
    }
    pod
}

/// The Job's name and the index; the name is truncated so that the index fits.
fn prefix(job: &str, index: i32) -> String {
    let suffix = format!("-{index}-");
    let room = MAX_GENERATED_NAME_BASE.saturating_sub(suffix.len());
    // Names of Jobs are ASCII.
    format!("{}{suffix}", &job[..job.len().min(room)])
}

fn add_index_variable(container: &mut Container) {
    let environment = container.env.get_or_insert_default();
    if environment.iter().any(|one| one.name == INDEX_VARIABLE) {
        return;
    }
    environment.push(EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: format!("metadata.labels['{INDEX}']"),
                api_version: None,
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    });
}
