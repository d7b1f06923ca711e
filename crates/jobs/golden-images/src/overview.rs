//! The images of a cluster as users see them: one name, and the state of every architecture behind
//! it.
//!
//! Everything is read from the objects themselves, so it works with Medley's importer and with CDI.

mod explain;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{
    DataImportCron, DataImportCronStatus, DataSource, DataSourceRef, DataVolume, Named,
    VolumeSnapshot, annotations, labels,
};
use api::golden::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::quantity::Quantity;
use machinery::time::parse_time;
use serde::Serialize;
use serde_json::Value;

pub use explain::{Explanation, explain};
pub use state::State;
pub(crate) use state::{is_failed, is_ready};

use crate::action::{annotation, label, name_of, named};
use crate::cdi::cron::Claim;
use crate::cdi::failure::RetryState;
use crate::cdi::poll::{self, NextPoll};
use crate::conditions;
use crate::history::volumes::{self, Volume};
use crate::history::{self, Entry};
use crate::list::ArchitectureList;
use crate::names::fitting;
use crate::policy::Policy;
use crate::upstream_pins;

/// The objects that the overview is built from.
#[derive(Debug, Clone, Copy)]
pub struct OverviewInputs<'a> {
    /// DataImportCrons.
    pub crons: &'a [DataImportCron],
    /// DataSources.
    pub sources: &'a [DataSource],
    /// DataVolumes.
    pub imports: &'a [DataVolume],
    /// PersistentVolumeClaims.
    pub claims: &'a [Claim],
    /// VolumeSnapshots.
    pub snapshots: &'a [VolumeSnapshot],
    /// The policy in force.
    pub policy: &'a Policy,
    /// The current time.
    pub now: Timestamp,
}

/// An image: a name and its architectures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Its namespace.
    pub namespace: String,
    /// Its name without architecture.
    pub name: String,
    /// The target of the name, if it is a pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<Pointer>,
    /// By architecture.
    pub architectures: Vec<Variant>,
}

/// A DataSource that points to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pointer {
    /// The DataSource that it points to.
    pub data_source: String,
    /// The choice of the default architecture, as recorded in the annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it can be cloned.
    pub ready: bool,
    /// The message of the condition Ready, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An image for one architecture.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Variant {
    /// The architecture; empty for an image without one.
    pub architecture: String,
    /// Whether the name without architecture points to this one.
    pub is_default: bool,
    /// The DataSource.
    pub data_source: String,
    /// The DataImportCron that manages it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Its state.
    pub state: State,
    /// The reason, in CamelCase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The digest of the version in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Since when it is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The cloneable source: `pvc/NAME` or `snapshot/NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The version that the source offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<String>,
    /// The version that the policy pins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// The DataVolume that is being imported, or fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importing: Option<String>,
    /// Its progress, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The URL of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// When the source was last polled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<Timestamp>,
    /// When the next poll is scheduled; jitter may delay it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_poll: Option<Timestamp>,
    /// The number of failures in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// When the failed poll or import is retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry: Option<Timestamp>,
    /// When it is deleted, unless a node of its architecture joins before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves_at: Option<Timestamp>,
    /// The architectures that the source actually has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub available: Vec<String>,
    /// The versions that were in use, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Entry>,
    /// The versions that are still kept, so that a rollback needs no import.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Whether it is pinned in an object of CDI, SSP or HCO, and not in the policy.
    #[serde(skip)]
    pub is_pinned_upstream: bool,
    /// Whether the import is retried, rather than the poll.
    #[serde(skip)]
    pub import_failed: bool,
    /// The name and architecture by which a policy refers to it.
    #[serde(skip)]
    pub policy_key: Option<(Named, String)>,
}

/// The objects of one image.
#[derive(Default)]
struct Group<'a> {
    pointer: Option<&'a DataSource>,
    /// By the name of the DataSource.
    members: BTreeMap<String, Member<'a>>,
}

#[derive(Default)]
struct Member<'a> {
    source: Option<&'a DataSource>,
    cron: Option<&'a DataImportCron>,
}

