//! Reconciles DataImportCrons: creates, updates and deletes them.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataImportCron, DataImportCronSpec, Named, labels};
use api::golden::names::UNWANTED_SINCE;
use api::ssp::ARCHITECTURES;
use serde_json::json;

use super::data_sources::{DesiredDataSource, DesiredSource, pointed_to};
use super::image::Image;
use super::volumes::Labels;
use super::{Decision, PostponedUntil, PostponedWrite, Problem, SspContext};
use crate::action::{Action, Kind, MetadataValues, label, metadata_patch, name_of, named};

/// Plans the writes of DataImportCrons; returns those that are being deleted.
pub(super) fn apply(
    context: &SspContext<'_>,
    images: &[Image<'_>],
    desired: &BTreeMap<Named, DesiredDataSource>,
    decision: &mut Decision,
) -> BTreeSet<Named> {
    let mut wanted = BTreeMap::new();
    for image in images {
        for cron in image.imported.values() {
            // A DataSource with a manually created source is not imported over.
            let data_source = desired.get(&named(&image.namespace, &cron.data_source));
            let managed = matches!(
                data_source.map(|data_source| &data_source.source),
                Some(DesiredSource::Managed(_))
            );
            if managed && let Some(object) = image.cron(context, cron) {
                wanted.insert(name_of(&object.metadata), object);
            }
        }
    }
    for (key, object) in &wanted {
        match context.crons.get(key) {
            None => decision.actions.push(Action::Create {
                kind: Kind::DataImportCron,
                object: json!(object),
            }),
            Some(live) if live.metadata.deletion_timestamp.is_some() => {
                wait(decision, key, PostponedUntil::Gone);
            }
            // A user may have created it under this name; taking it over could delete its imports.
            Some(live) if !context.owns(&live.metadata) => {
                decision.problems.push(Problem::NotOurs(key.clone()));
            }
            Some(live) if same(&live.spec, &object.spec) => {
                correct_metadata(key, live, object, decision);
            }
            Some(_) => replace_cron(context, key, decision),
        }
    }
    let mut gone = BTreeSet::new();
    for (key, live) in &context.crons {
        if wanted.contains_key(key) || !context.owns(&live.metadata) {
            continue;
        }
        if live.metadata.deletion_timestamp.is_some() {
            gone.insert(key.clone());
        } else if can_be_deleted(context, desired, key, live, decision) {
            decision.actions.push(Action::Delete {
                kind: Kind::DataImportCron,
                of: key.clone(),
                why: "no template needs it",
            });
            gone.insert(key.clone());
        }
    }
    gone
}

fn wait(decision: &mut Decision, of: &Named, until: PostponedUntil) {
    decision.waiting.push(PostponedWrite {
        kind: Kind::DataImportCron,
        of: of.clone(),
        until,
    });
}

/// Whether a DataImportCron that is no longer needed can be deleted now.
fn can_be_deleted(
    context: &SspContext<'_>,
    desired: &BTreeMap<Named, DesiredDataSource>,
    key: &Named,
    live: &DataImportCron,
    decision: &mut Decision,
) -> bool {
    let managed = named(&key.namespace, &live.spec.managed_data_source);
    // Its imports are deleted with it, and so is a DataSource that still has its label.
    let source = context.sources.get(&managed);
    let bears = source
        .is_some_and(|source| label(&source.metadata, labels::DATA_IMPORT_CRON) == Some(&key.name));
    if bears && desired.contains_key(&managed) {
        wait(decision, key, PostponedUntil::Released(managed.name));
        return false;
    }
    if pointed_to(context, desired, &managed) {
        wait(decision, key, PostponedUntil::Released(managed.name));
        return false;
    }
    let architecture = label(&live.metadata, labels::ARCHITECTURE);
    let left = architecture.is_some_and(|name| !context.cluster.workload.contains(name));
    // With multi-architecture off, the remaining DataImportCrons are obsolete at once: no node can
    // bring them back.
    if left && context.cluster.multi_arch {
        return !context.grace(Kind::DataImportCron, key, &live.metadata, decision);
    }
    true
}

/// Corrects labels and annotations; those of other writers stay.
fn correct_metadata(
    key: &Named,
    live: &DataImportCron,
    object: &DataImportCron,
    decision: &mut Decision,
) {
    let all = |map: &Option<BTreeMap<String, String>>| map.clone().unwrap_or_default();
    let own = all(&object.metadata.labels);
    let wanted_labels: MetadataValues<'_> = own
        .iter()
        .map(|(name, value)| (name.as_str(), Some(value.clone())))
        .collect();
    let own = all(&object.metadata.annotations);
    let mut wanted_annotations: MetadataValues<'_> = own
        .iter()
        .map(|(name, value)| (name.as_str(), Some(value.clone())))
        .collect();
    wanted_annotations.insert(ARCHITECTURES, None);
    wanted_annotations.insert(UNWANTED_SINCE, None);
    if let Some(patch) = metadata_patch(&live.metadata, &wanted_labels, &wanted_annotations) {
        decision.actions.push(Action::Patch {
            kind: Kind::DataImportCron,
            of: key.clone(),
            patch,
            why: "its labels or annotations differ from its template",
        });
    }
}

/// Replaces a DataImportCron, because CDI's webhook makes its spec immutable. Its imports are
/// detached first, so that they survive the deletion and the successor adopts them.
fn replace_cron(context: &SspContext<'_>, key: &Named, decision: &mut Decision) {
    let volumes = context.facts.volumes;
    let bound = |found: &Labels| {
        found.get(labels::DATA_IMPORT_CRON) == Some(&key.name)
            && found.contains_key(labels::CLEANUP)
    };
    let sources = context.sources.iter().map(|(name, source)| {
        let found = source.metadata.labels.clone().unwrap_or_default();
        (name.clone(), found)
    });
    let sources: BTreeMap<Named, Labels> = sources.collect();
    let mut detached = true;
    for (kind, objects) in [
        (Kind::DataVolume, &volumes.imports),
        (Kind::Claim, &volumes.claims),
        (Kind::Snapshot, &volumes.snapshots),
        (Kind::DataSource, &sources),
    ] {
        for (of, found) in objects {
            if of.namespace == key.namespace && bound(found) {
                detached = false;
                decision.actions.push(Action::Patch {
                    kind,
                    of: of.clone(),
                    patch: json!({ "metadata": { "labels": { labels::CLEANUP: null } } }),
                    why: "its DataImportCron is being replaced",
                });
            }
        }
    }
    if detached {
        decision.actions.push(Action::Delete {
            kind: Kind::DataImportCron,
            of: key.clone(),
            why: "its template has changed",
        });
    } else {
        wait(decision, key, PostponedUntil::Detached);
    }
}

/// Whether two specifications are equal. Go clients write an empty status.
fn same(one: &DataImportCronSpec, other: &DataImportCronSpec) -> bool {
    plain(one) == plain(other)
}

fn plain(spec: &DataImportCronSpec) -> DataImportCronSpec {
    let mut spec = spec.clone();
    // The CRD of SSP has fields for it, that of CDI has none: the API server prunes them in a DataImportCron. If they
    // counted, a template with labels would be replaced for ever.
    spec.template.metadata = None;
    if spec.template.rest.get("status") == Some(&json!({})) {
        spec.template.rest.remove("status");
    }
    spec
}
