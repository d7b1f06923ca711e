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
use runtime::{Absent, Cache, Change, Error, Key, Manager, Next, Queue, Reconcile};
use tracing::debug;

use crate::discovery::Kinds;
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
    namespaces.on_change({
        let queue = queue.clone();
        move |change: &Change<Namespace>| {
            if let Some(namespace) = change.new.as_ref().filter(|one| is_deleting(one)) {
                queue.add_after(Key::of(&namespace.metadata), CREATION_GRACE);
            }
        }
    });
    pods.on_change({
        let (queue, namespaces) = (queue.clone(), namespaces.clone());
        move |change: &Change<Pod>| {
            let (Some(pod), None) = (&change.old, &change.new) else {
                return;
            };
            let key = Key::new("", pod.metadata.namespace.clone().unwrap_or_default());
            if namespaces.find(&key).is_some_and(|one| is_deleting(&one)) {
                queue.add_after(key, POD_CHECK_DELAY);
            }
        }
    });
    namespaces.synced().await;
    pods.synced().await;
    let controller = Finaliser {
        api: Api::all(manager.client()),
        content: Content {
            client: manager.client(),
            pods,
        },
        namespaces,
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

struct Finaliser {
    api: Api<Namespace>,
    content: Content,
    namespaces: Cache<Namespace>,
}

impl Reconcile for Finaliser {
    fn name(&self) -> &'static str {
        "namespace"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let found = self.api.get(&key.name).await.not_found_as_none();
        let found = found.map_err(Error::api(format!("get namespace {key}")))?;
        let Some(mut namespace) = found.filter(is_deleting) else {
            return Ok(Next::Wait);
        };
        let status = namespace.status.get_or_insert_default();
        if status.phase.as_deref() != Some("Terminating") {
            status.phase = Some("Terminating".to_owned());
            namespace = self.write_status(&namespace).await?;
        }
        if finalizers(&namespace).is_empty() {
            return Ok(Next::Wait);
        }
        let mut findings = Findings::default();
        let estimate = self.empty(&namespace, &mut findings).await;
        namespace = self.report(namespace, &findings).await?;
        if let Some(problems) = findings.problems() {
            let problems = format!("empty namespace {key}: {problems}");
            return Err(Error::Invalid(problems));
        }
        if !estimate.is_zero() {
            let since = content::age(&namespace.metadata, Timestamp::now());
            return Ok(Next::After(next_look(estimate, since)));
        }
        self.finalise(namespace).await?;
        Ok(Next::Wait)
    }
}

impl Finaliser {
    /// Deletes the content of a namespace; returns an estimate for the rest.
    async fn empty(&self, namespace: &Namespace, findings: &mut Findings) -> Duration {
        let kinds = match Kinds::discover(self.content.client.clone()).await {
            Ok(kinds) => kinds,
            Err(error) => {
                findings.undiscovered(content::message(&error));
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
        self.write_status(&namespace).await
    }

    async fn write_status(&self, namespace: &Namespace) -> Result<Namespace, Error> {
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        let written = self
            .api
            .replace_status(name, &PostParams::default(), namespace)
            .await
            .map_err(Error::api(format!("update the status of namespace {name}")))?;
        self.namespaces.saw(&written).await;
        Ok(written)
    }

    /// Removes the finalizer; without finalizers the API server deletes the namespace.
    async fn finalise(&self, mut namespace: Namespace) -> Result<(), Error> {
        namespace.status = None::<NamespaceStatus>;
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let spec = namespace.spec.get_or_insert_default();
        let mut rest = spec.finalizers.take().unwrap_or_default();
        rest.retain(|finalizer| finalizer != FINALIZER);
        rest.sort();
        rest.dedup();
        debug!(namespace = name, remaining = ?rest, "empty");
        spec.finalizers = Some(rest);
        self.api
            .replace_subresource("finalize", &name, &PostParams::default(), &namespace)
            .await
            .not_found_as_none()
            .map(drop)
            .map_err(Error::api(format!("finalize namespace {name}")))
    }
}

#[cfg(test)]
mod tests;