/// Groups the objects by image, sorted by namespace and name.
pub fn images(facts: &OverviewInputs<'_>) -> Vec<Image> {
    let mut groups: BTreeMap<Named, Group<'_>> = BTreeMap::new();
    for source in facts.sources {
        let of = name_of(&source.metadata);
        if source.spec.source.data_source.is_some() {
            let key = named(&of.namespace, &fitting(&of.name));
            groups.entry(key).or_default().pointer = Some(source);
            continue;
        }
        let base = label(&source.metadata, labels::DATA_SOURCE_NAME);
        let key = named(&of.namespace, base.unwrap_or(&fitting(&of.name)));
        let members = &mut groups.entry(key).or_default().members;
        members.entry(of.name).or_default().source = Some(source);
    }
    for cron in facts.crons {
        let managed = &cron.spec.managed_data_source;
        let of = name_of(&cron.metadata);
        let base = label(&cron.metadata, labels::DATA_SOURCE_NAME);
        let key = named(&of.namespace, base.unwrap_or(&fitting(managed)));
        let members = &mut groups.entry(key).or_default().members;
        let known = &mut members.entry(managed.clone()).or_default().cron;
        // If two manage the same DataSource, the one in its label wins.
        if known.is_none() || is_labelled_with(facts, cron) {
            *known = Some(cron);
        }
    }
    groups
        .into_iter()
        .map(|(key, group)| image(facts, key, &group))
        .collect()
}

/// Whether a DataSource is labelled with this DataImportCron.
fn is_labelled_with(facts: &OverviewInputs<'_>, cron: &DataImportCron) -> bool {
    let of = name_of(&cron.metadata);
    let source = named(&of.namespace, &cron.spec.managed_data_source);
    facts.sources.iter().any(|it| {
        name_of(&it.metadata) == source
            && label(&it.metadata, labels::DATA_IMPORT_CRON) == Some(&of.name)
    })
}

fn image(facts: &OverviewInputs<'_>, key: Named, group: &Group<'_>) -> Image {
    let pointer = group.pointer.and_then(pointer);
    let target = pointer.as_ref().map(|it| it.data_source.as_str());
    let mut architectures: Vec<Variant> = group
        .members
        .iter()
        .map(|(name, member)| {
            let mut variant = variant(facts, &key.namespace, name, member);
            variant.is_default = target == Some(name);
            variant
        })
        .collect();
    architectures.sort_by(|one, other| one.architecture.cmp(&other.architecture));
    // Label values are shortened, so only the pointer has the full name.
    let own = group.pointer.map(|it| name_of(&it.metadata).name);
    let only = group
        .members
        .keys()
        .next()
        .filter(|_| group.members.len() == 1 && group.members.values().all(|it| !is_part(it)));
    Image {
        name: own.or_else(|| only.cloned()).unwrap_or(key.name),
        namespace: key.namespace,
        pointer,
        architectures,
    }
}

/// Whether a member is labelled with the name of an image.
fn is_part(member: &Member<'_>) -> bool {
    let source = member.source.map(|it| &it.metadata);
    let metas = [source, member.cron.map(|it| &it.metadata)];
    metas
        .into_iter()
        .flatten()
        .any(|meta| label(meta, labels::DATA_SOURCE_NAME).is_some())
}

fn pointer(source: &DataSource) -> Option<Pointer> {
    let Some(DataSourceRef::DataSource(to)) = source.spec.source.which() else {
        return None;
    };
    let status = source.status.as_ref();
    let ready_condition = status.and_then(|it| conditions::get(&it.conditions, "Ready"));
    let ready = is_ready(source);
    Some(Pointer {
        data_source: to.name.clone(),
        reason: annotation(&source.metadata, names::DEFAULT_REASON).map(str::to_owned),
        ready,
        message: ready_condition
            .filter(|_| !ready)
            .and_then(|it| it.message.clone()),
    })
}

fn variant(
    facts: &OverviewInputs<'_>,
    namespace: &str,
    name: &str,
    member: &Member<'_>,
) -> Variant {
    let mut found = Variant {
        data_source: name.to_owned(),
        ..Variant::default()
    };
    let metas = [
        member.cron.map(|it| &it.metadata),
        member.source.map(|it| &it.metadata),
    ];
    let metas: Vec<&ObjectMeta> = metas.into_iter().flatten().collect();
    let labelled = metas
        .iter()
        .find_map(|meta| label(meta, labels::ARCHITECTURE));
    let requested = member.cron.and_then(|it| it.spec.architecture());
    labelled
        .or(requested)
        .unwrap_or_default()
        .clone_into(&mut found.architecture);
    found.leaves_at = metas
        .iter()
        .find_map(|meta| annotation(meta, names::UNWANTED_SINCE))
        .and_then(|since| since.parse::<Timestamp>().ok())
        .and_then(|since| since.checked_add(facts.policy.grace).ok());
    if let Some(source) = member.source {
        fill_source(facts, namespace, source, &mut found);
    }
    let status = member.cron.and_then(|cron| cron.status.as_ref());
    if let Some(cron) = member.cron {
        fill_imports(facts, namespace, cron, &mut found);
    }
    let ready = member.source.is_some_and(is_ready);
    found.state = State::of(found.leaves_at.is_some(), ready, is_failed(status));
    (found.reason, found.message) = reason_and_message(member.source, status, ready);
    found
}

