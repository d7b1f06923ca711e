//! The controller of DataVolumes that import an image or a file, or clone a volume.

use std::sync::Arc;
use std::time::Duration;

use api::cdi::{DataVolume, Source};
use golden_images::action::{Action, Kind, annotation, name_of};
use golden_images::cdi::claim::{self, Storage, room};
use golden_images::cdi::clone::CloneStep;
use golden_images::cdi::data_volume::{
    Claim, ImportInputs, ImporterAction, State, complete_claim, decide, describe_claim,
    is_new_failure, set_running_condition,
};
use golden_images::cdi::failure::Failure;
use golden_images::cdi::origin::Origin;
use golden_images::cdi::triage::{VolumeTask, triage};
use golden_images::cdi::{clone, size::Overhead};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use runtime::{Error, Key, Next, Reconcile};

use super::Context;
use super::executor::Task;
use super::transfer::awaits_permission;

/// Retry interval of a clone that RBAC forbids.
const PERMISSION_RETRY_INTERVAL: Duration = Duration::from_mins(1);

pub(super) struct Controller(pub(super) Context);

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        "medley-images-cdi-volumes"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Self(context) = self;
        let claim = context.view.claims.find(key);
        let is_terminating =
            |it: &Arc<PersistentVolumeClaim>| it.metadata.deletion_timestamp.is_some();
        if let Some(claim) = claim.as_ref().filter(|it| is_terminating(it)) {
            context.executor.release(claim).await?;
        }
        let claim = claim.filter(|it| !is_terminating(it));
        let found = context.view.volumes.find(key);
        let volume = found.filter(|it| it.metadata.deletion_timestamp.is_none());
        let Some(volume) = volume else {
            context.executor.forget(key);
            context.report.progress(key, None);
            self.sweep(key, None).await?;
            return Ok(Next::Wait);
        };
        // Before anything else: the interim claim of an earlier DataVolume of this name holds storage in another
        // namespace, where no owner reference can reach it.
        self.sweep(key, Some(&volume)).await?;
        match triage(&volume, claim.as_deref()) {
            VolumeTask::Import(origin) => self.import(&volume, origin, claim).await,
            VolumeTask::Clone => self.clone_volume(&volume, claim).await,
            VolumeTask::Unavailable { reason, message } => {
                context.report.warn_unavailable(&volume, reason, &message);
                Ok(Next::Wait)
            }
            VolumeTask::None => Ok(Next::Wait),
        }
    }
}

impl Controller {
    /// State of a DataVolume's claim, or with `beside` of the one next to the original of a clone.
    pub(super) fn state(
        &self,
        volume: &DataVolume,
        claim: Option<&PersistentVolumeClaim>,
        beside: bool,
    ) -> Claim {
        let spec = claim.and_then(|it| it.spec.as_ref());
        let class = spec.and_then(|it| it.storage_class_name.as_deref());
        let class = class.and_then(|it| self.0.view.classes.get("", it));
        Claim::of(volume, claim, class.as_deref(), beside)
    }

    async fn import(
        &self,
        volume: &Arc<DataVolume>,
        origin: Origin,
        claim: Option<Arc<PersistentVolumeClaim>>,
    ) -> Result<Next, Error> {
        let Self(context) = self;
        let key = Key::of(&volume.metadata);
        let of = name_of(&volume.metadata);
        let policy = context.view.policy().await?;
        let importer = context.executor.state(volume);
        let mut decision = decide(&ImportInputs {
            volume,
            claim: self.state(volume, claim.as_deref(), false),
            importer: importer.as_ref(),
            nodes: &context.view.architectures(),
            policy: &policy,
            now: Timestamp::now(),
        });
        let mut actions = Vec::new();
        if let Some(patch) = decision.patch.take() {
            actions.push(Action::Patch {
                kind: Kind::DataVolume,
                of: of.clone(),
                patch,
                why: "its import progressed",
            });
        }
        if let (Some(found), Some(claim)) = (&decision.claim, &claim) {
            actions.extend(describe_claim(volume, claim, found));
        } else if let Some(claim) = &claim {
            actions.extend(complete_claim(volume, claim));
        }
        if decision.run == ImporterAction::MakeClaim {
            match self.claim(volume, None).await? {
                Ok(object) => actions.push(object),
                Err(failure) => {
                    set_running_condition(volume, &mut decision.status, &failure, Timestamp::now());
                    decision.status_changed = volume.status.as_ref() != Some(&decision.status);
                }
            }
        }
        let (kind, status) = (Kind::DataVolume, &decision.status);
        // Describe the claim before reporting success, and report a failure before counting it: readers in between see
        // a consistent state.
        let described = decision.claim.is_some();
        if described {
            context.actions.carry_out(&actions).await?;
        }
        if decision.status_changed {
            context.actions.write_status(kind, &of, status).await?;
        }
        if !described {
            context.actions.carry_out(&actions).await?;
        }
        let before = volume.status.as_ref().and_then(|it| it.phase.as_deref());
        let after_phase = decision.status.phase.as_deref();
        context.report.volume(volume, before, after_phase);
        context.report.progress(&key, importer.as_ref());
        match (&decision.run, &importer) {
            (ImporterAction::Remove, Some(importer)) => {
                match &importer.state {
                    State::Failed(failure) if is_new_failure(volume, importer.attempt) => {
                        context.report.count_import(volume, Some(failure));
                    }
                    State::Succeeded(_) if before != Some("Succeeded") => {
                        context.report.count_import(volume, None);
                    }
                    _ => {}
                }
                if context.executor.remove(volume).await? {
                    // Requeue: the next attempt depends on time alone, and no watch event has to follow.
                    context.queues.volumes.add(key);
                }
                Ok(Next::Wait)
            }
            (ImporterAction::Start { attempt, node }, _) => {
                let Some(claim) = claim else {
                    return Ok(Next::Wait);
                };
                let overhead = self.overhead(&claim).await?;
                let task = Task {
                    volume: Arc::clone(volume),
                    origin,
                    capacity: room(&claim, overhead),
                    claim,
                    attempt: *attempt,
                    node: node.clone(),
                    sniffing: policy.sniffing,
                };
                context.executor.start(task).await?;
                Ok(Next::Wait)
            }
            (ImporterAction::Wait(then), _) => Ok(Next::at(*then)),
            _ => Ok(Next::Wait),
        }
    }

