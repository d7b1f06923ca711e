//! Releases pods with the tracking finalizer whose Job no longer counts them.

use std::fmt;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use runtime::{Absent, Cache, Error, Key, Manager, Next, Queue, Reconcile};
use serde_json::json;

use super::super::pods::controller_of;
use super::pod::{FINALIZER, is_tracked};
use super::{is_finished, is_managed_elsewhere};

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
    client: Client,
    jobs: Cache<Job>,
    pods: Cache<Pod>,
}

impl Orphans {
    pub(super) fn new(manager: &Manager) -> Self {
        Self {
            client: manager.client(),
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
    let queue = Queue::<OrphanKey>::new();
    let (found, known) = (queue.clone(), orphans.jobs.clone());
    orphans.pods.on_change(move |change| {
        let lost = change
            .new
            .as_ref()
            .filter(|pod| is_tracked(pod) && is_forgotten(&known, pod));
        if let Some(pod) = lost {
            found.add(OrphanKey::Pod(Key::of(&pod.metadata)));
        }
    });
    let found = queue.clone();
    orphans.jobs.on_change(move |change| {
        let over = change
            .new
            .as_ref()
            .is_none_or(|job| is_finished(job.status.as_ref()));
        let uid = change.object().and_then(|job| job.metadata.uid.clone());
        if let Some(uid) = uid.filter(|_| over) {
            found.add(OrphanKey::Job(uid));
        }
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
            release(&self.client, &self.pods, pod).await?;
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
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let job = jobs
        .get(namespace, &controller.name)
        .filter(|job| job.metadata.uid.as_ref() == Some(&controller.uid));
    job.is_none_or(|job| !is_managed_elsewhere(&job) && is_finished(job.status.as_ref()))
}

/// Removes the finalizer of a pod, if it has it. The cache has the change when this returns.
pub(super) async fn release(client: &Client, cache: &Cache<Pod>, pod: &Pod) -> Result<(), Error> {
    if !is_tracked(pod) {
        return Ok(());
    }
    let key = Key::of(&pod.metadata);
    let patch = json!({ "metadata": {
        "uid": pod.metadata.uid,
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    } });
    let pods: Api<Pod> = Api::namespaced(client.clone(), &key.namespace);
    pods.patch(
        &key.name,
        &PatchParams::default(),
        &Patch::Strategic(&patch),
    )
    .await
    .not_found_as_none()
    .map_err(Error::api(format!("release pod {key}")))?;
    cache
        .shows(&key, |now| {
            now.is_none_or(|now| now.metadata.uid != pod.metadata.uid || !is_tracked(now))
        })
        .await;
    Ok(())
}
