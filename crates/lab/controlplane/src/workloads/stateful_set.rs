//! StatefulSets.

mod decide;
mod identity;
mod retention;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use runtime::{Absent as _, Cache, Error, Events, Key, Manager, Next, Queue, Reconcile, Writer};

use super::history::{self, History, Owner};
use super::pods::{PodControl, available_in, concerned, selector, slow_start};
use crate::object::namespace;
use decide::{Decision, Revision, StatefulSetInputs, StatefulSetStep, decide, differs};

const COMPONENT: &str = "statefulset-controller";
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// kube-controller-manager's `--concurrent-statefulset-syncs`.
const WORKERS: usize = 5;
/// Delay before a claim that has to be deleted first is checked again.
const CLAIM_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Starts the StatefulSet controller.
pub(crate) async fn start(manager: &Manager) {
    let sets = manager.cache::<StatefulSet>();
    let claims = manager.cache::<PersistentVolumeClaim>();
    let pods = PodControl::new(manager, COMPONENT);
    let history = History::new(manager);
    tokio::join!(
        sets.synced(),
        claims.synced(),
        pods.cache().synced(),
        history.cache().synced()
    );
    let queue = Queue::new();
    queue.enqueue_objects(&sets);
    let owners = sets.clone();
    queue.enqueue_mapped(pods.cache(), move |change| {
        concerned(&owners, |set| Some(&set.spec.as_ref()?.selector), change)
    });
    let controller = Controller {
        writer: Writer::namespaced(manager.client()).shown_by(&sets),
        claim_writer: Writer::namespaced(manager.client()).shown_by(&claims),
        events: manager.events(COMPONENT),
        sets,
        claims,
        pods,
        history,
    };
    manager.start(controller, &queue, WORKERS);
}

struct Controller {
    writer: Writer<StatefulSet>,
    claim_writer: Writer<PersistentVolumeClaim>,
    events: Events,
    sets: Cache<StatefulSet>,
    claims: Cache<PersistentVolumeClaim>,
    pods: PodControl,
    history: History,
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(set) = self.sets.find(key) else {
            return Ok(Next::Wait);
        };
        let Some(spec) = &set.spec else {
            return Ok(Next::Wait);
        };
        self.advance(&set, spec).await
    }
}

impl Controller {
    async fn advance(&self, set: &StatefulSet, spec: &StatefulSetSpec) -> Result<Next, Error> {
        let selector = selector(&spec.selector)?;
        let owner = Owner {
            object: set,
            selector: &selector,
            template: &spec.template,
            hash_label: HASH_LABEL,
        };
        let mut revisions = self.history.of(&owner).await?;
        // Pods with names outside the set's pattern are ignored, even if it controls them.
        let mut around = self.pods.claims.around(&set.metadata);
        around.retain(|pod| identity::is_member(set, pod));
        let pods = self.pods.claims.claim(set, &selector, around).await?;

        let collisions = set.status.as_ref().and_then(|it| it.collision_count);
        let mut collisions = collisions.unwrap_or(0);
        let update = self
            .history
            .current(&owner, &revisions, &mut collisions)
            .await?;
        if !revisions
            .iter()
            .any(|one| one.name_any() == update.name_any())
        {
            revisions.push(Arc::clone(&update));
        }
        // A new set has no status yet, and its first revision is both current and updated.
        let current = current_revision(set, &revisions).unwrap_or_else(|| Arc::clone(&update));
        let (current, update) = (read(&current)?, read(&update)?);

        let now = Timestamp::now();
        let decision = decide(&StatefulSetInputs {
            set,
            spec,
            pods: &pods,
            claim: &|name| self.claims.get(namespace(&set.metadata), name),
            current: &current,
            update: &update,
            collisions,
            now,
        });
        let applied = self.apply(set, &decision).await;
        // The status is written even if a step failed.
        if differs(set.status.as_ref(), &decision.status) {
            let written = self.writer.replace_status(&set.metadata, &decision.status);
            written.await.not_found_as_none()?;
        }
        applied?;

        // Revisions of live pods stay, also beyond the limit: a pod below the partition of an
        // update is recreated from its own.
        let mut live: HashSet<String> = [current.name, update.name].into();
        live.extend(pods.iter().map(|pod| identity::revision(pod).to_owned()));
        let limit = spec.revision_history_limit.unwrap_or(10);
        self.history.truncate(&revisions, &live, limit).await?;
        Ok(next(&decision, spec, &pods, now))
    }

    async fn apply(&self, set: &StatefulSet, decision: &Decision) -> Result<(), Error> {
        let steps = &decision.steps;
        if decision.together {
            let (_, failure) =
                slow_start(steps.len(), |number| self.take(set, &steps[number])).await;
            return failure.map_or(Ok(()), Err);
        }
        // In order, and the first failure ends it: with `OrderedReady` a pod must not exist before
        // its predecessors.
        for step in steps {
            self.take(set, step).await?;
        }
        Ok(())
    }

