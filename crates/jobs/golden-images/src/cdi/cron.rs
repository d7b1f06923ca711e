//! DataImportCron: imports new versions, points the DataSource to them, and collects old ones.
//!
//! On any failure, the DataSource keeps referring to the last import that succeeded.

mod collect;
mod current;
mod import;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{
    DataImportCron, DataImportCronStatus, DataSource, DataVolume, VolumeSnapshot, annotations,
    labels,
};
use api::golden::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use machinery::time::{format_time, parse_time};
use serde_json::{Value, json};

use super::failure::{Failure, Reason, RetryState};
use super::origin::architecture;
use super::poll::{self, NextPoll, PollResult};
use crate::action::{Action, Kind, MetadataValues, label, metadata_patch, name_of, named};
use crate::conditions::{self, ConditionUpdate, whole};
use crate::policy::Policy;

/// The inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct CronInputs<'a> {
    /// The DataImportCron.
    pub cron: &'a DataImportCron,
    /// The last answer of the source, if this process polled it.
    pub polled: Option<&'a PollResult>,
    /// Why the poll did not happen, if something prevents it.
    pub hindered: Option<&'a Failure>,
    /// Why the source may not be imported, if permission is required and missing.
    pub denied: Option<&'a Failure>,
    /// The DataSource that it manages.
    pub source: Option<&'a DataSource>,
    /// Another existing DataImportCron that manages the same DataSource, by its label.
    pub rival: Option<&'a str>,
    /// DataVolumes with its label, or with the name of an import.
    pub imports: &'a [DataVolume],
    /// PVCs with its label, or with the name of an import.
    pub claims: &'a [Claim],
    /// Snapshots with its label, or with the name of an import.
    pub snapshots: &'a [VolumeSnapshot],
    /// The storage that imports are written to.
    pub storage: &'a Storage,
    /// The architectures of the nodes that could pull.
    pub nodes: &'a BTreeSet<String>,
    /// Names of PVCs and snapshots that are being cloned.
    pub busy: &'a BTreeSet<String>,
    /// The policy in force.
    pub policy: &'a Policy,
    /// A value that differs between clusters, so that their polls spread.
    pub seed: u64,
    /// The current time.
    pub now: Timestamp,
}

/// The fields of a PVC that matter for imports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claim {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Whether it is bound.
    pub bound: bool,
    /// `Filesystem` or `Block`.
    pub mode: Option<String>,
    /// `status.capacity.storage`.
    pub capacity: Option<String>,
}

impl From<&PersistentVolumeClaim> for Claim {
    fn from(claim: &PersistentVolumeClaim) -> Self {
        let status = claim.status.as_ref();
        let capacity = status.and_then(|it| it.capacity.as_ref());
        Self {
            metadata: claim.metadata.clone(),
            bound: status.and_then(|it| it.phase.as_deref()) == Some("Bound"),
            mode: claim.spec.as_ref().and_then(|it| it.volume_mode.clone()),
            capacity: capacity
                .and_then(|it| it.get("storage"))
                .map(|it| it.0.clone()),
        }
    }
}

/// The storage that imports are written to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// The storage class; `None` if there is no default.
    pub class: Option<String>,
    /// Whether imports are kept as snapshots.
    pub snapshots: bool,
    /// The class of the snapshots.
    pub snapshot_class: Option<String>,
    /// Whether only one node at a time can use a volume.
    pub read_write_once: bool,
}

/// The decision about a DataImportCron.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The writes, in this order.
    pub actions: Vec<Action>,
    /// The desired status.
    pub status: DataImportCronStatus,
    /// Whether it differs from the current one.
    pub status_changed: bool,
    /// When to poll the source.
    pub poll: NextPoll,
    /// The current failure, if any.
    pub failure: Option<Failure>,
    /// The events to emit; only changes produce one.
    pub events: Vec<Event>,
    /// Whether all owned objects of a DataImportCron that is being deleted are gone.
    pub finished: bool,
    /// The value of the metric; `None` while the DataImportCron is being deleted, or while another
    /// one manages its DataSource.
    pub outdated: Option<Outdated>,
}

/// An event to emit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Whether it is of type Warning.
    pub warning: bool,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// The value of `kubevirt_cdi_dataimportcron_outdated`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outdated {
    /// Whether there is no default storage class.
    pub pending: bool,
    /// Whether the last import is not the newest version.
    pub outdated: bool,
}

/// The name of the metric of [`Outdated`]; its labels are `namespace`, `cron_name` and `pending`.
pub const OUTDATED: &str = "kubevirt_cdi_dataimportcron_outdated";

