//! Garbage collection of imports, and cleanup when a DataImportCron is deleted.

use std::collections::BTreeMap;

use api::cdi::{ImportStatus, annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Draft;
use crate::action::{Kind, annotation, label};

/// CDI's default for `importsToKeep`.
///
/// `defaultImportsToKeepPerCron` in pkg/controller/dataimportcron-controller.go.
const DEFAULT_IMPORTS_TO_KEEP: usize = 3;

/// Deletes surplus imports, least recently used first. The current import, the one that the
/// DataSource refers to, and those being cloned are always kept.
pub(super) fn collect_garbage(draft: &mut Draft<'_>, current: &ImportStatus) {
    let spec = &draft.facts.cron.spec;
    if !spec.collects_garbage() {
        return;
    }
    let own = spec.imports_to_keep.and_then(|it| usize::try_from(it).ok());
    let keep = own
        .or(draft.facts.policy.imports_to_keep)
        .unwrap_or(DEFAULT_IMPORTS_TO_KEEP);
    let facts = draft.facts;
    let metas = facts
        .snapshots
        .iter()
        .map(|it| &it.metadata)
        .chain(facts.claims.iter().map(|it| &it.metadata));
    // A version may have a PVC and a snapshot of the same name.
    let mut versions: BTreeMap<&str, &str> = BTreeMap::new();
    for meta in metas {
        if label(meta, labels::DATA_IMPORT_CRON) != Some(draft.name)
            || meta.deletion_timestamp.is_some()
        {
            continue;
        }
        let used = annotation(meta, annotations::LAST_USE_TIME).unwrap_or_default();
        let known = versions
            .entry(meta.name.as_deref().unwrap_or_default())
            .or_default();
        *known = (*known).max(used);
    }
    // Counted as kept, whatever its time of use: in CDI, `importsToKeep: 0` deletes the current
    // import as well.
    versions.remove(current.data_volume_name.as_str());
    let source = facts.source.map(|source| &source.spec.source);
    let stands_for = source.and_then(|source| {
        let pvc = source.pvc.as_ref();
        pvc.or(source.snapshot.as_ref()).map(|it| it.name.as_str())
    });
    let mut versions: Vec<(&str, &str)> = versions
        .into_iter()
        .map(|(name, used)| (used, name))
        .collect();
    // RFC 3339 times of one precision and zone sort as strings; newest first.
    versions.sort_unstable_by(|one, other| other.cmp(one));
    let beyond: Vec<String> = versions
        .into_iter()
        .skip(keep.saturating_sub(1))
        .map(|(_, name)| name)
        // A DataSource without our label is not switched, and may still refer to an older import.
        // Storage may fail a clone whose source is deleted under it.
        .filter(|name| !facts.busy.contains(*name) && stands_for != Some(*name))
        .map(str::to_owned)
        .collect();
    for name in beyond {
        let why = "newer imports are kept";
        if draft.import_of(&name).is_some() {
            draft.delete(Kind::DataVolume, &name, why);
        } else if draft.claim_of(&name).is_some() {
            draft.delete(Kind::Claim, &name, why);
        }
        if draft.snapshot_of(&name).is_some() {
            draft.delete(Kind::Snapshot, &name, why);
        }
    }
}

/// Deletes the objects labelled for cleanup. Returns whether all are gone.
pub(super) fn clean_up(draft: &mut Draft<'_>) -> bool {
    if !draft.facts.cron.spec.cleans_up() {
        return true;
    }
    let facts = draft.facts;
    let name = draft.name;
    let is_owned = |meta: &ObjectMeta| {
        // Both labels: imports that were detached for a replacement of the DataImportCron outlive
        // it.
        label(meta, labels::DATA_IMPORT_CRON) == Some(name)
            && label(meta, labels::CLEANUP) == Some("true")
    };
    let mut all: Vec<(Kind, &ObjectMeta)> = Vec::new();
    all.extend(
        facts
            .source
            .iter()
            .map(|it| (Kind::DataSource, &it.metadata)),
    );
    all.extend(
        facts
            .imports
            .iter()
            .map(|it| (Kind::DataVolume, &it.metadata)),
    );
    all.extend(facts.claims.iter().map(|it| (Kind::Claim, &it.metadata)));
    all.extend(
        facts
            .snapshots
            .iter()
            .map(|it| (Kind::Snapshot, &it.metadata)),
    );
    let mut finished = true;
    for (kind, meta) in all {
        if !is_owned(meta) {
            continue;
        }
        finished = false;
        if meta.deletion_timestamp.is_none() {
            let of = meta.name.clone().unwrap_or_default();
            draft.delete(kind, &of, "its DataImportCron is being deleted");
        }
    }
    finished
}
