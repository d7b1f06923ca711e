//! The steps of an import: from a digest to the DataSource that refers to it.

use api::cdi::{
    DataSource, DataSourceSpec, DataVolume, ImportStatus, Source, VolumeSnapshot,
    VolumeSnapshotSource, VolumeSnapshotSpec, annotations, labels,
};
use api::golden::{Sniffing, UnchangedContent, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use machinery::time::format_time;
use serde_json::{Value, json};

use super::current::ImportState;
use super::{
    Draft, Event, IMAGE_STREAM_REFERENCE, collect, inherited_labels, invalid_digest, use_time,
};
use crate::action::{Kind, MetadataValues, annotation, label, metadata_patch, named};
use crate::cdi::failure::{Failure, Reason};
use crate::conditions::whole;
use crate::history::{self, Entry};
use crate::list::ArchitectureList;

/// Advances the import as far as its state allows.
pub(super) fn advance(draft: &mut Draft<'_>, desired: Option<&str>) {
    let Some(desired) = desired else {
        draft.set_condition("Progressing", false, "NoImport", "No current import");
        let no_node = no_node(draft).map(|failure| (failure, None));
        match no_node.or_else(|| poll_failure(draft)) {
            Some((failure, next)) => draft.fail(failure, next),
            None => draft.set_condition("UpToDate", false, "NoDigest", "No source digest"),
        }
        return;
    };
    let mut current = draft.status.current_imports.first().cloned();
    let mut state = current
        .as_ref()
        .map_or(ImportState::Missing, |it| draft.state(&it.data_volume_name));
    if state == ImportState::Missing {
        // It was deleted, or never existed.
        current = None;
        draft.status.current_imports.clear();
    }
    if let Some(known) = &current
        && known.digest != desired
    {
        match &state {
            ImportState::Running(_) => {
                // A running import is completed first; aborting it would waste the download.
                set_progressing(draft, &state);
                let message = "Source digest updated since last import";
                draft.set_condition("UpToDate", false, "Outdated", message);
                return;
            }
            ImportState::Imported | ImportState::Snapshot(true)
                if is_unchanged(draft, &known.data_volume_name, desired) =>
            {
                let digest = desired.to_owned();
                let data_volume_name = known.data_volume_name.clone();
                draft.events.push(Event {
                    warning: false,
                    reason: "ContentUnchanged",
                    message: format!("{desired} has the same disk content; skipping the import"),
                });
                draft.status.current_imports = vec![ImportStatus {
                    data_volume_name,
                    digest,
                }];
                current = draft.status.current_imports.first().cloned();
            }
            // CDI deletes it only for two reasons (`deleteErroneousDataVolume` in
            // pkg/controller/dataimportcron-controller.go) and waits for ever on the others.
            // Whatever fails here, the newer version may be the repair.
            ImportState::Failing(..) => {
                let name = known.data_volume_name.clone();
                draft.delete(Kind::DataVolume, &name, "a newer version exists");
                current = None;
            }
            _ => current = None,
        }
    }
    if current.is_none() {
        match start_import(draft, desired) {
            None => return,
            Some(begun) => {
                state = draft.state(&begun.data_volume_name);
                draft.status.current_imports = vec![begun.clone()];
                current = Some(begun);
            }
        }
    }
    let Some(current) = current else { return };
    continue_import(draft, &current, &state);
}

/// Whether a version has the disk content that is imported already.
fn is_unchanged(draft: &Draft<'_>, name: &str, desired: &str) -> bool {
    // The content annotation is that of the polled digest; a pinned digest may have any content.
    if draft.facts.policy.unchanged != UnchangedContent::Skip
        || draft.annotation(annotations::DESIRED_DIGEST) != Some(desired)
    {
        return false;
    }
    let Some(content) = draft.annotation(names::CONTENT) else {
        return false;
    };
    recorded_annotation(draft, name, names::CONTENT) == Some(content)
}

/// An annotation of an import, on whichever of its objects is left.
fn recorded_annotation<'a>(draft: &Draft<'a>, name: &str, what: &str) -> Option<&'a str> {
    let metas = [
        draft.snapshot_of(name).map(|it| &it.metadata),
        draft.claim_of(name).map(|it| &it.metadata),
        draft.import_of(name).map(|it| &it.metadata),
    ];
    metas
        .into_iter()
        .flatten()
        .find_map(|meta| annotation(meta, what))
}

