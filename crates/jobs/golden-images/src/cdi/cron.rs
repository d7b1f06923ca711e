//! What a DataImportCron has to do: import what is new, point to it, and keep what is to be kept.
//!
//! Whatever fails, the DataSource goes on standing for the last import that succeeded.

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

use super::failure::{Failure, Reason, Trouble};
use super::origin::architecture;
use super::poll::{self, Polled, When};
use crate::action::{Action, Kind, Wanted, label, metadata_patch, name_of, named};
use crate::conditions::{self, Said, whole};
use crate::policy::Policy;

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The DataImportCron.
    pub cron: &'a DataImportCron,
    /// What the registry was asked last, if this program asked it.
    pub polled: Option<&'a Polled>,
    /// Why nobody has asked it yet, if something is in the way.
    pub hindered: Option<&'a Failure>,
    /// Why its source may not be imported, if somebody has to allow that and does not.
    pub denied: Option<&'a Failure>,
    /// The DataSource that it manages.
    pub source: Option<&'a DataSource>,
    /// Another DataImportCron that is there and manages the same DataSource, by its label.
    pub rival: Option<&'a str>,
    /// DataVolumes that bear its label, or the name of an import.
    pub imports: &'a [DataVolume],
    /// Volumes that bear its label, or the name of an import.
    pub claims: &'a [Claim],
    /// Snapshots that bear its label, or the name of an import.
    pub snapshots: &'a [VolumeSnapshot],
    /// The storage that imports go to.
    pub storage: &'a Storage,
    /// The architectures of the nodes that could pull.
    pub nodes: &'a BTreeSet<String>,
    /// Volumes and snapshots that are being cloned.
    pub busy: &'a BTreeSet<String>,
    /// How images are kept.
    pub policy: &'a Policy,
    /// Something that differs from cluster to cluster.
    pub seed: u64,
    /// Now.
    pub now: Timestamp,
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claim {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Whether it is bound.
    pub bound: bool,
    /// `Filesystem` or `Block`.
    pub mode: Option<String>,
    /// How big it is.
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

/// The storage that imports go to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// The storage class; none if there is no default.
    pub class: Option<String>,
    /// Whether imports are kept as snapshots.
    pub snapshots: bool,
    /// The class of the snapshots.
    pub snapshot_class: Option<String>,
    /// Whether a volume is used by one node at a time.
    pub read_write_once: bool,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// What the status has to be.
    pub status: DataImportCronStatus,
    /// Whether it is not so.
    pub status_changed: bool,
    /// When to ask the registry.
    pub poll: When,
    /// What is wrong, if something is.
    pub failure: Option<Failure>,
    /// What is told, on the change.
    pub events: Vec<Event>,
    /// Whether everything of a DataImportCron that is being deleted is gone.
    pub finished: bool,
    /// Whether the last import is not the newest, and whether that is because there is no storage.
    pub outdated: Option<Outdated>,
}

/// Something that users are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Whether something is wrong.
    pub warning: bool,
    /// In a word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

/// `kubevirt_cdi_dataimportcron_outdated`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outdated {
    /// Whether there is no default storage class.
    pub pending: bool,
    /// Whether the last import is not the newest.
    pub outdated: bool,
}

/// How the metric of [`Outdated`] is called; its labels are `namespace`, `cron_name` and `pending`.
pub const OUTDATED: &str = "kubevirt_cdi_dataimportcron_outdated";

/// A decision in the making.
struct Draft<'a> {
    facts: &'a Facts<'a>,
    namespace: &'a str,
    name: &'a str,
    /// Annotations as they will be.
    annotations: BTreeMap<String, String>,
    actions: Vec<Action>,
    status: DataImportCronStatus,
    events: Vec<Event>,
    failure: Option<Failure>,
}