    async fn take(&self, set: &StatefulSet, step: &StatefulSetStep) -> Result<(), Error> {
        match step {
            StatefulSetStep::Create(ordinal, pod) => self.create(set, *ordinal, pod).await,
            StatefulSetStep::Claims(ordinal) => self.create_claims(set, *ordinal).await,
            StatefulSetStep::Own(claim) => self.claim_writer.replace(claim).await.map(drop),
            StatefulSetStep::Repair(pod) => {
                let result = self.pods.writer().replace(pod).await.map(drop);
                self.emit_event(set, "Update", &pod.name_any(), &result);
                result
            }
            StatefulSetStep::Delete(pod) => {
                let result = self.pods.writer().delete(&pod.metadata).await.map(drop);
                self.emit_event(set, "Delete", &pod.name_any(), &result);
                result
            }
            StatefulSetStep::Wait => Ok(()),
        }
    }

    /// Creates the claims of a pod, then the pod: it could not start without them.
    async fn create(&self, set: &StatefulSet, ordinal: i32, pod: &Pod) -> Result<(), Error> {
        let claims = self.create_claims(set, ordinal).await;
        if claims.is_err() {
            self.emit_event(set, "Create", &pod.name_any(), &claims);
            return claims;
        }
        let result = self.pods.writer().create(pod).await.map(drop);
        match &result {
            Err(error) if error.is_namespace_terminating() => return Ok(()),
            // While another owner's pod has the name, no event is emitted.
            Err(error) if error.code() == Some(409) => {}
            _ => self.emit_event(set, "Create", &pod.name_any(), &result),
        }
        result
    }

    async fn create_claims(&self, set: &StatefulSet, ordinal: i32) -> Result<(), Error> {
        let pod = identity::pod_name(set, ordinal);
        for mut claim in identity::render_claims(set, ordinal) {
            let name = claim.name_any();
            if let Some(known) = self.claims.find(&Key::of(&claim.metadata)) {
                if known.metadata.deletion_timestamp.is_some() {
                    return Err(Error::Invalid(format!("pvc {name} is being deleted")));
                }
                continue;
            }
            let no_pod = Pod::default();
            claim.metadata.owner_references = retention::corrected(&claim, set, &no_pod, true);
            let of = set.name_any();
            match self.claim_writer.create(&claim).await {
                Ok(_) => {
                    let text = format!("Create Claim {name} Pod {pod} in StatefulSet {of} success");
                    self.events.normal(set, "SuccessfulCreate", text);
                }
                Err(error) if error.is_namespace_terminating() => {}
                Err(error) => {
                    let text = format!(
                        "Create Claim {name} for Pod {pod} in StatefulSet {of} failed error: {}",
                        error.message()
                    );
                    self.events.warning(set, "FailedCreate", text);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Emits an event about a result, with kube-controller-manager's message.
    fn emit_event(&self, set: &StatefulSet, verb: &str, pod: &str, result: &Result<(), Error>) {
        let about = format!("{verb} Pod {pod} in StatefulSet {}", set.name_any());
        match result {
            Ok(()) => {
                let reason = format!("Successful{verb}");
                self.events
                    .normal(set, &reason, format!("{about} successful"));
            }
            Err(error) => {
                let reason = format!("Failed{verb}");
                let message = format!("{about} failed error: {}", error.message());
                self.events.warning(set, &reason, message);
            }
        }
    }
}

/// The revision named in the status, if it still exists.
fn current_revision(
    set: &StatefulSet,
    revisions: &[Arc<ControllerRevision>],
) -> Option<Arc<ControllerRevision>> {
    let name = set.status.as_ref()?.current_revision.as_ref()?;
    let named = |revision: &&Arc<ControllerRevision>| revision.metadata.name.as_ref() == Some(name);
    revisions.iter().find(named).cloned()
}

fn read(revision: &ControllerRevision) -> Result<Revision, Error> {
    let name = revision.name_any();
    match history::template(revision) {
        Some(template) => Ok(Revision { name, template }),
        None => Err(Error::Invalid(format!(
            "controllerrevision {name} holds no pod template at data.spec.template"
        ))),
    }
}

/// When to reconcile again without a change: when a pod becomes available.
fn next(decision: &Decision, spec: &StatefulSetSpec, pods: &[Arc<Pod>], now: Timestamp) -> Next {
    if decision.steps.contains(&StatefulSetStep::Wait) {
        return Next::After(CLAIM_RETRY_DELAY);
    }
    let min_ready_seconds = spec.min_ready_seconds.unwrap_or(0);
    let waits = pods
        .iter()
        .filter_map(|pod| available_in(pod, min_ready_seconds, now));
    waits.min().map_or(Next::Wait, Next::After)
}

#[cfg(test)]
mod tests;