/// A decision under construction.
struct Draft<'a> {
    facts: &'a CronInputs<'a>,
    namespace: &'a str,
    name: &'a str,
    /// The desired annotations.
    annotations: BTreeMap<String, String>,
    actions: Vec<Action>,
    status: DataImportCronStatus,
    events: Vec<Event>,
    failure: Option<Failure>,
}

/// Decides what a DataImportCron has to do.
pub fn decide(facts: &CronInputs<'_>) -> Decision {
    let cron = facts.cron;
    let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
    let name = cron.metadata.name.as_deref().unwrap_or_default();
    let mut draft = Draft {
        facts,
        namespace,
        name,
        annotations: cron.metadata.annotations.clone().unwrap_or_default(),
        actions: Vec::new(),
        status: cron.status.clone().unwrap_or_default(),
        events: Vec::new(),
        failure: None,
    };
    if cron.metadata.deletion_timestamp.is_some() {
        let finished = collect::clean_up(&mut draft);
        return draft.finish(NextPoll::Never, finished, None);
    }
    // As `shouldReconcileCron` in CDI (pkg/controller/dataimportcron-controller.go): two that
    // manage one DataSource would switch it back and forth. Unlike there, the condition states it,
    // not only an event.
    if let Some(rival) = facts.rival {
        let source = &cron.spec.managed_data_source;
        let message = format!("DataSource {source} is already managed by DataImportCron {rival}");
        draft.set_condition("UpToDate", false, ALREADY_MANAGED, &message);
        let before = cron.status.as_ref().map(|status| &status.conditions);
        if before != Some(&draft.status.conditions) {
            draft.events.push(Event {
                warning: true,
                reason: ALREADY_MANAGED,
                message,
            });
        }
        return draft.finish(NextPoll::Never, false, None);
    }
    draft.record_poll();
    // After the answer is recorded, else the poll that was just made would be due again.
    let mut poll = draft.next_poll();
    let desired = draft.desired();
    import::advance(&mut draft, desired.as_deref());
    if draft.failure.as_ref().map(|it| it.reason) == Some(Reason::NotAuthorized) {
        // RBAC changes produce no watch event for this object.
        let again = facts.now.checked_add(PERMISSION_RECHECK_DELAY);
        poll = poll.or(again.map_or(NextPoll::Never, NextPoll::At));
    }
    let outdated = !draft
        .status
        .conditions
        .iter()
        .any(|known| known.kind == "UpToDate" && known.status == "True");
    let outdated = Outdated {
        pending: outdated && facts.storage.class.is_none(),
        outdated,
    };
    draft.annotate();
    draft.finish(poll, false, Some(outdated))
}

impl<'a> Draft<'a> {
    fn annotation(&self, name: &str) -> Option<&str> {
        let text = self.annotations.get(name).map(String::as_str);
        text.filter(|text| !text.is_empty())
    }

    fn set(&mut self, wanted: MetadataValues<'_>) {
        for (name, value) in wanted {
            match value {
                Some(value) => self.annotations.insert(name.to_owned(), value),
                None => self.annotations.remove(name),
            };
        }
    }

    /// The message of an earlier failure for this reason. It is kept in an annotation: a new leader has not seen the
    /// failure itself, and the condition's message also contains the time of the next try.
    fn previous_message(&self, reason: Reason) -> Option<&str> {
        let known = conditions::get(&self.status.conditions, "UpToDate")?;
        let message = self.annotation(names::FAILURE_MESSAGE);
        message.filter(|_| known.reason.as_deref() == Some(reason.as_str()))
    }

    fn set_condition(&mut self, kind: &'static str, status: bool, reason: &str, message: &str) {
        let update = ConditionUpdate::new(kind, status, reason, message);
        update.put(&mut self.status.conditions, self.facts.now);
    }

    /// Records a failure: condition UpToDate, and an event if the reason changed.
    fn fail(&mut self, failure: Failure, next: Option<Timestamp>) {
        let mut message = failure.message.clone();
        if let Some(next) = next {
            message = format!("{message}; next try at {}", format_time(next));
        }
        let reason = failure.reason.as_str();
        let is_new_reason = self.facts.cron.status.as_ref().is_none_or(|status| {
            !status
                .conditions
                .iter()
                .any(|known| known.kind == "UpToDate" && known.reason.as_deref() == Some(reason))
        });
        if is_new_reason {
            self.events.push(Event {
                warning: true,
                reason,
                message: failure.message.clone(),
            });
        }
        self.set_condition("UpToDate", false, reason, &message);
        self.failure = Some(failure);
    }