    async fn clone_volume(
        &self,
        volume: &Arc<DataVolume>,
        claim: Option<Arc<PersistentVolumeClaim>>,
    ) -> Result<Next, Error> {
        let Self(context) = self;
        let of = name_of(&volume.metadata);
        let source = clone::source_of(volume);
        let source = source.and_then(|it| context.view.sources.get(&it.namespace, &it.name));
        let original = clone::original(volume, source.as_deref()).ok();
        let there = original.as_ref();
        let there = there.and_then(|it| clone::elsewhere(it, volume));
        let transfer = match (&original, &there) {
            (Some(original), Some(there)) => Some(
                self.transfer(volume, claim.as_deref(), original, there)
                    .await?,
            ),
            _ => None,
        };
        let mut decision = clone::decide(&clone::CloneInputs {
            volume,
            source: source.as_deref(),
            claim: self.state(volume, claim.as_deref(), false),
            transfer: transfer.as_ref(),
            now: Timestamp::now(),
        });
        let there = there.unwrap_or_default();
        match decision.step.take() {
            None => {}
            Some(CloneStep::HandOver(name)) => {
                if let Some(claim) = &claim {
                    self.hand_over(&name, claim).await?;
                }
            }
            Some(CloneStep::Clean) => self.clean(volume, &there).await?,
            Some(step) => {
                if let Err(failure) = self
                    .create_claim(volume, original.as_ref(), &there, &step)
                    .await?
                {
                    set_running_condition(volume, &mut decision.status, &failure, Timestamp::now());
                    decision.status_changed = volume.status.as_ref() != Some(&decision.status);
                }
            }
        }
        if decision.status_changed {
            let (kind, status) = (Kind::DataVolume, &decision.status);
            context.actions.write_status(kind, &of, status).await?;
        }
        Ok(if awaits_permission(transfer.as_ref()) {
            Next::After(PERMISSION_RETRY_INTERVAL)
        } else {
            Next::Wait
        })
    }

    /// Creates the claim of a clone: the target, or the interim one next to the original.
    async fn create_claim(
        &self,
        volume: &DataVolume,
        original: Option<&Source>,
        there: &str,
        step: &CloneStep,
    ) -> Result<Result<(), Failure>, Error> {
        let action = match self.claim(volume, original).await? {
            Ok(action) => action,
            Err(failure) => return Ok(Err(failure)),
        };
        let action = match (action, step) {
            (Action::Create { kind, object }, CloneStep::MakeThere(_)) => Action::Create {
                kind,
                object: clone::interim(volume, &object, there),
            },
            (Action::Create { kind, object }, CloneStep::Take(name)) => Action::Create {
                kind,
                object: clone::taking(object, name),
            },
            (action, _) => action,
        };
        self.0.actions.carry_out(&[action]).await?;
        Ok(Ok(()))
    }

    /// The claim of a DataVolume.
    async fn claim(
        &self,
        volume: &DataVolume,
        from: Option<&Source>,
    ) -> Result<Result<Action, Failure>, Error> {
        let view = &self.0.view;
        let requested = volume.spec.pvc.as_ref().or(volume.spec.storage.as_ref());
        let class = requested.and_then(|it| it.storage_class_name.clone());
        let class = class.or_else(|| view.default_class());
        let profile = class.as_deref().and_then(|it| view.profiles.get("", it));
        let storage = Storage {
            class: class.as_deref(),
            profile: profile.as_deref(),
            overhead: view.overhead(class.as_deref()).await?,
        };
        let size = match from {
            Some(from) => self.size(from, volume).await?,
            None => None,
        };
        let from = from.map(|from| (from, size.as_deref()));
        let made = claim::claim(volume, &storage, from);
        Ok(made.map(|object| Action::Create {
            kind: Kind::Claim,
            object,
        }))
    }

    /// Size of the original of a clone.
    async fn size(&self, from: &Source, volume: &DataVolume) -> Result<Option<String>, Error> {
        let home = volume.metadata.namespace.as_deref().unwrap_or_default();
        let at = |of: &api::cdi::Named| Key::new(of.or_in(home).namespace, &of.name);
        if let Some(of) = &from.snapshot {
            let snapshot = self.0.view.snapshot(&at(of)).await?;
            let advised = api::cdi::annotations::ADVISED_RESTORE_SIZE;
            return Ok(snapshot.and_then(|it| {
                let advised = annotation(&it.metadata, advised).map(str::to_owned);
                let size = it.status.as_ref().and_then(|it| it.rest.get("restoreSize"));
                advised.or_else(|| Some(size?.as_str()?.to_owned()))
            }));
        }
        let claim = from.pvc.as_ref();
        let claim = claim.and_then(|of| self.0.view.claims.find(&at(of)));
        Ok(claim.and_then(|it| {
            let capacity = it.status.as_ref()?.capacity.as_ref()?;
            Some(capacity.get("storage")?.0.clone())
        }))
    }

    async fn overhead(&self, claim: &PersistentVolumeClaim) -> Result<Overhead, Error> {
        let class = claim.spec.as_ref();
        let class = class.and_then(|it| it.storage_class_name.as_deref());
        self.0.view.overhead(class).await
    }
}
