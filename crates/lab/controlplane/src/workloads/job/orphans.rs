//! Releases pods with the tracking finalizer whose Job no longer counts them.

use std::fmt;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use runtime::{Absent as _, Cache, Error, Key, Manager, Next, Queue, Reconcile, Writer};
use serde_json::json;

use super::pod::{FINALIZER, is_tracked};
use super::{is_finished, is_managed_elsewhere};
use crate::object::{controller_of, namespace};

const WORKERS: usize = 2;

/// Reconcile keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum OrphanKey {
    /// A pod.
    Pod(Key),
    /// The pods of the Job with this UID.
    Job(String),
}

impl fmt::Display for OrphanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod {key}"),
            Self::Job(uid) => write!(f, "the pods of job {uid}"),
        }
    }
}

/// Removes the finalizer of such pods.
pub(super) struct Orphans {
    writer: Writer<Pod>,
    jobs: Cache<Job>,
    pods: Cache<Pod>,
}

impl Orphans {
    pub(super) fn new(manager: &Manager) -> Self {
        Self {
            // Not shown by the cache: a released pod may be deleted at once.
            writer: Writer::namespaced(manager.client()),
            jobs: manager.cache(),
            pods: manager.cache(),
        }
    }

    /// Whether no Job will count a pod.
    fn is_forgotten(&self, pod: &Pod) -> bool {
        is_tracked(pod) && is_forgotten(&self.jobs, pod)
    }
}

/// Starts the controller; the caches have been synced.
pub(super) fn start(manager: &Manager, orphans: Orphans) {
    let queue = Queue::new();
    let jobs = orphans.jobs.clone();
    queue.enqueue_mapped(&orphans.pods, move |change| {
        let pod = change.new.as_ref()?;
        let lost = is_tracked(pod) && is_forgotten(&jobs, pod);
        lost.then(|| OrphanKey::Pod(Key::of(&pod.metadata)))
    });
    queue.enqueue_mapped(&orphans.jobs, |change| {
        let new = change.new.as_ref();
        let over = new.is_none_or(|job| is_finished(job.status.as_ref()));
        let uid = change.object()?.metadata.uid.clone()?;
        over.then_some(OrphanKey::Job(uid))
    });
    manager.start(orphans, &queue, WORKERS);
}

impl Reconcile<OrphanKey> for Orphans {
    fn name(&self) -> &'static str {
        "job-orphan-pods"
    }

    async fn reconcile(&self, look: &OrphanKey) -> Result<Next, Error> {
        let pods = match look {
            OrphanKey::Pod(key) => self.pods.find(key).into_iter().collect(),
            OrphanKey::Job(uid) => self.pods.controlled_by(uid),
        };
        for pod in pods.iter().filter(|pod| self.is_forgotten(pod)) {
            release(&self.writer, &self.pods, pod).await?;
        }
        Ok(Next::Wait)
    }
}

/// Whether the Job of a pod is gone or finished, or the pod has no controller. Controllers of other
/// kinds may use the finalizer for themselves.
fn is_forgotten(jobs: &Cache<Job>, pod: &Pod) -> bool {
    let Some(controller) = controller_of(&pod.metadata) else {
        return true;
    };
    if controller.kind != "Job" || controller.api_version != "batch/v1" {
        return false;
    }
    let job = jobs
        .get(namespace(&pod.metadata), &controller.name)
        .filter(|job| job.metadata.uid.as_ref() == Some(&controller.uid));
    job.is_none_or(|job| !is_managed_elsewhere(&job) && is_finished(job.status.as_ref()))
}

/// Removes the finalizer of a pod, if it has it. The cache has the change when this returns.
///
/// By a patch of the list and not [`Writer::set_finalizer`]: the pod may have changed since it was read,
/// which must not keep a terminated pod.
pub(super) async fn release(
    writer: &Writer<Pod>,
    cache: &Cache<Pod>,
    pod: &Pod,
) -> Result<(), Error> {
    if !is_tracked(pod) {
        return Ok(());
    }
    let key = Key::of(&pod.metadata);
    let patch = json!({ "metadata": {
        "uid": pod.metadata.uid,
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    } });
    let released = writer.strategic_merge(&key, &patch).await;
    released.not_found_as_none()?;
    cache
        .shows(&key, |now| {
            now.is_none_or(|now| now.metadata.uid != pod.metadata.uid || !is_tracked(now))
        })
        .await;
    Ok(())
}