/// Starts an import, or finds an existing one.
fn start_import(draft: &mut Draft<'_>, desired: &str) -> Option<ImportStatus> {
    let cron = draft.facts.cron;
    let name = match crate::names::volume(&cron.spec.managed_data_source, desired) {
        Ok(name) => name,
        Err(error) => {
            draft.set_condition("Progressing", false, "NoImport", "No current import");
            draft.fail(invalid_digest(desired, &error.to_string()), None);
            return None;
        }
    };
    let begun = |name: String| {
        Some(ImportStatus {
            data_volume_name: name,
            digest: desired.to_owned(),
        })
    };
    // Before permission and nodes are checked: an import that is there needs neither, for example
    // after a rollback.
    if let Some(name) = find_import(draft, &name, desired) {
        let patch = use_time(draft.facts.now);
        if draft.snapshot_of(&name).is_some() {
            draft.patch(Kind::Snapshot, &name, patch, "it is used again");
        } else {
            draft.patch(Kind::Claim, &name, patch, "it is used again");
        }
        return begun(name);
    }
    if draft.import_of(&name).is_some() {
        return begun(name);
    }
    let denied = || draft.facts.denied.cloned();
    // A DataVolume that cannot succeed is not created: it would hold a PVC, and its failure would
    // hide the reason on another object.
    let refused = no_node(draft).or_else(|| version_gone(draft, desired));
    if let Some(failure) = refused.or_else(denied).or_else(|| unpolled_stream(draft)) {
        if failure.reason == Reason::NotAuthorized {
            let (reason, message) = (failure.reason.as_str(), &failure.message);
            draft.set_condition("Progressing", false, reason, message);
        } else {
            draft.set_condition("Progressing", false, "NoImport", "No current import");
        }
        draft.fail(failure, None);
        return None;
    }
    let object = volume(draft, &name, desired);
    draft.create(Kind::DataVolume, json!(object));
    if let Some(class) = &draft.facts.storage.class {
        let name = annotations::STORAGE_CLASS.to_owned();
        draft.annotations.insert(name, class.clone());
    }
    begun(name)
}

/// An existing import of a version: by its name, or by its digest annotation.
fn find_import(draft: &Draft<'_>, name: &str, digest: &str) -> Option<String> {
    let facts = draft.facts;
    let metas = facts
        .snapshots
        .iter()
        .map(|it| &it.metadata)
        .chain(facts.claims.iter().map(|it| &it.metadata));
    let mut fitting = metas.filter(|meta| {
        let own = label(meta, labels::DATA_IMPORT_CRON) == Some(draft.name);
        meta.deletion_timestamp.is_none()
            && (meta.name.as_deref() == Some(name)
                // By digest as well: the DataImportCron may have been replaced by one with another
                // managedDataSource, and then the name differs.
                || (own && annotation(meta, names::DIGEST) == Some(digest)))
    });
    // The PVC of an unfinished DataVolume is not an import yet.
    fitting
        .find(|meta| {
            let name = meta.name.as_deref().unwrap_or_default();
            draft.import_of(name).is_none() || draft.snapshot_of(name).is_some()
        })
        .and_then(|meta| meta.name.clone())
}

/// The failure if a node has to pull, and no node has the architecture.
pub(super) fn no_node(draft: &Draft<'_>) -> Option<Failure> {
    let source = draft.facts.cron.spec.template.spec.source.as_ref()?;
    let registry = source.registry.as_ref()?;
    let architecture = draft.architecture()?;
    let by_node = registry.pull_method.as_deref() == Some("node");
    if !by_node || draft.facts.nodes.contains(architecture) {
        return None;
    }
    Some(Failure::new(
        Reason::NoMatchingNode,
        format!("pullMethod is node, and no node has the label kubernetes.io/arch={architecture}"),
    ))
}

