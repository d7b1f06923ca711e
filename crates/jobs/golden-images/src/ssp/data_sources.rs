//! Reconciles DataSources: their sources, and the order of the steps to them.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataSource, DataSourceRef, DataSourceSpec, Named, Source, labels};
use api::golden::names::{DEFAULT_REASON, SSP, UNWANTED_SINCE};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::image::Image;
use super::{Decision, PostponedUntil, PostponedWrite, SspContext};
use crate::action::{Action, Kind, MetadataValues, annotation, label, metadata_patch, named};
use crate::conditions::whole;
use crate::{names, overview};

/// A desired DataSource.
#[derive(Debug)]
pub(super) struct DesiredDataSource {
    /// Its architecture; `None` for one without.
    pub(super) architecture: Option<String>,
    /// Its name without architecture.
    pub(super) base: String,
    /// Its desired source.
    pub(super) source: DesiredSource,
}

/// The desired source of a DataSource.
#[derive(Debug)]
pub(super) enum DesiredSource {
    /// Another DataSource, with the choice that led to it.
    Pointer {
        /// The name of the target.
        target: String,
        /// The choice, as recorded in the annotation.
        why: String,
    },
    /// The imports of this DataImportCron.
    Managed(String),
    /// A PVC or snapshot that a user created, or will create.
    Fixed(Source),
}

impl SspContext<'_> {
    /// Whether a DataSource is ready.
    pub(super) fn is_ready(&self, name: &Named) -> bool {
        self.sources
            .get(name)
            .is_some_and(|source| overview::is_ready(source))
    }

    /// The existing source of a DataSource that no DataImportCron manages.
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

/// The target of a pointer.
pub(super) fn target(source: &DataSource) -> Option<&str> {
    match source.spec.source.which() {
        Some(DataSourceRef::DataSource(it)) => Some(&it.name),
        _ => None,
    }
}

