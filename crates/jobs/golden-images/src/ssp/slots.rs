//! DataSources: what they have to stand for, and how they get there.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataSource, DataSourceRef, DataSourceSpec, Named, Source, labels};
use api::golden::names::{DEFAULT_REASON, UNWANTED_SINCE};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::image::Image;
use super::{Decision, Scene, Until, Waiting};
use crate::action::{Action, Kind, Wanted, annotation, label, metadata_patch, named};
use crate::conditions::whole;
use crate::{names, overview};

/// A DataSource that has to be there.
#[derive(Debug)]
pub(super) struct Slot {
    /// What it is for; none if it stands for whatever comes.
    pub(super) architecture: Option<String>,
    /// What it is called without architecture.
    pub(super) base: String,
    /// What it has to stand for.
    pub(super) stands: Stands,
}

/// What a DataSource has to stand for.
#[derive(Debug)]
pub(super) enum Stands {
    /// Another DataSource, for a reason.
    Pointer {
        /// Its name.
        target: String,
        /// The reason.
        why: String,
    },
    /// What this DataImportCron imports.
    Managed(String),
    /// A volume or snapshot: one that somebody made, or will make.
    Fixed(Source),
}

impl Scene<'_> {
    /// Whether a DataSource can be used.
    pub(super) fn is_ready(&self, name: &Named) -> bool {
        self.sources
            .get(name)
            .is_some_and(|source| overview::is_ready(source))
    }

    /// What somebody put behind a DataSource by hand, if it is there.
    fn by_hand(&self, source: &DataSource) -> Option<Source> {
        if label(&source.metadata, labels::DATA_IMPORT_CRON).is_some() {
            return None;
        }
        let home = source.metadata.namespace.as_deref().unwrap_or_default();
        let found = &source.spec.source;
        self.facts
            .volumes
            .has_by_hand(found, home)
            .then(|| found.clone())
    }
}

/// The DataSource that another one points to.
fn target(source: &DataSource) -> Option<&str> {
    match source.spec.source.which() {
        Some(DataSourceRef::DataSource(it)) => Some(&it.name),
        _ => None,
    }
}

/// All DataSources that have to be there.
pub(super) fn wanted(scene: &Scene<'_>, images: &[Image<'_>]) -> BTreeMap<Named, Slot> {
    let mut slots = BTreeMap::new();
    for image in images {
        let Some(architectures) = &image.architectures else {
            let cron = image.imported.values().next();
            let cron = cron.map(|cron| cron.name.clone());
            let slot = Slot {
                architecture: None,
                base: image.base.clone(),
                stands: stands(scene, image, &image.base, false, cron),
            };
            slots.insert(named(&image.namespace, &image.base), slot);
            continue;
        };
        for architecture in architectures {
            let name = names::for_architecture(&image.base, architecture);
            let cron = image.imported.get(architecture);
            let cron = cron.map(|cron| cron.name.clone());
            let is_default = image.default.architecture.as_ref() == Some(architecture);
            let slot = Slot {
                architecture: Some(architecture.clone()),
                base: image.base.clone(),
                stands: stands(scene, image, &name, is_default, cron),
            };
            slots.insert(named(&image.namespace, &name), slot);
        }
        if let Some(architecture) = &image.default.architecture {
            let stands = Stands::Pointer {
                target: names::for_architecture(&image.base, architecture),
                why: image.default.describe(),
            };
            let slot = Slot {
                architecture: None,
                base: image.base.clone(),
                stands,
            };
            slots.insert(named(&image.namespace, &image.base), slot);
        }
    }
    slots
}

/// What a DataSource that is no pointer has to stand for.
///
/// What somebody made by hand is kept, and nothing is imported in its place; unless the DataSource
/// bears the label of a DataImportCron, by which anybody can ask for imports.
fn stands(
    scene: &Scene<'_>,
    image: &Image<'_>,
    name: &str,
    is_default: bool,
    cron: Option<String>,
) -> Stands {
    let home = &image.namespace;
    let volumes = scene.facts.volumes;
    let live = scene.sources.get(&named(home, name));
    let mut by_hand = match live {
        None => volumes.by_hand(home, name),
        Some(live) => match target(live) {
            None => scene.by_hand(live),
            // Switched off: the name gets back what it stood for before.
            Some(target) => {
                let target = scene.sources.get(&named(home, target));
                target.and_then(|target| scene.by_hand(target))
            }
        },
    };
    if by_hand.is_none() && live.is_none() && is_default {
        // Switched on: what the name stood for is taken to be for the default architecture.
        by_hand = match scene.sources.get(&named(home, &image.base)) {
            Some(base) => scene.by_hand(base),
            None => volumes.by_hand(home, &image.base),
        };
    }
    match (cron, by_hand) {
        (_, Some(source)) => Stands::Fixed(source),
        (Some(cron), None) => Stands::Managed(cron),
        (None, None) => {
            let known = live.map(|live| &live.spec.source);
            let known = known.filter(|source| volumes.has(source, home));
            Stands::Fixed(known.cloned().unwrap_or_else(|| Source::of_pvc(home, name)))
        }
    }
}

