//! The controller of DataVolumes that import an image or a file, or clone a volume.

use std::sync::Arc;
use std::time::Duration;

use api::cdi::{DataVolume, DataVolumeStatus, Source};
use golden_images::action::{Action, Kind, Wanted, annotation, label, metadata_patch, name_of};
use golden_images::cdi::claim::{self, Storage, binds_immediately, is_of, room};
use golden_images::cdi::copy::Step;
use golden_images::cdi::data_volume::{Claim, ImportInputs, Report, Run, State, decide};
use golden_images::cdi::failure::{Failure, Trouble};
use golden_images::cdi::origin::Origin;
use golden_images::cdi::{copy, size::Overhead};
use golden_images::conditions::{self, ConditionUpdate};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use runtime::{Error, Key, Next, Reconcile};

use super::Context;
use super::executor::Task;
use super::transfer::awaits_permission;

/// Content type for which CDI unpacks an archive of files into a volume instead of writing a disk.
const ARCHIVE: &str = "archive";
/// Retry interval of a clone that RBAC forbids.
const PERMISSION_RETRY_INTERVAL: Duration = Duration::from_mins(1);
/// Condition with the state of the importer.
const RUNNING: &str = "Running";

pub(super) struct Controller(pub(super) Context);

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        "medley-images-cdi-volumes"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Self(context) = self;
        let found = context.view.volumes.find(key);
        let volume = found.filter(|it| it.metadata.deletion_timestamp.is_none());
        let Some(volume) = volume else {
            context.executor.forget(key);
            context.report.progress(key, None);
            self.sweep(key, None).await?;
            return Ok(Next::Wait);
        };
        self.sweep(key, Some(&volume)).await?;
        let claim = context.view.claims.find(key);
        let claim = claim.filter(|it| it.metadata.deletion_timestamp.is_none());
        let is_over = volume
            .status
            .as_ref()
            .is_some_and(|status| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")));
        if let Some(claim) = &claim
            && !is_of(claim, &volume)
            && !is_over
        {
            let message = format!(
                "PersistentVolumeClaim {key} already exists and is not owned by the DataVolume"
            );
            context
                .report
                .warn_unavailable(&volume, "ErrResourceExists", &message);
            return Ok(Next::Wait);
        }
        if volume.spec.content_type.as_deref() == Some(ARCHIVE) && !is_over {
            let message = "contentType archive is not supported; kubevirt is accepted";
            context
                .report
                .warn_unavailable(&volume, "UnsupportedContentType", message);
            return Ok(Next::Wait);
        }
        if let Some(origin) = Origin::of(&volume) {
            self.import(&volume, origin, claim).await
        } else if copy::is_copy(&volume) {
            self.copy(&volume, claim).await
        } else {
            // Uploads, blank disks and other sources are left to CDI.
            Ok(Next::Wait)
        }
    }
}

