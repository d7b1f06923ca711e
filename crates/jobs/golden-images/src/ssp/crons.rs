//! DataImportCrons: those that have to be there, and those that have to go.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataImportCron, DataImportCronSpec, Named, labels};
use api::golden::names::UNWANTED_SINCE;
use api::ssp::ARCHITECTURES;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::image::Image;
use super::slots::{Slot, Stands, pointed_to};
use super::volumes::Labels;
use super::{Decision, Problem, Scene, Until, Waiting};
use crate::action::{Action, Kind, Wanted, label, metadata_patch, name_of, named};

/// Makes DataImportCrons what they have to be, and says which of them go.
pub(super) fn apply(
    scene: &Scene<'_>,
    images: &[Image<'_>],
    slots: &BTreeMap<Named, Slot>,
    decision: &mut Decision,
) -> BTreeSet<Named> {
    let mut wanted = BTreeMap::new();
    for image in images {
        for cron in image.imported.values() {
            // What somebody made by hand is not imported over.
            let slot = slots.get(&named(&image.namespace, &cron.data_source));
            let managed = matches!(slot.map(|slot| &slot.stands), Some(Stands::Managed(_)));
            if managed && let Some(object) = image.cron(scene, cron) {
                wanted.insert(name_of(&object.metadata), object);
            }
        }
    }
    for (key, object) in &wanted {
        match scene.crons.get(key) {
            None => decision.actions.push(Action::Create {
                kind: Kind::DataImportCron,
                object: json!(object),
            }),
            Some(live) if live.metadata.deletion_timestamp.is_some() => {
                wait(decision, key, Until::Gone);
            }
            Some(live) if !scene.owns(&live.metadata) => {
                decision.problems.push(Problem::NotOurs(key.clone()));
            }
            Some(live) if same(&live.spec, &object.spec) => touch(key, live, object, decision),
            Some(_) => renew(scene, key, decision),
        }
    }
    let mut gone = BTreeSet::new();
    for (key, live) in &scene.crons {
        if wanted.contains_key(key) || !scene.owns(&live.metadata) {
            continue;
        }
        if live.metadata.deletion_timestamp.is_some() {
            gone.insert(key.clone());
        } else if goes(scene, slots, key, live, decision) {
            decision.actions.push(Action::Delete {
                kind: Kind::DataImportCron,
                of: key.clone(),
                why: "no template wants it",
            });
            gone.insert(key.clone());
        }
    }
    gone
}

fn wait(decision: &mut Decision, of: &Named, until: Until) {
    decision.waiting.push(Waiting {
        kind: Kind::DataImportCron,
        of: of.clone(),
        until,
    });
}

/// Whether a DataImportCron that nobody wants goes now.
fn goes(
    scene: &Scene<'_>,
    slots: &BTreeMap<Named, Slot>,
    key: &Named,
    live: &DataImportCron,
    decision: &mut Decision,
) -> bool {
    let managed = named(&key.namespace, &live.spec.managed_data_source);
    // Its imports go with it, and so would a DataSource that still bears its label.
    let source = scene.sources.get(&managed);
    let bears = source
        .is_some_and(|source| label(&source.metadata, labels::DATA_IMPORT_CRON) == Some(&key.name));
    if bears && slots.contains_key(&managed) {
        wait(decision, key, Until::Released(managed.name));
        return false;
    }
    if pointed_to(scene, slots, &managed) {
        wait(decision, key, Until::Released(managed.name));
        return false;
    }
    let architecture = label(&live.metadata, labels::ARCHITECTURE);
    let left = architecture.is_some_and(|name| !scene.cluster.workload.contains(name));
    if left && scene.cluster.multi_arch {
        return !scene.grace(Kind::DataImportCron, key, &live.metadata, decision);
    }
    true
}

/// Puts labels and annotations right; what others wrote stays.
fn touch(key: &Named, live: &DataImportCron, object: &DataImportCron, decision: &mut Decision) {
    let all = |map: &Option<BTreeMap<String, String>>| map.clone().unwrap_or_default();
    let own = all(&object.metadata.labels);
    let wanted_labels: Wanted<'_> = own
        .iter()
        .map(|(name, value)| (name.as_str(), Some(value.clone())))
        .collect();
    let own = all(&object.metadata.annotations);
    let mut wanted_annotations: Wanted<'_> = own
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
            why: "its labels or annotations are not those of its template",
        });
    }
}

/// A specification cannot be changed: the object is made anew. Imports are made to outlive it first,
/// so that its successor finds them.
fn renew(scene: &Scene<'_>, key: &Named, decision: &mut Decision) {
    let volumes = scene.facts.volumes;
    let bound = |found: &Labels| {
        found.get(labels::DATA_IMPORT_CRON) == Some(&key.name)
            && found.contains_key(labels::CLEANUP)
    };
    let sources = scene.sources.iter().map(|(name, source)| {
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
                    why: "its DataImportCron is made anew",
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
        wait(decision, key, Until::Detached);
    }
}

/// Whether two specifications say the same. Clients in Go write metadata and a status that say
/// nothing.
fn same(one: &DataImportCronSpec, other: &DataImportCronSpec) -> bool {
    plain(one) == plain(other)
}

fn plain(spec: &DataImportCronSpec) -> DataImportCronSpec {
    let mut spec = spec.clone();
    if spec.template.metadata == Some(ObjectMeta::default()) {
        spec.template.metadata = None;
    }
    if spec.template.rest.get("status") == Some(&json!({})) {
        spec.template.rest.remove("status");
    }
    spec
}