/// Makes DataSources what they have to be.
pub(super) fn apply(scene: &Scene<'_>, slots: &BTreeMap<Named, Slot>, decision: &mut Decision) {
    for (key, slot) in slots {
        match scene.sources.get(key) {
            None => decision.actions.push(create(scene, key, slot)),
            Some(live) if live.metadata.deletion_timestamp.is_some() => {
                decision.waiting.push(Waiting {
                    kind: Kind::DataSource,
                    of: key.clone(),
                    until: Until::Gone,
                });
            }
            Some(live) => change(scene, key, slot, live, decision),
        }
    }
}

fn create(scene: &Scene<'_>, key: &Named, slot: &Slot) -> Action {
    let (own, annotations) = metadata(scene, slot);
    let kept = |wanted: Wanted<'_>| -> BTreeMap<String, String> {
        let wanted = wanted.into_iter();
        wanted
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    };
    let own = kept(own);
    let source = match &slot.stands {
        Stands::Pointer { target, .. } => Source::of_data_source(&key.namespace, target),
        Stands::Managed(_) => Source::of_pvc(&key.namespace, &key.name),
        Stands::Fixed(source) => source.clone(),
    };
    let object = DataSource {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            labels: (!own.is_empty()).then_some(own),
            annotations: Some(kept(annotations)),
            ..ObjectMeta::default()
        },
        spec: DataSourceSpec {
            source,
            ..DataSourceSpec::default()
        },
        status: None,
    };
    Action::Create {
        kind: Kind::DataSource,
        object: json!(object),
    }
}

fn change(scene: &Scene<'_>, key: &Named, slot: &Slot, live: &DataSource, decision: &mut Decision) {
    let mut source = None;
    match &slot.stands {
        Stands::Managed(_) => {}
        Stands::Fixed(wanted) => source = Some(wanted.clone()),
        Stands::Pointer { target: to, .. } => {
            let moves = target(live) != Some(to);
            if moves && scene.is_ready(key) && !scene.is_ready(&named(&key.namespace, to)) {
                decision.waiting.push(Waiting {
                    kind: Kind::DataSource,
                    of: key.clone(),
                    until: Until::Ready(to.clone()),
                });
                return;
            }
            source = Some(Source::of_data_source(&key.namespace, to));
        }
    }
    let (own, annotations) = metadata(scene, slot);
    let mut patch = metadata_patch(&live.metadata, &own, &annotations);
    if let Some(source) = source.filter(|source| *source != live.spec.source) {
        patch.get_or_insert_with(|| json!({}))["spec"] = json!({ "source": exactly(&source) });
    }
    if let Some(patch) = patch {
        decision.actions.push(Action::Patch {
            kind: Kind::DataSource,
            of: key.clone(),
            patch,
            why: "it does not stand for what it should",
        });
    }
}

/// A source as a merge patch that leaves no other.
fn exactly(source: &Source) -> Value {
    let mut patch = json!({ "pvc": null, "snapshot": null, "dataSource": null });
    if let (Some(all), Value::Object(own)) = (patch.as_object_mut(), json!(source)) {
        all.extend(own);
    }
    patch
}

/// Labels and annotations that a DataSource has to have.
fn metadata(scene: &Scene<'_>, slot: &Slot) -> (Wanted<'static>, Wanted<'static>) {
    let mut own: Wanted<'static> = BTreeMap::new();
    own.insert(labels::ARCHITECTURE, slot.architecture.clone());
    let base = slot.architecture.as_ref();
    own.insert(
        labels::DATA_SOURCE_NAME,
        base.map(|_| names::fitting(&slot.base)),
    );
    let cron = match &slot.stands {
        Stands::Managed(cron) => Some(cron.clone()),
        _ => None,
    };
    if cron.is_none() {
        // With this label it would go with its DataImportCron.
        own.insert(labels::CLEANUP, None);
    }
    own.insert(labels::DATA_IMPORT_CRON, cron);
    let mut annotations: Wanted<'static> = BTreeMap::new();
    for (name, value) in scene.ownership() {
        annotations.insert(name, Some(value));
    }
    annotations.insert(UNWANTED_SINCE, None);
    let why = match &slot.stands {
        Stands::Pointer { why, .. } => Some(why.clone()),
        _ => None,
    };
    annotations.insert(DEFAULT_REASON, why);
    (own, annotations)
}