/// Fills in what a DataSource refers to, and since when.
fn fill_source(
    facts: &OverviewInputs<'_>,
    namespace: &str,
    source: &DataSource,
    found: &mut Variant,
) {
    found.history = history::read(source);
    let (name, is_snapshot) = match source.spec.source.which() {
        Some(DataSourceRef::Pvc(it)) => (&it.name, false),
        Some(DataSourceRef::Snapshot(it)) => (&it.name, true),
        Some(DataSourceRef::DataSource(_)) | None => return,
    };
    let is_it = |meta: &ObjectMeta| {
        meta.name.as_ref() == Some(name) && meta.namespace.as_deref() == Some(namespace)
    };
    let claim = facts.claims.iter().find(|it| is_it(&it.metadata));
    let snapshot = facts.snapshots.iter().find(|it| is_it(&it.metadata));
    let meta = if is_snapshot {
        snapshot.map(|it| &it.metadata)
    } else {
        claim.map(|it| &it.metadata)
    };
    found.size = if is_snapshot {
        snapshot.and_then(restored)
    } else {
        claim.and_then(|it| it.capacity.clone())
    };
    let known = found.history.first().filter(|entry| entry.name == *name);
    // The volume itself first: the history is an annotation that may be edited or lost.
    let digest = meta.and_then(|it| annotation(it, names::DIGEST));
    let digest = digest.or_else(|| known.map(|entry| entry.digest.as_str()));
    found.digest = digest.map(str::to_owned);
    let since = known.and_then(|entry| entry.since.parse().ok());
    found.since = since.or_else(|| Some(meta?.creation_timestamp.as_ref()?.0));
    let kind = if is_snapshot { "snapshot" } else { "pvc" };
    found.volume = meta.map(|_| format!("{kind}/{name}"));
}

/// The size of a PVC restored from a snapshot.
fn restored(snapshot: &VolumeSnapshot) -> Option<String> {
    // The capacity of the PVC: not every driver reports a `restoreSize`.
    let advised = annotation(&snapshot.metadata, annotations::ADVISED_RESTORE_SIZE);
    let status = snapshot.status.as_ref();
    let size = status.and_then(|it| it.rest.get("restoreSize")?.as_str());
    advised.or(size).map(str::to_owned)
}

/// Fills in what a DataImportCron reports about its imports.
fn fill_imports(
    facts: &OverviewInputs<'_>,
    namespace: &str,
    cron: &DataImportCron,
    found: &mut Variant,
) {
    let meta = &cron.metadata;
    found.cron.clone_from(&meta.name);
    let base = label(meta, labels::DATA_SOURCE_NAME).unwrap_or(&cron.spec.managed_data_source);
    let architecture = label(meta, labels::ARCHITECTURE).unwrap_or_default();
    let by_user = upstream_pins::pinned(cron);
    found.is_pinned_upstream = by_user.is_some();
    let by_policy = || facts.policy.pin_for(namespace, base, architecture);
    found.pinned = by_user.or_else(by_policy).map(str::to_owned);
    found.policy_key = Some((named(namespace, base), architecture.to_owned()));
    found.kept = kept(facts, &name_of(meta));
    fill_history(facts, cron, found);
    found.newest = annotation(meta, annotations::DESIRED_DIGEST).map(str::to_owned);
    found.url = url(cron);
    let listed = annotation(meta, names::AVAILABLE_ARCHITECTURES).map(ArchitectureList::parse);
    found.available = listed
        .map(|listed| [listed.known, listed.unknown].concat())
        .unwrap_or_default();
    found.last_poll =
        annotation(meta, annotations::LAST_CRON_TIME).and_then(|text| parse_time(text).ok());
    // Without the jitter, whose seed is known to the operator only: the time is shown as a lower
    // bound.
    let scheduled = poll::when(
        &cron.spec.schedule,
        found.last_poll,
        facts.now,
        SignedDuration::ZERO,
    );
    found.next_poll = match scheduled {
        NextPoll::At(at) => Some(at),
        NextPoll::Now => Some(facts.now),
        NextPoll::Never => None,
    };
    let mut trouble = RetryState::read(meta);
    let status = cron.status.as_ref();
    let current = status.and_then(|it| it.current_imports.first());
    if let Some(current) = current {
        if found.digest.is_none() && is_current(found, &current.data_volume_name) {
            found.digest = Some(current.digest.clone());
        }
        let import = facts.imports.iter().find(|it| {
            it.metadata.name.as_ref() == Some(&current.data_volume_name)
                && it.metadata.namespace.as_deref() == Some(namespace)
        });
        let status = import.and_then(|it| it.status.as_ref());
        let phase = status.and_then(|it| it.phase.as_deref());
        if let Some(import) = import.filter(|_| phase != Some("Succeeded")) {
            found.importing = Some(current.data_volume_name.clone());
            let progress = status.and_then(|it| it.progress.clone());
            found.progress = progress.filter(|it| it.ends_with('%'));
            let own = RetryState::read(&import.metadata);
            found.import_failed = own.is_some();
            // A failing poll before a failing import: nothing newer is known while it fails.
            trouble = trouble.or(own);
        }
    }
    found.failures = trouble.map(|it| it.failures);
    found.next_retry = trouble.map(|it| it.next);
}

