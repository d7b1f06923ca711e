//! StatefulSets.

mod decide;
mod identity;
mod retention;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use runtime::{Absent, Cache, Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::history::{self, History, Owner};
use super::pods::{
    PodControl, api_message, available_in, concerned, controller_reference,
    namespace_is_terminating, selector, slow_start,
};
use decide::{Decision, Revision, StatefulSetInputs, Step, decide, differs};

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
        history.synced()
    );
    let queue = Queue::<Key>::new();
    let changed = queue.clone();
    sets.on_change(move |change| {
        if let Some(set) = &change.new {
            changed.add(Key::of(&set.metadata));
        }
    });
    let (changed, known) = (queue.clone(), sets.clone());
    pods.cache().on_change(move |change| {
        for key in concerned(&known, selector_of, change) {
            changed.add(key);
        }
    });
    let controller = Controller {
        client: manager.client(),
        events: manager.events(COMPONENT),
        sets,
        claims,
        pods,
        history,
    };
    manager.start(controller, &queue, WORKERS);
}

struct Controller {
    client: Client,
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
            meta: &set.metadata,
            reference: controller_reference(set),
            selector: &selector,
            template: &spec.template,
            hash_label: HASH_LABEL,
        };
        let mut revisions = self.history.of(&owner).await?;
        // Pods with names outside the set's pattern are ignored, even if it controls them.
        let mut around = self.pods.around(&set.metadata);
        around.retain(|pod| identity::is_member(set, pod));
        let pods = self.pods.claim(set, &selector, around).await?;

        let mut collisions = set
            .status
            .as_ref()
            .and_then(|status| status.collision_count)
            .unwrap_or(0);
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
        let current = current_revision(set, &revisions).unwrap_or_else(|| Arc::clone(&update));
        let (current, update) = (read(&current)?, read(&update)?);

        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let now = Timestamp::now();
        let decision = decide(&StatefulSetInputs {
            set,
            spec,
            pods: &pods,
            claim: &|name| self.claims.get(namespace, name),
            current: &current,
            update: &update,
            collisions,
            now,
        });
        let applied = self.apply(set, &decision).await;
        // The status is written even if a step failed.
        self.report(set, decision.status.clone()).await?;
        applied?;

        let mut live: HashSet<String> = [current.name, update.name].into();
        live.extend(pods.iter().map(|pod| identity::revision(pod).to_owned()));
        let limit = spec.revision_history_limit.unwrap_or(10);
        self.history
            .truncate(&owner, &revisions, &live, limit)
            .await?;
        Ok(next(&decision, spec, &pods, now))
    }

    async fn apply(&self, set: &StatefulSet, decision: &Decision) -> Result<(), Error> {
        let steps = &decision.steps;
        if decision.together {
            let (_, failure) =
                slow_start(steps.len(), |number| self.take(set, &steps[number])).await;
            return failure.map_or(Ok(()), Err);
        }
        for step in steps {
            self.take(set, step).await?;
        }
        Ok(())
    }

    async fn take(&self, set: &StatefulSet, step: &Step) -> Result<(), Error> {
        match step {
            Step::Create(ordinal, pod) => self.create(set, *ordinal, pod).await,
            Step::Claims(ordinal) => self.create_claims(set, *ordinal).await,
            Step::Own(claim) => self.own(set, claim).await,
            Step::Repair(pod) => {
                let result = self.repair(pod).await;
                self.emit_event(set, "Update", &pod.name_any(), &result);
                result
            }
            Step::Delete(pod) => {
                let result = self.delete(pod).await;
                self.emit_event(set, "Delete", &pod.name_any(), &result);
                result
            }
            Step::Wait => Ok(()),
        }
    }

    /// Creates the claims of a pod, then the pod: it could not start without them.
    async fn create(&self, set: &StatefulSet, ordinal: i32, pod: &Pod) -> Result<(), Error> {
        let name = pod.name_any();
        let claims = self.create_claims(set, ordinal).await;
        if claims.is_err() {
            self.emit_event(set, "Create", &name, &claims);
            return claims;
        }
        let api: Api<Pod> = self.api(set);
        let result = match api.create(&PostParams::default(), pod).await {
            Ok(created) => {
                self.pods.cache().saw(&created).await;
                Ok(())
            }
            Err(error) if namespace_is_terminating(&error) => return Ok(()),
            Err(error) => Err(Error::api(format!("create pod {name}"))(error)),
        };
        // While another owner's pod has the name, no event is emitted.
        if !matches!(&result, Err(error) if error.code() == Some(409)) {
            self.emit_event(set, "Create", &name, &result);
        }
        result
    }

    async fn create_claims(&self, set: &StatefulSet, ordinal: i32) -> Result<(), Error> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let pod = identity::pod_name(set, ordinal);
        for mut claim in identity::render_claims(set, ordinal) {
            let name = claim.name_any();
            if let Some(known) = self.claims.get(namespace, &name) {
                if known.metadata.deletion_timestamp.is_some() {
                    return Err(Error::Invalid(format!("pvc {name} is being deleted")));
                }
                continue;
            }
            let nobody = Pod::default();
            claim.metadata.owner_references = retention::corrected(&claim, set, &nobody, true);
            let api: Api<PersistentVolumeClaim> = self.api(set);
            match api.create(&PostParams::default(), &claim).await {
                Ok(created) => {
                    self.claims.saw(&created).await;
                    self.events.normal(
                        set,
                        "SuccessfulCreate",
                        format!(
                            "Create Claim {name} Pod {pod} in StatefulSet {} success",
                            set.name_any()
                        ),
                    );
                }
                Err(error) if namespace_is_terminating(&error) => {}
                Err(error) => {
                    self.events.warning(
                        set,
                        "FailedCreate",
                        format!(
                            "Create Claim {name} for Pod {pod} in StatefulSet {} failed error: {}",
                            set.name_any(),
                            api_message(&error)
                        ),
                    );
                    return Err(Error::api(format!("create persistentvolumeclaim {name}"))(
                        error,
                    ));
                }
            }
        }
        Ok(())
    }

    async fn own(&self, set: &StatefulSet, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        let name = claim.name_any();
        let api: Api<PersistentVolumeClaim> = self.api(set);
        let owned = api
            .replace(&name, &PostParams::default(), claim)
            .await
            .map_err(Error::api(format!("own persistentvolumeclaim {name}")))?;
        self.claims.saw(&owned).await;
        Ok(())
    }

    async fn repair(&self, pod: &Pod) -> Result<(), Error> {
        let name = pod.name_any();
        let namespace = pod.namespace().unwrap_or_default();
        let repaired = Api::<Pod>::namespaced(self.client.clone(), &namespace)
            .replace(&name, &PostParams::default(), pod)
            .await
            .map_err(Error::api(format!("update pod {namespace}/{name}")))?;
        self.pods.cache().saw(&repaired).await;
        Ok(())
    }

    async fn delete(&self, pod: &Pod) -> Result<(), Error> {
        let name = pod.name_any();
        let namespace = pod.namespace().unwrap_or_default();
        let only_this = DeleteParams::default().preconditions(Preconditions {
            uid: pod.metadata.uid.clone(),
            resource_version: None,
        });
        Api::<Pod>::namespaced(self.client.clone(), &namespace)
            .delete(&name, &only_this)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("delete pod {namespace}/{name}")))?;
        self.pods.cache().wait_for_deletion(&pod.metadata).await;
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
                let why = match error {
                    Error::Api { cause, .. } => api_message(cause),
                    Error::Invalid(why) | Error::Late(why) => why.clone(),
                };
                let reason = format!("Failed{verb}");
                let message = format!("{about} failed error: {why}");
                self.events.warning(set, &reason, message);
            }
        }
    }

    async fn report(&self, set: &StatefulSet, status: StatefulSetStatus) -> Result<(), Error> {
        if !differs(set.status.as_ref(), &status) {
            return Ok(());
        }
        let name = set.name_any();
        let mut reported = set.clone();
        reported.status = Some(status);
        let api: Api<StatefulSet> = self.api(set);
        let written = api
            .replace_status(&name, &PostParams::default(), &reported)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!(
                "update the status of statefulset {name}"
            )))?;
        if let Some(written) = written {
            self.sets.saw(&written).await;
        }
        Ok(())
    }

    fn api<K>(&self, set: &StatefulSet) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn selector_of(set: &StatefulSet) -> Option<&LabelSelector> {
    set.spec.as_ref().map(|spec| &spec.selector)
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
    if decision.steps.contains(&Step::Wait) {
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