/// Removes DataSources that nobody wants any more. `gone` are the DataImportCrons that go now.
pub(super) fn sweep(
    scene: &Scene<'_>,
    slots: &BTreeMap<Named, Slot>,
    gone: &BTreeSet<Named>,
    decision: &mut Decision,
) {
    let kept_by_cron = |key: &Named| {
        scene.crons.iter().any(|(name, cron)| {
            name.namespace == key.namespace
                && cron.spec.managed_data_source == key.name
                && !gone.contains(name)
        })
    };
    let mut going = BTreeSet::new();
    let mut pointers = Vec::new();
    for (key, live) in &scene.sources {
        if slots.contains_key(key)
            || !scene.owns(&live.metadata)
            || live.metadata.deletion_timestamp.is_some()
        {
            continue;
        }
        if target(live).is_some() {
            pointers.push((key, live));
            continue;
        }
        // What its DataImportCron waited for is over: it does not wait again.
        let goes_along = gone.iter().any(|name| {
            let cron = scene.crons.get(name);
            name.namespace == key.namespace
                && cron.is_some_and(|cron| cron.spec.managed_data_source == key.name)
        });
        if kept_by_cron(key)
            || pointed_to(scene, slots, key)
            || (!goes_along && stays(scene, key, live, decision))
        {
            continue;
        }
        going.insert(key.clone());
    }
    for (key, live) in pointers {
        let to = target(live).unwrap_or_default();
        let to = named(&key.namespace, to);
        let other = scene.sources.get(&to);
        if let Some(source) = other.and_then(|other| scene.by_hand(other)) {
            // Somebody made this by hand before there was a template: it is theirs again.
            release(key, live, &source, decision);
        } else if other.is_none() || going.contains(&to) {
            going.insert(key.clone());
        }
    }
    for of in going {
        decision.actions.push(Action::Delete {
            kind: Kind::DataSource,
            of,
            why: "no template wants it",
        });
    }
}

/// Whether a DataSource that stays still points to this one, and can be used.
pub(super) fn pointed_to(scene: &Scene<'_>, slots: &BTreeMap<Named, Slot>, key: &Named) -> bool {
    scene.is_ready(key)
        && scene.sources.iter().any(|(name, live)| {
            name.namespace == key.namespace
                && slots.contains_key(name)
                && target(live) == Some(&key.name)
        })
}

/// Whether a DataSource stays for a while, because its architecture may come back.
fn stays(scene: &Scene<'_>, key: &Named, live: &DataSource, decision: &mut Decision) -> bool {
    let architecture = label(&live.metadata, labels::ARCHITECTURE);
    let Some(architecture) = architecture else {
        return false;
    };
    if !scene.cluster.multi_arch
        || scene.cluster.workload.contains(architecture)
        || scene.facts.ssp.metadata.deletion_timestamp.is_some()
    {
        return false;
    }
    scene.grace(Kind::DataSource, key, &live.metadata, decision)
}

impl Scene<'_> {
    /// Whether something for an architecture that no node has may stay. It is marked, so that
    /// everybody can see for how long.
    pub(super) fn grace(
        &self,
        kind: Kind,
        key: &Named,
        meta: &ObjectMeta,
        decision: &mut Decision,
    ) -> bool {
        let grace = self.facts.policy.grace;
        let since: Option<jiff::Timestamp> =
            annotation(meta, UNWANTED_SINCE).and_then(|text| text.parse().ok());
        let now = whole(self.facts.now);
        // A time in the future would be a wait without end.
        let since = since.filter(|since| *since <= now);
        let start = since.unwrap_or(now);
        let Ok(end) = start.checked_add(grace) else {
            return true;
        };
        if end <= now {
            return false;
        }
        if since.is_none() {
            decision.actions.push(Action::Patch {
                kind,
                of: key.clone(),
                patch: json!({ "metadata": { "annotations": {
                    UNWANTED_SINCE: machinery::time::format_time(now),
                } } }),
                why: "no node has its architecture",
            });
        }
        decision.waiting.push(Waiting {
            kind,
            of: key.clone(),
            until: Until::Grace(end),
        });
        let earlier = decision.look_again.is_none_or(|known| end < known);
        if earlier {
            decision.look_again = Some(end);
        }
        true
    }
}

/// Gives a DataSource back to who made it.
fn release(key: &Named, live: &DataSource, source: &Source, decision: &mut Decision) {
    let nothing: Wanted<'_> = [
        api::ssp::OWNER,
        api::ssp::OWNER_TYPE,
        DEFAULT_REASON,
        UNWANTED_SINCE,
    ]
    .into_iter()
    .map(|name| (name, None))
    .collect();
    let mut patch =
        metadata_patch(&live.metadata, &Wanted::new(), &nothing).unwrap_or_else(|| json!({}));
    patch["spec"] = json!({ "source": exactly(source) });
    decision.actions.push(Action::Patch {
        kind: Kind::DataSource,
        of: key.clone(),
        patch,
        why: "it was made by hand, and no template wants it",
    });
}