    /// Records the answer of a poll. Other writers may set the digest annotation, too (CDI's
    /// external pollers do): the last written value counts until the next poll.
    fn record_poll(&mut self) {
        let Some(polled) = self.facts.polled else {
            return;
        };
        // The answer stays an input of every reconcile until the next poll. Annotations have whole
        // seconds, and an answer that is compared with more precision would be recorded again each
        // time, its failure counted again.
        let at = whole(polled.at);
        if self.last_poll().is_some_and(|last| last >= at) {
            return;
        }
        self.status.last_execution_timestamp = Some(Time(at));
        let mut wanted: MetadataValues<'_> = BTreeMap::new();
        wanted.insert(annotations::LAST_CRON_TIME, Some(format_time(at)));
        let trouble = match &polled.answer {
            Ok(found) => {
                wanted.insert(annotations::DESIRED_DIGEST, Some(found.digest.clone()));
                // CDI uses the index digest as the version, so that a change of one architecture
                // imports all of them again. Here it is information only.
                wanted.insert(names::INDEX_DIGEST, found.index.clone());
                wanted.insert(names::CONTENT, found.content.clone());
                let listed: Vec<String> = found.architectures.iter().cloned().collect();
                wanted.insert(
                    names::AVAILABLE_ARCHITECTURES,
                    (!listed.is_empty()).then(|| listed.join(",")),
                );
                wanted.insert(IMAGE_STREAM_REFERENCE, found.reference.clone());
                None
            }
            Err(failure) => {
                let before = RetryState::read(&self.facts.cron.metadata);
                let retry = &self.facts.policy.retry;
                Some(RetryState::after(before, failure.reason, at, retry))
            }
        };
        wanted.extend(RetryState::annotations(trouble.as_ref()));
        self.set(wanted);
    }

    fn last_poll(&self) -> Option<Timestamp> {
        let text = self.annotation(annotations::LAST_CRON_TIME)?;
        parse_time(text).ok()
    }

    /// The failures in a row, including this decision's.
    fn trouble(&self) -> Option<RetryState> {
        RetryState::read(&ObjectMeta {
            annotations: Some(self.annotations.clone()),
            ..ObjectMeta::default()
        })
    }

    fn next_poll(&self) -> NextPoll {
        if import::no_node(self).is_some() {
            // No node could pull.
            return NextPoll::Never;
        }
        let spec = &self.facts.cron.spec;
        let policy = self.facts.policy;
        let question = poll::question(self.facts.cron);
        let delay = question.map_or(jiff::SignedDuration::ZERO, |question| {
            poll::delay(&question.url, self.facts.seed, policy.jitter)
        });
        let scheduled = poll::when(&spec.schedule, self.last_poll(), self.facts.now, delay);
        if let Some(requested) = self.requested_poll() {
            return requested.or(scheduled);
        }
        match self.trouble() {
            // A failed poll is repeated before the schedule is due, but not before its backoff is
            // over.
            Some(trouble) if scheduled != NextPoll::Never => {
                if trouble.next <= self.facts.now {
                    NextPoll::Now
                } else {
                    NextPoll::At(trouble.next)
                }
            }
            _ => scheduled,
        }
    }

    /// A poll requested through the annotation by which CDI postpones polls: it counts like a
    /// scheduled one, ignores the backoff, and is done when the source was polled since.
    fn requested_poll(&self) -> Option<NextPoll> {
        let at = parse_time(self.annotation(annotations::NEXT_CRON_TIME)?).ok()?;
        if self.last_poll().is_some_and(|last| last >= at) {
            return None;
        }
        Some(if at <= self.facts.now {
            NextPoll::Now
        } else {
            NextPoll::At(at)
        })
    }