/// The failure if a pinned version of an HTTP or PVC source is not kept: the source offers only its
/// current version, so an import by digest would fetch another one.
fn version_gone(draft: &Draft<'_>, desired: &str) -> Option<Failure> {
    let source = draft.facts.cron.spec.template.spec.source.as_ref()?;
    let what = match (&source.http, &source.pvc) {
        (Some(_), _) => "an HTTP server offers only the newest version",
        (None, Some(_)) => "a PVC has only one version",
        (None, None) => return None,
    };
    if draft.annotation(annotations::DESIRED_DIGEST) == Some(desired) {
        return None;
    }
    Some(Failure::new(
        Reason::ImageNotFound,
        format!("{desired} is not kept, and {what}"),
    ))
}

/// The failure if the image stream was not polled yet: without a pull reference its image cannot be
/// located.
fn unpolled_stream(draft: &Draft<'_>) -> Option<Failure> {
    let source = draft.facts.cron.spec.template.spec.source.as_ref()?;
    let registry = source.registry.as_ref()?;
    let stream = registry.image_stream.as_deref()?;
    if stream.is_empty() || draft.annotation(IMAGE_STREAM_REFERENCE).is_some() {
        return None;
    }
    Some(Failure::new(
        Reason::ImageNotFound,
        format!("ImageStream {stream} has not been polled yet"),
    ))
}