/// Decides what a DataImportCron has to do.
pub fn decide(facts: &Facts<'_>) -> Decision {
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
        let finished = collect::leave(&mut draft);
        return draft.finish(When::Never, finished, None);
    }
    if let Some(rival) = facts.rival {
        let source = &cron.spec.managed_data_source;
        let message = format!("DataSource {source} is already managed by DataImportCron {rival}");
        draft.say("UpToDate", false, TAKEN, &message);
        let before = cron.status.as_ref().map(|status| &status.conditions);
        if before != Some(&draft.status.conditions) {
            draft.events.push(Event {
                warning: true,
                reason: TAKEN,
                message,
            });
        }
        return draft.finish(When::Never, false, None);
    }
    draft.note_poll();
    let mut poll = draft.next_poll();
    let desired = draft.desired();
    import::advance(&mut draft, desired.as_deref());
    if draft.failure.as_ref().map(|it| it.reason) == Some(Reason::NotAuthorized) {
        // Nobody tells when rights change.
        let again = facts.now.checked_add(RIGHTS);
        poll = poll.or(again.map_or(When::Never, When::At));
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

    fn set(&mut self, wanted: Wanted<'_>) {
        for (name, value) in wanted {
            match value {
                Some(value) => self.annotations.insert(name.to_owned(), value),
                None => self.annotations.remove(name),
            };
        }
    }

    /// What was said of a failure before, without when it is tried again.
    fn said_of(&self, reason: Reason) -> Option<&str> {
        let known = conditions::get(&self.status.conditions, "UpToDate")?;
        if known.reason.as_deref() != Some(reason.as_str()) {
            return None;
        }
        let said = known.message.as_deref()?;
        Some(said.rsplit_once(NEXT_TRY).map_or(said, |(start, _)| start))
    }

    fn say(&mut self, kind: &'static str, status: bool, reason: &str, message: &str) {
        let said = Said::new(kind, status, reason, message);
        said.put(&mut self.status.conditions, self.facts.now);
    }

    /// Something is wrong: the conditions say so by name.
    fn fail(&mut self, failure: Failure, next: Option<Timestamp>) {
        let mut message = failure.message.clone();
        if let Some(next) = next {
            message = format!("{message}{NEXT_TRY}{}", format_time(next));
        }
        let reason = failure.reason.as_str();
        let news = self.facts.cron.status.as_ref().is_none_or(|status| {
            !status
                .conditions
                .iter()
                .any(|known| known.kind == "UpToDate" && known.reason.as_deref() == Some(reason))
        });
        if news {
            self.events.push(Event {
                warning: true,
                reason,
                message: failure.message.clone(),
            });
        }
        self.say("UpToDate", false, reason, &message);
        self.failure = Some(failure);
    }

    /// Writes down what a registry said. Anybody may write the digest, too: what is written last
    /// counts until the registry is asked again.
    fn note_poll(&mut self) {
        let Some(polled) = self.facts.polled else {
            return;
        };
        let at = whole(polled.at);
        if self.last_poll().is_some_and(|last| last >= at) {
            return;
        }
        self.status.last_execution_timestamp = Some(Time(at));
        let mut wanted: Wanted<'_> = BTreeMap::new();
        wanted.insert(annotations::LAST_CRON_TIME, Some(format_time(at)));
        let trouble = match &polled.answer {
            Ok(found) => {
                wanted.insert(annotations::DESIRED_DIGEST, Some(found.digest.clone()));
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
                let before = Trouble::read(&self.facts.cron.metadata);
                let retry = &self.facts.policy.retry;
                Some(Trouble::after(before, failure.reason, at, retry))
            }
        };
        wanted.extend(Trouble::annotations(trouble.as_ref()));
        self.set(wanted);
    }

    fn last_poll(&self) -> Option<Timestamp> {
        let text = self.annotation(annotations::LAST_CRON_TIME)?;
        parse_time(text).ok()
    }

    /// Failures in a row, as they will be.
    fn trouble(&self) -> Option<Trouble> {
        Trouble::read(&ObjectMeta {
            annotations: Some(self.annotations.clone()),
            ..ObjectMeta::default()
        })
    }

    fn next_poll(&self) -> When {
        if import::no_node(self).is_some() {
            // Nobody could answer.
            return When::Never;
        }
        let spec = &self.facts.cron.spec;
        let policy = self.facts.policy;
        let question = poll::question(self.facts.cron);
        let delay = question.map_or(jiff::SignedDuration::ZERO, |question| {
            poll::delay(&question.url, self.facts.seed, policy.jitter)
        });
        let scheduled = poll::when(&spec.schedule, self.last_poll(), self.facts.now, delay);
        if let Some(asked) = self.asked_poll() {
            return asked.or(scheduled);
        }
        match self.trouble() {
            // What failed is asked again sooner than scheduled, but not before its time.
            Some(trouble) if scheduled != When::Never => {
                if trouble.next <= self.facts.now {
                    When::Now
                } else {
                    When::At(trouble.next)
                }
            }
            _ => scheduled,
        }
    }

    /// The poll that somebody asks for, by the annotation by which CDI puts polls off: it is as good
    /// as one that is scheduled, whatever failed before, and is over when the source was polled since.
    fn asked_poll(&self) -> Option<When> {
        let at = parse_time(self.annotation(annotations::NEXT_CRON_TIME)?).ok()?;
        if self.last_poll().is_some_and(|last| last >= at) {
            return None;
        }
        Some(if at <= self.facts.now {
            When::Now
        } else {
            When::At(at)
        })
    }

    /// The architecture that is imported.
    fn architecture(&self) -> Option<&'a str> {
        let cron = self.facts.cron;
        architecture(&cron.metadata, cron.spec.template.spec.source.as_ref()?)
    }

    /// What is to be imported: what is held on to, or what the registry has.
    fn desired(&self) -> Option<String> {
        let cron = self.facts.cron;
        let base = label(&cron.metadata, labels::DATA_SOURCE_NAME);
        let base = base.unwrap_or(&cron.spec.managed_data_source);
        let architecture = label(&cron.metadata, labels::ARCHITECTURE).unwrap_or_default();
        let policy = self.facts.policy;
        if let Some(pin) = policy.pin_for(self.namespace, base, architecture) {
            return Some(pin.to_owned());
        }
        let written = self.annotation(annotations::DESIRED_DIGEST);
        written.map(str::to_owned)
    }

    /// Changes the annotations of the DataImportCron, if they are not as they have to be.
    fn annotate(&mut self) {
        let live = self.facts.cron.metadata.annotations.clone();
        let live = live.unwrap_or_default();
        let mut wanted: Wanted<'_> = live.keys().map(|name| (name.as_str(), None)).collect();
        for (name, value) in &self.annotations {
            wanted.insert(name, Some(value.clone()));
        }
        if let Some(patch) = metadata_patch(&self.facts.cron.metadata, &Wanted::new(), &wanted) {
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
        let facts: &'a Facts<'a> = self.facts;
        facts
            .imports
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn claim_of(&self, name: &str) -> Option<&'a Claim> {
        let facts: &'a Facts<'a> = self.facts;
        facts
            .claims
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn snapshot_of(&self, name: &str) -> Option<&'a VolumeSnapshot> {
        let facts: &'a Facts<'a> = self.facts;
        facts
            .snapshots
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(name))
    }

    fn finish(self, poll: When, finished: bool, outdated: Option<Outdated>) -> Decision {
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

/// Somebody else keeps the DataSource current.
const TAKEN: &str = "ErrDataSourceAlreadyManaged";

/// When to look again whether somebody allows what was not allowed.
const RIGHTS: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// What is said before the time of the next try.
const NEXT_TRY: &str = "; next try at ";

/// Where an image stream says that the image is.
const IMAGE_STREAM_REFERENCE: &str = "cdi.kubevirt.io/storage.import.imageStreamDockerRef";

/// Whether a label of a DataImportCron goes on to what it makes: those of KubeVirt do.
pub(super) fn is_passed_on(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else {
        return false;
    };
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

/// Labels of what a DataImportCron makes.
fn passed_on(cron: &DataImportCron) -> BTreeMap<String, String> {
    let own = cron.metadata.labels.iter().flatten();
    let mut passed: BTreeMap<String, String> = own
        .filter(|(name, _)| is_passed_on(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let name = name_of(&cron.metadata).name;
    passed.insert(labels::DATA_IMPORT_CRON.to_owned(), name);
    if cron.spec.cleans_up() {
        passed.insert(labels::CLEANUP.to_owned(), "true".to_owned());
    }
    passed
}

/// A failure that comes of the specification.
fn invalid_digest(digest: &str, why: &str) -> Failure {
    Failure::new(
        Reason::InvalidDigest,
        format!("digest {digest:?} cannot be imported: {why}"),
    )
}

/// A time as imports remember it.
fn use_time(now: Timestamp) -> Value {
    json!({ "metadata": { "annotations": { annotations::LAST_USE_TIME: format_time(now) } } })
}