    /// The architecture that is imported.
    fn architecture(&self) -> Option<&'a str> {
        let cron = self.facts.cron;
        architecture(&cron.metadata, cron.spec.template.spec.source.as_ref()?)
    }

    /// The digest to import: the pinned one, else the one that the source offers.
    fn desired(&self) -> Option<String> {
        let cron = self.facts.cron;
        let base = label(&cron.metadata, labels::DATA_SOURCE_NAME);
        let base = base.unwrap_or(&cron.spec.managed_data_source);
        let architecture = label(&cron.metadata, labels::ARCHITECTURE).unwrap_or_default();
        let policy = self.facts.policy;
        // Before the annotation, which pollers of CDI may overwrite at any time.
        if let Some(pin) = policy.pin_for(self.namespace, base, architecture) {
            return Some(pin.to_owned());
        }
        let written = self.annotation(annotations::DESIRED_DIGEST);
        written.map(str::to_owned)
    }

    /// Patches the annotations of the DataImportCron, if they differ.
    fn annotate(&mut self) {
        let message = self.failure.as_ref().map(|it| it.message.clone());
        self.set([(names::FAILURE_MESSAGE, message)].into());
        let live = self.facts.cron.metadata.annotations.clone();
        let live = live.unwrap_or_default();
        let mut wanted: MetadataValues<'_> =
            live.keys().map(|name| (name.as_str(), None)).collect();
        for (name, value) in &self.annotations {
            wanted.insert(name, Some(value.clone()));
        }
        if let Some(patch) =
            metadata_patch(&self.facts.cron.metadata, &MetadataValues::new(), &wanted)
        {
            self.patch(
                Kind::DataImportCron,
                self.name,
                patch,
                "the source was polled",
            );
        }
    }

    fn patch(&mut self, kind: Kind, name: &str, patch: Value, why: &'static str) {
        self.actions.push(Action::Patch {
            kind,
            of: named(self.namespace, name),
            patch,
            why,
        });
    }

    fn delete(&mut self, kind: Kind, name: &str, why: &'static str) {
        let of = named(self.namespace, name);
        let again = self
            .actions
            .iter()
            .any(|action| matches!(action, Action::Delete { kind: k, of: o, .. } if *k == kind && *o == of));
        if !again {
            self.actions.push(Action::Delete { kind, of, why });
        }
    }

    fn create(&mut self, kind: Kind, object: Value) {
        self.actions.push(Action::Create { kind, object });
    }

    fn import_of(&self, name: &str) -> Option<&'a DataVolume> {
        let facts: &'a CronInputs<'a> = self.facts;
        facts
            .imports
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn claim_of(&self, name: &str) -> Option<&'a Claim> {
        let facts: &'a CronInputs<'a> = self.facts;
        facts
            .claims
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn snapshot_of(&self, name: &str) -> Option<&'a VolumeSnapshot> {
        let facts: &'a CronInputs<'a> = self.facts;
        facts
            .snapshots
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn finish(self, poll: NextPoll, finished: bool, outdated: Option<Outdated>) -> Decision {
        let before = self.facts.cron.status.clone().unwrap_or_default();
        Decision {
            status_changed: self.status != before,
            actions: self.actions,
            status: self.status,
            poll,
            failure: self.failure,
            events: self.events,
            finished,
            outdated,
        }
    }
}

/// Reason: another DataImportCron manages the DataSource. It is CDI's.
const ALREADY_MANAGED: &str = "ErrDataSourceAlreadyManaged";

/// Delay before a denied permission is checked again.
///
/// Watching all RBAC objects for this one case would cost more than a SubjectAccessReview a minute.
const PERMISSION_RECHECK_DELAY: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// CDI's annotation for the pull reference of an image stream.
const IMAGE_STREAM_REFERENCE: &str = "cdi.kubevirt.io/storage.import.imageStreamDockerRef";

/// Whether a label of a DataImportCron is copied to its objects: those of the domain kubevirt.io
/// are.
pub(super) fn is_inherited_label(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else {
        return false;
    };
    // `validLabelsMatch` in CDI's pkg/controller/common/util.go, without a regular expression.
    let word = |text: &str, more: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || it == '_' || more.contains(it))
    };
    let kubevirt = domain == "kubevirt.io"
        || domain
            .strip_suffix(".kubevirt.io")
            .is_some_and(|start| word(start, "."));
    kubevirt && word(rest, ".-")
}

/// The labels of objects that a DataImportCron creates.
fn inherited_labels(cron: &DataImportCron) -> BTreeMap<String, String> {
    let own = cron.metadata.labels.iter().flatten();
    let mut passed: BTreeMap<String, String> = own
        .filter(|(name, _)| is_inherited_label(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let name = name_of(&cron.metadata).name;
    passed.insert(labels::DATA_IMPORT_CRON.to_owned(), name);
    if cron.spec.cleans_up() {
        passed.insert(labels::CLEANUP.to_owned(), "true".to_owned());
    }
    passed
}

/// The failure for a digest that no name can be derived from.
fn invalid_digest(digest: &str, why: &str) -> Failure {
    Failure::new(
        Reason::InvalidDigest,
        format!("digest {digest:?} cannot be imported: {why}"),
    )
}

/// The patch that records the last use of an import.
fn use_time(now: Timestamp) -> Value {
    json!({ "metadata": { "annotations": { annotations::LAST_USE_TIME: format_time(now) } } })
}