impl Controller {
    /// State of a DataVolume's claim. A claim next to the original has no consumer.
    pub(super) fn state(
        &self,
        volume: &DataVolume,
        claim: Option<&PersistentVolumeClaim>,
        beside: bool,
    ) -> Claim {
        let Some(claim) = claim else {
            return Claim::Missing;
        };
        let status = claim.status.as_ref();
        if status.and_then(|it| it.phase.as_deref()) == Some("Bound") {
            return Claim::Bound;
        }
        let spec = claim.spec.as_ref();
        let class = spec.and_then(|it| it.storage_class_name.as_deref());
        let class = class.and_then(|it| self.0.view.classes.get("", it));
        let mode = class.and_then(|it| it.volume_binding_mode.clone());
        let waits = mode.as_deref() == Some("WaitForFirstConsumer");
        if waits && (beside || !binds_immediately(volume)) {
            Claim::WaitsForConsumer
        } else {
            Claim::Pending
        }
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
            actions.extend(describe_claim(claim, found));
        }
        if decision.run == Run::MakeClaim {
            match self.claim(volume, None).await? {
                Ok(object) => actions.push(object),
                Err(failure) => {
                    set_running_condition(volume, &mut decision.status, &failure);
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
            (Run::Remove, Some(importer)) => {
                match &importer.state {
                    State::Failed(failure) if is_new(volume, importer.attempt) => {
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
            (Run::Start { attempt, node }, _) => {
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
            (Run::Wait(then), _) => Ok(Next::at(*then)),
            _ => Ok(Next::Wait),
        }
    }

    async fn copy(
        &self,
        volume: &Arc<DataVolume>,
        claim: Option<Arc<PersistentVolumeClaim>>,
    ) -> Result<Next, Error> {
        let Self(context) = self;
        let of = name_of(&volume.metadata);
        let source = copy::source_of(volume);
        let source = source.and_then(|it| context.view.sources.get(&it.namespace, &it.name));
        let original = copy::original(volume, source.as_deref()).ok();
        let there = original.as_ref();
        let there = there.and_then(|it| copy::elsewhere(it, volume));
        let transfer = match (&original, &there) {
            (Some(original), Some(there)) => Some(
                self.transfer(volume, claim.as_deref(), original, there)
                    .await?,
            ),
            _ => None,
        };
        let mut decision = copy::decide(&copy::CloneInputs {
            volume,
            source: source.as_deref(),
            claim: self.state(volume, claim.as_deref(), false),
            transfer: transfer.as_ref(),
            now: Timestamp::now(),
        });
        let there = there.unwrap_or_default();
        match decision.step.take() {
            None => {}
            Some(Step::HandOver(name)) => {
                if let Some(claim) = &claim {
                    self.hand_over(&name, claim).await?;
                }
            }
            Some(Step::Clean) => self.clean(volume, &there).await?,
            Some(step) => {
                if let Err(failure) = self
                    .create_claim(volume, original.as_ref(), &there, &step)
                    .await?
                {
                    set_running_condition(volume, &mut decision.status, &failure);
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
        step: &Step,
    ) -> Result<Result<(), Failure>, Error> {
        let action = match self.claim(volume, original).await? {
            Ok(action) => action,
            Err(failure) => return Ok(Err(failure)),
        };
        let action = match (action, step) {
            (Action::Create { kind, object }, Step::MakeThere(_)) => Action::Create {
                kind,
                object: copy::interim(volume, &object, there),
            },
            (Action::Create { kind, object }, Step::Take(name)) => Action::Create {
                kind,
                object: copy::taking(object, name),
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
        let at = |of: &api::cdi::Named| {
            let given = Some(of.namespace.as_str()).filter(|it| !it.is_empty());
            Key::new(given.unwrap_or(home), &of.name)
        };
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

/// Whether this failed attempt has not been counted yet.
fn is_new(volume: &DataVolume, attempt: u32) -> bool {
    Trouble::read(&volume.metadata).is_none_or(|it| it.failures < attempt)
}

/// Reports in the condition [`RUNNING`] why the claim cannot be created; an unchanged reason keeps its transition time.
fn set_running_condition(volume: &DataVolume, status: &mut DataVolumeStatus, failure: &Failure) {
    let before = volume.status.as_ref();
    let before = before.and_then(|it| conditions::get(&it.conditions, RUNNING));
    status.conditions.retain(|it| it.kind != RUNNING);
    status.conditions.extend(before.cloned());
    let (reason, message) = (failure.reason.as_str(), failure.message.clone());
    ConditionUpdate::new(RUNNING, false, reason, message)
        .put(&mut status.conditions, Timestamp::now());
    status
        .conditions
        .sort_by(|one, other| one.kind.cmp(&other.kind));
}

/// Patch that records the result of the import on the claim; existing values stay.
fn describe_claim(claim: &PersistentVolumeClaim, found: &Report) -> Option<Action> {
    let mut labels = Wanted::new();
    for (name, value) in &found.labels {
        if label(&claim.metadata, name).is_none() {
            labels.insert(name, Some(value.clone()));
        }
    }
    let mut notes = Wanted::new();
    let sniffed: Vec<String> = found.sniffed.iter().cloned().collect();
    for (name, value) in [
        (api::golden::names::CONTENT, found.content.clone()),
        (
            api::golden::names::SNIFFED,
            (!sniffed.is_empty()).then(|| sniffed.join(",")),
        ),
    ] {
        if value.is_some() && annotation(&claim.metadata, name).is_none() {
            notes.insert(name, value);
        }
    }
    let patch = metadata_patch(&claim.metadata, &labels, &notes)?;
    Some(Action::Patch {
        kind: Kind::Claim,
        of: name_of(&claim.metadata),
        patch,
        why: "it was imported",
    })
}
