//! The desired images: their architectures and names.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataImportCron, DataImportCronSpec, Named, Platform, labels};
use api::golden::{ArchitectureState, ImageState, names::UNWANTED_SINCE};
use api::ssp::{ARCHITECTURES, DataImportCronTemplate, GOLDEN_NAMESPACE};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::data_sources::{DesiredDataSource, DesiredSource};
use super::{Problem, SspContext, address, adopted, vm_templates};
use crate::action::{annotation, label, named};
use crate::architectures::{Candidates, Choice, Health, choose};
use crate::conditions;
use crate::list::ArchitectureList;
use crate::names;
use crate::overview::{State, is_failed};

/// A desired image.
#[derive(Debug)]
pub(super) struct Image<'a> {
    /// Its namespace.
    pub(super) namespace: String,
    /// The name of its DataSource, without architecture.
    pub(super) base: String,
    /// The template that it comes from; `None` for an image that only VM templates refer to.
    pub(super) template: Option<(&'a DataImportCronTemplate, &'a DataImportCronSpec)>,
    /// The architectures that have a DataSource; `None` for a single DataSource without
    /// architecture.
    pub(super) architectures: Option<BTreeSet<String>>,
    /// The DataImportCrons by architecture; the empty string for one without architecture.
    pub(super) imported: BTreeMap<String, DesiredCron>,
    /// The architecture that the pointer refers to.
    pub(super) default: Choice,
}

/// A desired DataImportCron.
#[derive(Debug)]
pub(super) struct DesiredCron {
    /// Its name.
    pub(super) name: String,
    /// The DataSource that it manages.
    pub(super) data_source: String,
    /// The architecture to request.
    pub(super) platform: Option<String>,
}

impl Image<'_> {
    /// The object for one of [`Self::imported`].
    pub(super) fn cron(
        &self,
        context: &SspContext<'_>,
        wanted: &DesiredCron,
    ) -> Option<DataImportCron> {
        let (template, spec) = self.template?;
        let mut spec = spec.clone();
        spec.managed_data_source.clone_from(&wanted.data_source);
        let mut meta = ObjectMeta {
            name: Some(wanted.name.clone()),
            namespace: Some(self.namespace.clone()),
            labels: template.metadata.labels.clone(),
            annotations: template.metadata.annotations.clone(),
            ..ObjectMeta::default()
        };
        let annotations = meta.annotations.get_or_insert_default();
        annotations.remove(ARCHITECTURES);
        for (name, value) in context.ownership() {
            annotations.insert(name.to_owned(), value);
        }
        if let Some(architecture) = &wanted.platform {
            let own = meta.labels.get_or_insert_default();
            own.insert(labels::ARCHITECTURE.to_owned(), architecture.clone());
            own.insert(
                labels::DATA_SOURCE_NAME.to_owned(),
                names::fitting(&self.base),
            );
            let source = spec.template.spec.source.as_mut();
            if let Some(registry) = source.and_then(|source| source.registry.as_mut()) {
                registry
                    .platform
                    .get_or_insert_with(Platform::default)
                    .architecture = Some(architecture.clone());
            }
        }
        let source = spec.template.spec.source.as_mut();
        if let Some(http) = source.and_then(|source| source.http.as_mut())
            && let Some(url) = &http.url
            && let Some(own) = wanted
                .platform
                .clone()
                .or_else(|| context.default().architecture)
        {
            http.url = Some(address::of_architecture(url, &own));
        }
        Some(DataImportCron {
            metadata: meta,
            spec,
            status: None,
        })
    }
}