/// All desired DataSources.
pub(super) fn wanted(
    context: &SspContext<'_>,
    images: &[Image<'_>],
) -> BTreeMap<Named, DesiredDataSource> {
    let mut desired = BTreeMap::new();
    for image in images {
        let Some(architectures) = &image.architectures else {
            let cron = image.imported.values().next();
            let cron = cron.map(|cron| cron.name.clone());
            let data_source = DesiredDataSource {
                architecture: None,
                base: image.base.clone(),
                source: desired_source(context, image, &image.base, false, cron),
            };
            desired.insert(named(&image.namespace, &image.base), data_source);
            continue;
        };
        for architecture in architectures {
            let name = names::for_architecture(&image.base, architecture);
            let cron = image.imported.get(architecture);
            let cron = cron.map(|cron| cron.name.clone());
            let is_default = image.default.architecture.as_ref() == Some(architecture);
            let data_source = DesiredDataSource {
                architecture: Some(architecture.clone()),
                base: image.base.clone(),
                source: desired_source(context, image, &name, is_default, cron),
            };
            desired.insert(named(&image.namespace, &name), data_source);
        }
        if let Some(architecture) = &image.default.architecture {
            let source = DesiredSource::Pointer {
                target: names::for_architecture(&image.base, architecture),
                why: image.default.describe(),
            };
            let data_source = DesiredDataSource {
                architecture: None,
                base: image.base.clone(),
                source,
            };
            desired.insert(named(&image.namespace, &image.base), data_source);
        }
    }
    desired
}

/// The desired source of a DataSource that is not a pointer.
///
/// A manually created source is kept, and nothing is imported in its place; unless the DataSource
/// has the label of a DataImportCron, by which users opt in to imports, as in upstream.
fn desired_source(
    context: &SspContext<'_>,
    image: &Image<'_>,
    name: &str,
    is_default: bool,
    cron: Option<String>,
) -> DesiredSource {
    let home = &image.namespace;
    let volumes = context.facts.volumes;
    let live = context.sources.get(&named(home, name));
    let mut by_hand = match live {
        None => volumes.by_hand(home, name),
        Some(live) => match target(live) {
            None => context.by_hand(live),
            // Switched off: the name gets its former source back.
            Some(target) => {
                let target = context.sources.get(&named(home, target));
                target.and_then(|target| context.by_hand(target))
            }
        },
    };
    if by_hand.is_none() && live.is_none() && is_default {
        // Switched on: the former source of the name counts as the default architecture's.
        by_hand = match context.sources.get(&named(home, &image.base)) {
            Some(base) => context.by_hand(base),
            None => volumes.by_hand(home, &image.base),
        };
    }
    match (cron, by_hand) {
        (_, Some(source)) => DesiredSource::Fixed(source),
        (Some(cron), None) => DesiredSource::Managed(cron),
        (None, None) => {
            let known = live.map(|live| &live.spec.source);
            let known = known.filter(|source| volumes.has(source, home));
            DesiredSource::Fixed(known.cloned().unwrap_or_else(|| Source::of_pvc(home, name)))
        }
    }
}

/// Plans the writes of DataSources.
pub(super) fn apply(
    context: &SspContext<'_>,
    desired: &BTreeMap<Named, DesiredDataSource>,
    decision: &mut Decision,
) {
    for (key, data_source) in desired {
        match context.sources.get(key) {
            None => decision.actions.push(create(context, key, data_source)),
            Some(live) if live.metadata.deletion_timestamp.is_some() => {
                decision.waiting.push(PostponedWrite {
                    kind: Kind::DataSource,
                    of: key.clone(),
                    until: PostponedUntil::Gone,
                });
            }
            Some(live) => change(context, key, data_source, live, decision),
        }
    }
}

fn create(context: &SspContext<'_>, key: &Named, data_source: &DesiredDataSource) -> Action {
    let (own, annotations) = metadata(context, data_source);
    let kept = |wanted: MetadataValues<'_>| -> BTreeMap<String, String> {
        let wanted = wanted.into_iter();
        wanted
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    };
    let own = kept(own);
    let source = match &data_source.source {
        DesiredSource::Pointer { target, .. } => Source::of_data_source(&key.namespace, target),
        // A placeholder, as upstream writes it. It is replaced by the first import.
        DesiredSource::Managed(_) => Source::of_pvc(&key.namespace, &key.name),
        DesiredSource::Fixed(source) => source.clone(),
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

fn change(
    context: &SspContext<'_>,
    key: &Named,
    data_source: &DesiredDataSource,
    live: &DataSource,
    decision: &mut Decision,
) {
    let mut source = None;
    match &data_source.source {
        // The controller of the DataImportCron writes it: two writers would revert each other.
        DesiredSource::Managed(_) => {}
        DesiredSource::Fixed(wanted) => source = Some(wanted.clone()),
        DesiredSource::Pointer { target: to, .. } => {
            let moves = target(live) != Some(to);
            // VMs can be created from the name now; the new target may take long to import, or
            // fail.
            if moves && context.is_ready(key) && !context.is_ready(&named(&key.namespace, to)) {
                decision.waiting.push(PostponedWrite {
                    kind: Kind::DataSource,
                    of: key.clone(),
                    until: PostponedUntil::Ready(to.clone()),
                });
                return;
            }
            source = Some(Source::of_data_source(&key.namespace, to));
        }
    }
    let (own, annotations) = metadata(context, data_source);
    let mut patch = metadata_patch(&live.metadata, &own, &annotations);
    if let Some(source) = source.filter(|source| *source != live.spec.source) {
        patch.get_or_insert_with(|| json!({}))["spec"] = json!({ "source": exactly(&source) });
    }
    if let Some(patch) = patch {
        decision.actions.push(Action::Patch {
            kind: Kind::DataSource,
            of: key.clone(),
            patch,
            why: "its source or metadata differ from the desired ones",
        });
    }
}

/// A merge patch that sets this source and removes all others.
fn exactly(source: &Source) -> Value {
    let mut patch = json!({ "pvc": null, "snapshot": null, "dataSource": null });
    if let (Some(all), Value::Object(own)) = (patch.as_object_mut(), json!(source)) {
        all.extend(own);
    }
    patch
}

/// The desired labels and annotations of a DataSource.
fn metadata(
    context: &SspContext<'_>,
    data_source: &DesiredDataSource,
) -> (MetadataValues<'static>, MetadataValues<'static>) {
    let mut own: MetadataValues<'static> = BTreeMap::new();
    own.insert(labels::ARCHITECTURE, data_source.architecture.clone());
    let base = data_source.architecture.as_ref();
    own.insert(
        labels::DATA_SOURCE_NAME,
        base.map(|_| names::fitting(&data_source.base)),
    );
    let cron = match &data_source.source {
        DesiredSource::Managed(cron) => Some(cron.clone()),
        _ => None,
    };
    if cron.is_none() {
        // CDI would delete it together with the DataImportCron.
        own.insert(labels::CLEANUP, None);
    }
    own.insert(labels::DATA_IMPORT_CRON, cron);
    let mut annotations: MetadataValues<'static> = BTreeMap::new();
    annotations.insert(SSP, Some(context.owner.0.clone()));
    annotations.insert(UNWANTED_SINCE, None);
    let why = match &data_source.source {
        DesiredSource::Pointer { why, .. } => Some(why.clone()),
        _ => None,
    };
    annotations.insert(DEFAULT_REASON, why);
    (own, annotations)
}

/// Deletes DataSources that are no longer needed. `gone` are the DataImportCrons that are being
/// deleted.
pub(super) fn sweep(
    context: &SspContext<'_>,
    desired: &BTreeMap<Named, DesiredDataSource>,
    gone: &BTreeSet<Named>,
    decision: &mut Decision,
) {
    let kept_by_cron = |key: &Named| {
        context.crons.iter().any(|(name, cron)| {
            name.namespace == key.namespace
                && cron.spec.managed_data_source == key.name
                && !gone.contains(name)
        })
    };
    let mut going = BTreeSet::new();
    let mut pointers = Vec::new();
    for (key, live) in &context.sources {
        if desired.contains_key(key)
            || !context.owns(&live.metadata)
            || live.metadata.deletion_timestamp.is_some()
        {
            continue;
        }
        if target(live).is_some() {
            pointers.push((key, live));
            continue;
        }
        // The grace period of its DataImportCron is over, so it does not get another one.
        let goes_along = gone.iter().any(|name| {
            let cron = context.crons.get(name);
            name.namespace == key.namespace
                && cron.is_some_and(|cron| cron.spec.managed_data_source == key.name)
        });
        if kept_by_cron(key)
            || pointed_to(context, desired, key)
            || (!goes_along && stays(context, key, live, decision))
        {
            continue;
        }
        going.insert(key.clone());
    }
    // After the others: a pointer goes if its target does.
    for (key, live) in pointers {
        let to = target(live).unwrap_or_default();
        let to = named(&key.namespace, to);
        let other = context.sources.get(&to);
        if let Some(source) = other.and_then(|other| context.by_hand(other)) {
            // It was created manually before there was a template, and is returned to its owner.
            release(key, live, &source, decision);
        } else if other.is_none() || going.contains(&to) {
            going.insert(key.clone());
        }
    }
    for of in going {
        decision.actions.push(Action::Delete {
            kind: Kind::DataSource,
            of,
            why: "no template needs it",
        });
    }
}

/// Whether a remaining DataSource points to this one, and it is ready.
pub(super) fn pointed_to(
    context: &SspContext<'_>,
    desired: &BTreeMap<Named, DesiredDataSource>,
    key: &Named,
) -> bool {
    context.is_ready(key)
        && context.sources.iter().any(|(name, live)| {
            name.namespace == key.namespace
                && desired.contains_key(name)
                && target(live) == Some(&key.name)
        })
}

/// Whether a DataSource is in its grace period, because nodes of its architecture may come back.
fn stays(
    context: &SspContext<'_>,
    key: &Named,
    live: &DataSource,
    decision: &mut Decision,
) -> bool {
    let architecture = label(&live.metadata, labels::ARCHITECTURE);
    let Some(architecture) = architecture else {
        return false;
    };
    if !context.cluster.multi_arch
        || context.cluster.workload.contains(architecture)
        || context.facts.ssp.metadata.deletion_timestamp.is_some()
    {
        return false;
    }
    context.grace(Kind::DataSource, key, &live.metadata, decision)
}

impl SspContext<'_> {
    /// Whether an object for an architecture without nodes is in its grace period. The start is
    /// recorded in an annotation, so that it survives restarts and users can see it.
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
        // A start in the future would never end.
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
        decision.waiting.push(PostponedWrite {
            kind,
            of: key.clone(),
            until: PostponedUntil::Grace(end),
        });
        let earlier = decision.look_again.is_none_or(|known| end < known);
        if earlier {
            decision.look_again = Some(end);
        }
        true
    }
}

/// Returns a DataSource to its owner.
fn release(key: &Named, live: &DataSource, source: &Source, decision: &mut Decision) {
    let nothing: MetadataValues<'_> = [
        api::ssp::OWNER,
        api::ssp::OWNER_TYPE,
        SSP,
        DEFAULT_REASON,
        UNWANTED_SINCE,
    ]
    .into_iter()
    .map(|name| (name, None))
    .collect();
    let mut patch = metadata_patch(&live.metadata, &MetadataValues::new(), &nothing)
        .unwrap_or_else(|| json!({}));
    patch["spec"] = json!({ "source": exactly(source) });
    decision.actions.push(Action::Patch {
        kind: Kind::DataSource,
        of: key.clone(),
        patch,
        why: "it was created manually, and no template needs it",
    });
}