/// Adds the versions that CDI keeps to the history, which only Medley records.
fn fill_history(facts: &OverviewInputs<'_>, cron: &DataImportCron, found: &mut Variant) {
    let snapshots = facts.snapshots.iter().map(|it| Volume {
        metadata: &it.metadata,
        is_snapshot: true,
    });
    let claims = facts.claims.iter().map(|it| Volume {
        metadata: &it.metadata,
        is_snapshot: false,
    });
    let volume = found.volume.as_deref().and_then(|it| it.split_once('/'));
    let current = volume.map(|(_, name)| name);
    let kept = volumes::kept(cron, snapshots.chain(claims), facts.imports, current);
    let in_use = kept
        .iter()
        .find(|entry| Some(entry.name.as_str()) == current);
    if let Some(entry) = in_use.filter(|entry| found.digest.is_none() && entry.is_whole()) {
        found.digest = Some(entry.digest.clone());
    }
    let digests = kept.iter().map(|entry| entry.digest.clone());
    found.kept.extend(digests);
    found.history = volumes::merged(kept, std::mem::take(&mut found.history));
}

/// The versions that have a PVC or a snapshot.
fn kept(facts: &OverviewInputs<'_>, cron: &Named) -> Vec<String> {
    let snapshots = facts.snapshots.iter().map(|it| &it.metadata);
    let metas = facts.claims.iter().map(|it| &it.metadata).chain(snapshots);
    let kept: BTreeSet<&str> = metas
        .filter(|meta| {
            meta.namespace.as_deref() == Some(&cron.namespace)
                && label(meta, labels::DATA_IMPORT_CRON) == Some(&cron.name)
        })
        .filter_map(|meta| annotation(meta, names::DIGEST))
        .collect();
    kept.into_iter().map(str::to_owned).collect()
}

fn is_current(found: &Variant, name: &str) -> bool {
    let volume = found.volume.as_deref().and_then(|it| it.split_once('/'));
    volume.is_some_and(|(_, volume)| volume == name)
}

/// The source of a DataImportCron.
fn url(cron: &DataImportCron) -> Option<String> {
    if let Some(question) = poll::question(cron) {
        return Some(question.url);
    }
    let source = cron.spec.template.spec.source.as_ref()?;
    if let Some(volume) = &source.pvc {
        return Some(format!("pvc/{}", volume.name));
    }
    let stream = source.registry.as_ref()?.image_stream.as_ref()?;
    Some(format!("imagestream/{stream}"))
}

/// Reason and message of the DataImportCron, else of the DataSource; none if all is well.
fn reason_and_message(
    source: Option<&DataSource>,
    status: Option<&DataImportCronStatus>,
    ready: bool,
) -> (Option<String>, Option<String>) {
    let of_cron = status.and_then(|it| conditions::get(&it.conditions, "UpToDate"));
    let of_cron = of_cron.filter(|it| it.status != "True");
    let status = source.and_then(|it| it.status.as_ref());
    let of_source = status.and_then(|it| conditions::get(&it.conditions, "Ready"));
    match of_cron.or_else(|| of_source.filter(|_| !ready)) {
        Some(condition) => (condition.reason.clone(), condition.message.clone()),
        None => (None, None),
    }
}

/// A size in one notation: PVCs report theirs in any unit, or in bytes.
pub fn human_size(quantity: &str) -> String {
    const UNITS: [(&str, u64); 5] = [
        ("PiB", 1 << 50),
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    let bytes = quantity.parse::<Quantity>().map(|it| it.value());
    let Ok(Ok(bytes)) = bytes.map(u64::try_from) else {
        return quantity.to_owned();
    };
    let Some((unit, one)) = UNITS.into_iter().find(|(_, one)| bytes >= *one) else {
        return format!("{bytes} B");
    };
    // Hundredths, rounded; 128 bits avoid overflow.
    let hundredths = (u128::from(bytes) * 100 + u128::from(one) / 2) / u128::from(one);
    format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100)
}

impl Image {
    /// Machine-readable output, with a kind like a Kubernetes object.
    pub fn to_value(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["kind"] = "Image".into();
        value
    }
}