/// All images: those of DataImportCronTemplates, and those that VM templates refer to.
pub(super) fn expand<'a>(context: &SspContext<'a>, problems: &mut Vec<Problem>) -> Vec<Image<'a>> {
    let mut bundled = vm_templates::data_sources(context.facts.bundle);
    for (name, architectures) in adopted::data_sources(context) {
        bundled.entry(name).or_default().extend(architectures);
    }
    let mut images: BTreeMap<Named, Image<'a>> = BTreeMap::new();
    let ssp: &'a api::ssp::SSP = context.facts.ssp;
    let mut templates: Vec<&'a DataImportCronTemplate> = ssp
        .spec
        .common_templates
        .data_import_cron_templates
        .iter()
        .collect();
    // If two templates manage one DataSource, the name decides, not the position in the list:
    // upstream lets the last one win without a message, so that a reordered list exchanges images.
    templates.sort_by_key(|template| template.name());
    for template in templates {
        if template.name().is_empty() {
            problems.push(Problem::NoName);
            continue;
        }
        let spec = template.spec.as_ref();
        let Some(spec) = spec.filter(|spec| !spec.managed_data_source.is_empty()) else {
            problems.push(Problem::NoDataSource(template.name().to_owned()));
            continue;
        };
        let home = template.metadata.namespace.as_deref();
        let namespace = home.filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or(GOLDEN_NAMESPACE).to_owned();
        let key = named(&namespace, &spec.managed_data_source);
        if let Some(first) = images.get(&key) {
            let kept = first.template.map(|(template, _)| template.name());
            problems.push(Problem::SameDataSource {
                kept: kept.unwrap_or_default().to_owned(),
                ignored: template.name().to_owned(),
                data_source: key.name.clone(),
            });
            continue;
        }
        let bundled = (namespace == GOLDEN_NAMESPACE)
            .then(|| bundled.get(&key.name))
            .flatten();
        let image = of_template(context, template, spec, namespace, bundled, problems);
        images.insert(key, image);
    }
    for (base, architectures) in &bundled {
        images
            .entry(named(GOLDEN_NAMESPACE, base))
            .or_insert_with(|| of_bundle(context, base, architectures));
    }
    let images: Vec<Image<'a>> = images.into_values().collect();
    for image in &images {
        if let Some(architecture) = &image.default.refused {
            // A cluster-wide default need not suit every image, so only one set for the image is a
            // problem.
            let own = context
                .facts
                .policy
                .default_for(&image.namespace, &image.base)
                .image;
            if own.is_some() {
                problems.push(Problem::DefaultRefused {
                    image: image.base.clone(),
                    architecture: architecture.clone(),
                });
            }
        }
    }
    images
}

fn of_template<'a>(
    context: &SspContext<'a>,
    template: &'a DataImportCronTemplate,
    spec: &'a DataImportCronSpec,
    namespace: String,
    bundled: Option<&BTreeSet<String>>,
    problems: &mut Vec<Problem>,
) -> Image<'a> {
    let base = spec.managed_data_source.clone();
    let mut image = Image {
        namespace,
        base: base.clone(),
        template: Some((template, spec)),
        architectures: None,
        imported: BTreeMap::new(),
        default: Choice::default(),
    };
    let plain = |data_source: String| DesiredCron {
        name: template.name().to_owned(),
        data_source,
        platform: None,
    };
    if !context.cluster.multi_arch {
        image.imported.insert(String::new(), plain(base));
        return image;
    }
    let present = |names: &BTreeSet<String>| -> BTreeSet<String> {
        let here = |name: &&String| context.cluster.workload.contains(name.as_str());
        names.iter().filter(here).cloned().collect()
    };
    let list = template.annotation(ARCHITECTURES).map(str::trim);
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        // A template without the annotation: one import, of any architecture. If VM templates refer
        // to it by architecture, it counts as the default one.
        match bundled {
            None => {
                image.imported.insert(String::new(), plain(base));
            }
            Some(bundled) => {
                let present_architectures = present(bundled);
                image.default = default(context, &image, &present_architectures);
                if let Some(architecture) = image.default.architecture.clone() {
                    let data_source = names::for_architecture(&base, &architecture);
                    image.imported.insert(architecture, plain(data_source));
                }
                image.architectures = Some(present_architectures);
            }
        }
        return image;
    };
    let listed = ArchitectureList::parse(list);
    let unsupported = listed.unsupported(template.name());
    problems.extend(unsupported.map(Problem::UnknownArchitectures));
    let own = present(&listed.known.iter().cloned().collect());
    for architecture in &own {
        let wanted = DesiredCron {
            name: names::for_architecture(template.name(), architecture),
            data_source: names::for_architecture(&base, architecture),
            platform: Some(architecture.clone()),
        };
        image.imported.insert(architecture.clone(), wanted);
    }
    let mut all = own.clone();
    all.extend(bundled.map(present).unwrap_or_default());
    // The default has to be imported; architectures that only VM templates have are the last
    // resort.
    let candidates = if own.is_empty() { &all } else { &own };
    image.default = default(context, &image, candidates);
    image.architectures = Some(all);
    image
}

fn of_bundle<'a>(
    context: &SspContext<'a>,
    base: &str,
    architectures: &BTreeSet<String>,
) -> Image<'a> {
    let mut image = Image {
        namespace: GOLDEN_NAMESPACE.to_owned(),
        base: base.to_owned(),
        template: None,
        architectures: None,
        imported: BTreeMap::new(),
        default: Choice::default(),
    };
    if context.cluster.multi_arch {
        let here = |name: &&String| context.cluster.workload.contains(name.as_str());
        let present_architectures: BTreeSet<String> =
            architectures.iter().filter(here).cloned().collect();
        image.default = default(context, &image, &present_architectures);
        image.architectures = Some(present_architectures);
    }
    image
}