/// The DataVolume of an import.
fn volume(draft: &Draft<'_>, name: &str, digest: &str) -> DataVolume {
    let cron = draft.facts.cron;
    let template = &cron.spec.template;
    let meta = template.metadata.clone().unwrap_or_default();
    let mut notes = meta.annotations.unwrap_or_default();
    let mut note = |name: &str, value: &str| notes.insert(name.to_owned(), value.to_owned());
    // A golden image has no consumer that WaitForFirstConsumer could wait for.
    note(annotations::IMMEDIATE_BIND, "true");
    note(annotations::LAST_USE_TIME, &format_time(draft.facts.now));
    note(names::DIGEST, digest);
    if draft.annotation(annotations::DESIRED_DIGEST) == Some(digest)
        && let Some(content) = draft.annotation(names::CONTENT)
    {
        note(names::CONTENT, content);
    }
    if let Some(kept) = draft.annotation(annotations::RETAIN_POD) {
        note(annotations::RETAIN_POD, kept);
    }
    let mut own = meta.labels.unwrap_or_default();
    own.extend(inherited_labels(cron));
    let mut spec = template.spec.clone();
    let source = spec.source.as_mut();
    if let Some(registry) = source.and_then(|source| source.registry.as_mut()) {
        if registry.image_stream.take().is_some()
            && let Some(reference) = draft.annotation(IMAGE_STREAM_REFERENCE)
        {
            // The reference is that of the newest version, which may differ from the desired one.
            registry.url = Some(at_digest(&format!("docker://{reference}"), digest));
        } else if let Some(url) = &registry.url {
            // The tag may move between the poll and the pull, and the import would not be what its
            // name and annotation state.
            registry.url = Some(at_digest(url, digest));
        }
    }
    if draft.facts.storage.read_write_once {
        let storage = spec.storage.as_mut().or(spec.pvc.as_mut());
        if let Some(storage) = storage.filter(|it| it.access_modes.is_empty()) {
            storage.access_modes = vec!["ReadWriteOnce".to_owned()];
        }
    }
    DataVolume {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(draft.namespace.to_owned()),
            labels: Some(own),
            annotations: Some(notes),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// Replaces the tag by a digest: `docker://a/b:c` becomes `docker://a/b@sha256:...`.
fn at_digest(url: &str, digest: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("docker", url));
    if scheme != "docker" || !digest.starts_with("sha256:") {
        return url.to_owned();
    }
    let rest = rest.split_once('@').map_or(rest, |(name, _)| name);
    // A colon before the last slash separates a port.
    let start = rest.rfind('/').map_or(0, |slash| slash + 1);
    let name = match rest.get(start..).and_then(|last| last.find(':')) {
        Some(colon) => rest.get(..start + colon).unwrap_or(rest),
        None => rest,
    };
    format!("{scheme}://{name}@{digest}")
}

/// Sets the condition Progressing.
fn set_progressing(draft: &mut Draft<'_>, state: &ImportState) {
    match state {
        ImportState::Running(phase) => match phase.as_str() {
            "ImportScheduled" | "Pending" => {
                draft.set_condition(
                    "Progressing",
                    false,
                    "ImportScheduled",
                    "Import is scheduled",
                );
            }
            "ImportInProgress" => {
                draft.set_condition(
                    "Progressing",
                    true,
                    "ImportProgressing",
                    "Import is progressing",
                );
            }
            phase => {
                let message = format!("Import DataVolume phase {phase}");
                draft.set_condition("Progressing", false, phase, &message);
            }
        },
        ImportState::Missing => {
            draft.set_condition(
                "Progressing",
                false,
                "ImportScheduled",
                "Import is scheduled",
            );
        }
        ImportState::Failing(failure, _) => {
            let reason = failure.reason.as_str();
            draft.set_condition("Progressing", false, reason, &failure.message.clone());
        }
        ImportState::Imported | ImportState::Snapshot(_) => {
            draft.set_condition("Progressing", false, "NoImport", "No current import");
        }
    }
}

/// Continues from the state of the desired import: snapshot, DataSource, conditions, garbage.
fn continue_import(draft: &mut Draft<'_>, current: &ImportStatus, state: &ImportState) {
    set_progressing(draft, state);
    let name = current.data_volume_name.as_str();
    let ready = match state {
        ImportState::Running(_) | ImportState::Missing => {
            draft.set_condition(
                "UpToDate",
                false,
                "ImportProgressing",
                "Import is progressing",
            );
            return;
        }
        ImportState::Failing(failure, trouble) => {
            draft.fail(failure.clone(), trouble.map(|it| it.next));
            return;
        }
        ImportState::Imported => take_snapshot(draft, current),
        ImportState::Snapshot(ready) => *ready,
    };
    draft.status.source_format = Some(format(draft, name).to_owned());
    if !ready {
        let message = "Snapshot of imported data is progressing";
        draft.set_condition("UpToDate", false, "ImportProgressing", message);
        return;
    }
    // Before the DataSource: garbage collection and cleanup find imports by these labels. After a
    // kill between the two writes, an import must not be in use and unknown.
    record_metadata(draft, current);
    // Before the DataSource is switched, which is the last moment at which VMs are protected from
    // the disk.
    if let Some(failure) = wrong_architecture(draft, name) {
        if draft.facts.policy.sniffing == Sniffing::Refuse {
            draft.fail(failure, None);
            return;
        }
        let before = draft.facts.source.map(|it| &it.spec.source);
        if before != Some(&source(draft, name)) {
            draft.events.push(Event {
                warning: true,
                reason: failure.reason.as_str(),
                message: failure.message,
            });
        }
    }
    point_data_source(draft, current);
    if matches!(state, ImportState::Snapshot(_)) && draft.facts.storage.snapshots {
        // The snapshot is the import now, and the DataSource refers to it; the PVC was an
        // intermediate step.
        if draft.import_of(name).is_some() {
            draft.delete(Kind::DataVolume, name, "its snapshot is ready");
        } else if draft.claim_of(name).is_some() {
            draft.delete(Kind::Claim, name, "its snapshot is ready");
        }
    }
    match poll_failure(draft) {
        // The import is the newest known version, but a newer one may exist.
        Some((failure, next)) => draft.fail(failure, next),
        None => draft.set_condition("UpToDate", true, "UpToDate", "Latest import is up to date"),
    }
    // Last: a version is surplus only once the DataSource refers to its successor.
    collect::collect_garbage(draft, current);
}

/// The failure of the last poll, and the time of the next. A process that did not poll itself takes
/// the message from an annotation, so that a new leader does not change it.
fn poll_failure(draft: &Draft<'_>) -> Option<(Failure, Option<Timestamp>)> {
    if let Some(failure) = draft.facts.hindered {
        return Some((failure.clone(), None));
    }
    let trouble = draft.trouble()?;
    let failed = draft.facts.polled.and_then(|it| it.answer.as_ref().err());
    let message = failed
        .map(|failure| failure.message.as_str())
        .or_else(|| draft.previous_message(trouble.reason))
        .unwrap_or("the source could not be polled");
    Some((Failure::new(trouble.reason, message), Some(trouble.next)))
}

/// The format that an import is kept in.
fn format(draft: &Draft<'_>, name: &str) -> &'static str {
    if draft.snapshot_of(name).is_some() || draft.facts.storage.snapshots {
        "snapshot"
    } else {
        "pvc"
    }
}

/// Creates the snapshot of a complete PVC, if imports are kept as snapshots. Returns whether the
/// DataSource can refer to the import.
fn take_snapshot(draft: &mut Draft<'_>, current: &ImportStatus) -> bool {
    let name = current.data_volume_name.as_str();
    if !draft.facts.storage.snapshots {
        return true;
    }
    let claim = draft.claim_of(name);
    let mut notes: std::collections::BTreeMap<String, String> = [
        (
            annotations::LAST_USE_TIME,
            Some(format_time(draft.facts.now)),
        ),
        (names::DIGEST, Some(current.digest.clone())),
        (
            names::CONTENT,
            recorded_annotation(draft, name, names::CONTENT).map(str::to_owned),
        ),
        (
            names::SNIFFED,
            recorded_annotation(draft, name, names::SNIFFED).map(str::to_owned),
        ),
        (
            // A snapshot has neither mode nor size of its source; CDI reads both from these
            // annotations when a VM clones it (pkg/controller/common/util.go).
            annotations::SOURCE_VOLUME_MODE,
            claim.and_then(|claim| claim.mode.clone()),
        ),
        (
            annotations::ADVISED_RESTORE_SIZE,
            claim.and_then(|claim| claim.capacity.clone()),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect();
    notes.retain(|_, value| !value.is_empty());
    let snapshot = VolumeSnapshot {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(draft.namespace.to_owned()),
            labels: Some(inherited_labels(draft.facts.cron)),
            annotations: Some(notes),
            ..ObjectMeta::default()
        },
        spec: VolumeSnapshotSpec {
            source: VolumeSnapshotSource {
                persistent_volume_claim_name: Some(name.to_owned()),
                ..VolumeSnapshotSource::default()
            },
            volume_snapshot_class_name: draft.facts.storage.snapshot_class.clone(),
            ..VolumeSnapshotSpec::default()
        },
        status: None,
    };
    // It is not ready to use yet; the change of its status reconciles this object again.
    draft.create(Kind::Snapshot, json!(snapshot));
    false
}

/// Adds labels and annotations to an import, so that it can be identified without its DataVolume.
fn record_metadata(draft: &mut Draft<'_>, current: &ImportStatus) {
    let name = current.data_volume_name.as_str();
    let (kind, meta) = match (draft.snapshot_of(name), draft.claim_of(name)) {
        (Some(snapshot), _) => (Kind::Snapshot, &snapshot.metadata),
        (None, Some(claim)) => (Kind::Claim, &claim.metadata),
        (None, None) => return,
    };
    let own = inherited_labels(draft.facts.cron);
    let own: MetadataValues<'_> = own
        .iter()
        .map(|(name, value)| (name.as_str(), Some(value.clone())))
        .collect();
    let mut notes = MetadataValues::new();
    let mut missing = |name: &'static str, value: Option<String>| {
        if let Some(value) = value
            && annotation(meta, name).is_none()
        {
            notes.insert(name, Some(value));
        }
    };
    missing(names::DIGEST, Some(current.digest.clone()));
    missing(
        annotations::LAST_USE_TIME,
        Some(format_time(draft.facts.now)),
    );
    missing(
        names::CONTENT,
        recorded_annotation(draft, name, names::CONTENT).map(str::to_owned),
    );
    missing(
        names::SNIFFED,
        recorded_annotation(draft, name, names::SNIFFED).map(str::to_owned),
    );
    if let Some(patch) = metadata_patch(meta, &own, &notes) {
        draft.patch(kind, name, patch, "it was imported");
    }
    let volume = named(draft.namespace, name);
    if draft.status.last_imported_pvc.as_ref() != Some(&volume) {
        draft.status.last_imported_pvc = Some(volume);
        draft.status.last_import_timestamp = Some(Time(whole(draft.facts.now)));
    }
}

/// The failure if the disk is for another architecture than the image declares.
fn wrong_architecture(draft: &Draft<'_>, name: &str) -> Option<Failure> {
    if draft.facts.policy.sniffing == Sniffing::Off {
        return None;
    }
    let wanted = draft.architecture()?;
    let sniffed = ArchitectureList::parse(recorded_annotation(draft, name, names::SNIFFED)?);
    let mut all = sniffed.known.iter().chain(&sniffed.unknown);
    // A disk without a recognisable boot loader is not a wrong one.
    if all.clone().next().is_none() || all.any(|it| it == wanted) {
        return None;
    }
    Some(Failure::new(
        Reason::ArchitectureMismatch,
        format!(
            "the disk of {name} is for {}, not for {wanted}",
            [sniffed.known.clone(), sniffed.unknown.clone()]
                .concat()
                .join(", ")
        ),
    ))
}

fn source(draft: &Draft<'_>, name: &str) -> Source {
    if draft.snapshot_of(name).is_some() {
        Source::of_snapshot(draft.namespace, name)
    } else {
        Source::of_pvc(draft.namespace, name)
    }
}

/// Points the DataSource to an import. One without the label is not managed by a DataImportCron,
/// and is left alone.
fn point_data_source(draft: &mut Draft<'_>, current: &ImportStatus) {
    let cron = draft.facts.cron;
    let to = source(draft, &current.data_volume_name);
    let entry = Entry {
        digest: current.digest.clone(),
        name: current.data_volume_name.clone(),
        format: format(draft, &current.data_volume_name).to_owned(),
        since: format_time(draft.facts.now),
        derived: false,
    };
    let earlier = draft.facts.policy.history;
    let own = inherited_labels(cron);
    let Some(live) = draft.facts.source else {
        let object = DataSource {
            metadata: ObjectMeta {
                name: Some(cron.spec.managed_data_source.clone()),
                namespace: Some(draft.namespace.to_owned()),
                labels: Some(own),
                annotations: Some(
                    [(
                        names::HISTORY.to_owned(),
                        history::write(&history::with(Vec::new(), entry, earlier)),
                    )]
                    .into(),
                ),
                ..ObjectMeta::default()
            },
            spec: DataSourceSpec {
                source: to,
                ..DataSourceSpec::default()
            },
            status: None,
        };
        draft.create(Kind::DataSource, json!(object));
        return;
    };
    if label(&live.metadata, labels::DATA_IMPORT_CRON).is_none() {
        return;
    }
    let own: MetadataValues<'_> = own
        .iter()
        .map(|(name, value)| (name.as_str(), Some(value.clone())))
        .collect();
    let mut notes = MetadataValues::new();
    let moves = live.spec.source != to;
    if moves {
        let entries = history::with(history::read(live), entry, earlier);
        notes.insert(names::HISTORY, Some(history::write(&entries)));
    }
    let mut patch = metadata_patch(&live.metadata, &own, &notes);
    if moves {
        let mut only = json!({ "pvc": null, "snapshot": null, "dataSource": null });
        if let (Some(all), Value::Object(to)) = (only.as_object_mut(), json!(to)) {
            all.extend(to);
        }
        patch.get_or_insert_with(|| json!({}))["spec"] = json!({ "source": only });
    }
    if let Some(patch) = patch {
        let name = cron.spec.managed_data_source.clone();
        draft.patch(Kind::DataSource, &name, patch, "a version was imported");
    }
}
