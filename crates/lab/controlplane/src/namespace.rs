//! Deletion of the contents of terminating namespaces.
//!
//! A deleted namespace stays in phase Terminating until it is empty: pods are deleted first, then
//! all other kinds that discovery finds, then the finalizer `kubernetes` in `spec.finalizers` is
//! removed. Its conditions report what blocks the deletion. All as in kube-controller-manager.

mod conditions;
mod content;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use runtime::{Absent as _, Error, Key, Manager, Next, Queue, Reconcile, Writer};
use tracing::debug;

use crate::discovery::Kinds;
use crate::object::{self, namespace};
use conditions::Findings;
use content::Content;

/// The finalizer that this controller removes.
const FINALIZER: &str = "kubernetes";
/// Namespaces processed concurrently (kube-controller-manager's 10).
const WORKERS: usize = 10;
/// How long creations that began before the deletion may take to become visible.
/// kube-controller-manager waits 5 s, because other API servers may learn of the deletion late;
/// here there is a single one.
const CREATION_GRACE: Duration = Duration::from_millis(250);
/// Delay after the end of a pod before checking whether it was the last.
const POD_CHECK_DELAY: Duration = Duration::from_millis(500);
/// The shortest delay for deletions that take time.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Starts the namespace controller.
pub async fn start(manager: &Manager) {
    let namespaces = manager.cache::<Namespace>();
    let pods = manager.cache::<Pod>();
    let queue = Queue::<Key>::new();
    queue.enqueue_mapped_after(CREATION_GRACE, &namespaces, |change| {
        let deleting = change.new.as_ref().filter(|one| is_deleting(one));
        deleting.map(|one| Key::of(&one.metadata))
    });
    let known = namespaces.clone();
    queue.enqueue_mapped_after(POD_CHECK_DELAY, &pods, move |change| {
        let gone = change.old.as_ref().filter(|_| change.new.is_none())?;
        let key = Key::new("", namespace(&gone.metadata));
        let deleting = known.find(&key).is_some_and(|one| is_deleting(&one));
        deleting.then_some(key)
    });
    namespaces.synced().await;
    pods.synced().await;
    let controller = Finalizer {
        writer: Writer::cluster(manager.client()).shown_by(&namespaces),
        content: Content {
            client: manager.client(),
            pods,
        },
    };
    manager.start(controller, &queue, WORKERS);
}

fn is_deleting(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some()
}

/// The delay until the next attempt, for content estimated to take this long.
/// kube-controller-manager waits half of the estimate; shortly after the deletion that would be too
/// slow for interactive use.
fn next_look(estimate: Duration, since: Duration) -> Duration {
    let half = estimate / 2 + MIN_RETRY_DELAY;
    half.min(since / 4).max(MIN_RETRY_DELAY)
}

fn finalizers(namespace: &Namespace) -> &[String] {
    let spec = namespace.spec.as_ref();
    spec.and_then(|spec| spec.finalizers.as_deref())
        .unwrap_or_default()
}

struct Finalizer {
    writer: Writer<Namespace>,
    content: Content,
}

impl Reconcile for Finalizer {
    fn name(&self) -> &'static str {
        "namespace"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let found = self.writer.get(key).await?;
        let Some(mut namespace) = found.filter(is_deleting) else {
            return Ok(Next::Wait);
        };
        let status = namespace.status.get_or_insert_default();
        if status.phase.as_deref() != Some("Terminating") {
            status.phase = Some("Terminating".to_owned());
            // The phase before anything is deleted: admission rejects new objects by it, or a
            // controller would recreate them as fast as they go.
            namespace = self.writer.put_status(&namespace).await?;
        }
        if finalizers(&namespace).is_empty() {
            return Ok(Next::Wait);
        }
        let mut findings = Findings::default();
        let estimate = self.empty(&namespace, &mut findings).await;
        namespace = self.report(namespace, &findings).await?;
        // An error and not a delay, so that the queue backs off: a kind that cannot be deleted
        // would otherwise be listed every second.
        if let Some(problems) = findings.problems() {
            let problems = format!("empty namespace {key}: {problems}");
            return Err(Error::Invalid(problems));
        }
        if !estimate.is_zero() {
            let since = content::age(&namespace.metadata, Timestamp::now());
            return Ok(Next::After(next_look(estimate, since)));
        }
        self.finalize(namespace).await?;
        Ok(Next::Wait)
    }
}

impl Finalizer {
    /// Deletes the content of a namespace; returns an estimate for the rest.
    async fn empty(&self, namespace: &Namespace, findings: &mut Findings) -> Duration {
        let kinds = match Kinds::discover(self.content.client.clone()).await {
            Ok(kinds) => kinds,
            Err(error) => {
                findings.undiscovered(Error::api("discovery")(error).message());
                return Duration::ZERO;
            }
        };
        let wanted = kinds.preferred().iter();
        let (pods, others): (Vec<_>, Vec<_>) = wanted
            .filter(|kind| kind.namespaced && kind.can(&["delete"]))
            .partition(|kind| kind.is("", "pods"));
        let mut estimate = Duration::ZERO;
        let mut pods_remain = false;
        for kind in pods {
            let rest = self.content.delete(kind, namespace).await;
            estimate = estimate.max(rest.estimate);
            pods_remain |= rest.count > 0;
            findings.problem(rest.problem);
        }
        // Objects that pods depend on stay until the pods are gone. As in kube-controller-manager,
        // the conditions do not count them meanwhile.
        if pods_remain {
            return estimate;
        }
        for kind in others {
            let mut rest = self.content.delete(kind, namespace).await;
            estimate = estimate.max(rest.estimate);
            findings.problem(rest.problem.take());
            findings.remaining(&kind.resource, rest.count, rest.finalizers);
        }
        estimate
    }

    /// Writes the findings to the conditions.
    async fn report(
        &self,
        mut namespace: Namespace,
        findings: &Findings,
    ) -> Result<Namespace, Error> {
        let status = namespace.status.get_or_insert_default();
        let old = status.conditions.take().unwrap_or_default();
        let new = findings.conditions(&old, Timestamp::now());
        let changed = new != old;
        status.conditions = Some(new);
        if !changed {
            return Ok(namespace);
        }
        self.writer.put_status(&namespace).await
    }

    /// Removes the finalizer; without finalizers the API server deletes the namespace.
    async fn finalize(&self, mut namespace: Namespace) -> Result<(), Error> {
        namespace.status = None::<NamespaceStatus>;
        let name = object::name(&namespace.metadata).to_owned();
        let spec = namespace.spec.get_or_insert_default();
        let mut rest = spec.finalizers.take().unwrap_or_default();
        rest.retain(|finalizer| finalizer != FINALIZER);
        rest.sort();
        rest.dedup();
        debug!(namespace = name, remaining = ?rest, "empty");
        spec.finalizers = Some(rest);
        Api::<Namespace>::all(self.content.client.clone())
            .replace_subresource("finalize", &name, &PostParams::default(), &namespace)
            .await
            .not_found_as_none()
            .map(drop)
            .map_err(Error::api(format!("finalize namespace {name}")))
    }
}

#[cfg(test)]
mod tests;