/// The default architecture of an image.
fn default(context: &SspContext<'_>, image: &Image<'_>, supported: &BTreeSet<String>) -> Choice {
    let supported: BTreeSet<&str> = supported.iter().map(String::as_str).collect();
    let health = supported
        .iter()
        .map(|architecture| (*architecture, health(context, image, architecture)))
        .collect();
    choose(&Candidates {
        supported: &supported,
        control_plane: &context.cluster.control_plane,
        nodes: context.facts.nodes,
        wanted: context
            .facts
            .policy
            .default_for(&image.namespace, &image.base),
        health: &health,
    })
}

/// The state of the image for an architecture. It has failed if it was never imported, and the
/// image itself is the reason.
fn health(context: &SspContext<'_>, image: &Image<'_>, architecture: &str) -> Health {
    let source = names::for_architecture(&image.base, architecture);
    if context.is_ready(&named(&image.namespace, &source)) {
        return Health::Ready;
    }
    let Some(wanted) = image.imported.get(architecture) else {
        return Health::Pending;
    };
    let cron = context.crons.get(&named(&image.namespace, &wanted.name));
    let status = cron.and_then(|cron| cron.status.as_ref());
    let failed = status.is_some_and(|status| {
        let known = conditions::get(&status.conditions, "UpToDate");
        let reason = known.and_then(|known| known.reason.as_deref());
        // Only reasons that are in the image. A registry that is down must not move the default to
        // another architecture, and with it what new VMs boot from.
        status.last_imported_pvc.is_none()
            && matches!(
                reason,
                Some("ArchitectureNotFound" | "NotAnIndex" | "ArchitectureMismatch")
            )
    });
    if failed {
        Health::Failed
    } else {
        Health::Pending
    }
}

/// The state of every image.
pub(super) fn report(
    context: &SspContext<'_>,
    images: &[Image<'_>],
    desired: &BTreeMap<Named, DesiredDataSource>,
) -> Vec<ImageState> {
    let images = images.iter();
    images.map(|image| one(context, image, desired)).collect()
}

fn one(
    context: &SspContext<'_>,
    image: &Image<'_>,
    desired: &BTreeMap<Named, DesiredDataSource>,
) -> ImageState {
    let mut state = ImageState {
        namespace: image.namespace.clone(),
        name: image.base.clone(),
        ..ImageState::default()
    };
    if image.architectures.is_some() {
        state
            .default_architecture
            .clone_from(&image.default.architecture);
        state.default_reason = Some(image.default.why.to_string());
    }
    let base = names::fitting(&image.base);
    for (key, source) in &context.sources {
        let data_source = desired.get(key);
        let belongs = key.namespace == image.namespace
            && (key.name == image.base
                || label(&source.metadata, labels::DATA_SOURCE_NAME) == Some(&base));
        if !belongs
            || data_source.is_some_and(|data_source| {
                matches!(data_source.source, DesiredSource::Pointer { .. })
            })
        {
            continue;
        }
        let architecture = label(&source.metadata, labels::ARCHITECTURE).unwrap_or_default();
        if data_source.is_none() && architecture.is_empty() {
            continue;
        }
        let manages = |cron: &&&DataImportCron| {
            cron.spec.managed_data_source == key.name
                && cron.metadata.namespace.as_deref() == Some(&key.namespace)
        };
        let cron = context.crons.values().find(manages);
        let status = cron.and_then(|cron| cron.status.as_ref());
        let known =
            status.and_then(|status| conditions::get(&status.conditions, "UpToDate").cloned());
        let leaving = cron
            .and_then(|cron| annotation(&cron.metadata, UNWANTED_SINCE))
            .or_else(|| annotation(&source.metadata, UNWANTED_SINCE))
            .and_then(|since| since.parse().ok());
        let word = State::of(leaving.is_some(), context.is_ready(key), is_failed(status));
        let digest = status.and_then(|status| status.current_imports.first());
        state.architectures.push(ArchitectureState {
            architecture: architecture.to_owned(),
            data_source: Some(key.name.clone()),
            state: word.to_string(),
            reason: known.and_then(|known| known.reason),
            digest: digest.map(|import| import.digest.clone()),
            leaves_at: leaving.and_then(|since: jiff::Timestamp| {
                since
                    .checked_add(context.facts.policy.grace)
                    .ok()
                    .map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time)
            }),
        });
    }
    state
}
