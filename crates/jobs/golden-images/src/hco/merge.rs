//! Merges built-in templates with those of the administrator.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataImportCronSpec, annotations::IMMEDIATE_BIND};
use api::ssp::{ARCHITECTURES, DataImportCronTemplate, ENABLE};

use super::{HcoInputs, Problem, Switch};

/// A template and its provenance.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Merged {
    pub(super) template: DataImportCronTemplate,
    /// Whether it is built in.
    pub(super) common: bool,
    /// Whether it is built in and overridden.
    pub(super) modified: bool,
}

/// All enabled templates, sorted by name.
pub(super) fn merge(
    facts: &HcoInputs<'_>,
    switch: Switch,
    schedule: &str,
    problems: &mut Vec<Problem>,
) -> Vec<Merged> {
    let custom = custom(&facts.images.templates, problems);
    let mut merged = BTreeMap::new();
    let mut overridden = BTreeSet::new();
    if facts.images.common_boot_images {
        for built_in in facts.built_in {
            let name = built_in.name().to_owned();
            // HCO panics at its start for a duplicate. One built-in template less is the smaller
            // harm.
            if name.is_empty() || merged.contains_key(&name) {
                continue;
            }
            let without_overrides = without_overrides(built_in, schedule);
            let Some(changes) = custom.get(name.as_str()) else {
                let mut template = without_overrides;
                if let Some(namespace) = &facts.images.common_boot_image_namespace {
                    template.metadata.namespace = Some(namespace.clone());
                }
                let entry = Merged {
                    template,
                    common: true,
                    modified: false,
                };
                merged.insert(name, entry);
                continue;
            };
            overridden.insert(name.clone());
            if is_enabled(changes) {
                let entry = Merged {
                    template: with_overrides(without_overrides, changes, switch.is_on()),
                    common: true,
                    modified: true,
                };
                merged.insert(name, entry);
            }
        }
    }
    for (name, template) in custom {
        if overridden.contains(name) || !is_enabled(template) {
            continue;
        }
        if template.spec.is_none() {
            problems.push(Problem::NoSpec(name.to_owned()));
            continue;
        }
        let entry = Merged {
            template: template.clone(),
            common: false,
            modified: false,
        };
        merged.insert(name.to_owned(), entry);
    }
    let mut merged: Vec<Merged> = merged.into_values().collect();
    for entry in &mut merged {
        let annotations = entry.template.metadata.annotations.get_or_insert_default();
        annotations
            .entry(IMMEDIATE_BIND.to_owned())
            .or_insert_with(|| "true".to_owned());
    }
    merged
}

/// The templates of the administrator, by name.
fn custom<'a>(
    templates: &'a [DataImportCronTemplate],
    problems: &mut Vec<Problem>,
) -> BTreeMap<&'a str, &'a DataImportCronTemplate> {
    let mut custom = BTreeMap::new();
    for template in templates {
        let name = template.name();
        if name.is_empty() {
            problems.push(Problem::NoName);
        } else if custom.contains_key(name) {
            problems.push(Problem::Duplicate(name.to_owned()));
        } else {
            custom.insert(name, template);
        }
    }
    custom
}

/// A built-in template without overrides.
fn without_overrides(built_in: &DataImportCronTemplate, schedule: &str) -> DataImportCronTemplate {
    let mut template = built_in.clone();
    let spec = template.spec.get_or_insert_default();
    schedule.clone_into(&mut spec.schedule);
    set_import_defaults(spec);
    template
}

/// Defaults for images that can be imported again: one import, deleted with its DataImportCron. HCO
/// sets the same, instead of CDI's All and 3.
pub(super) fn set_import_defaults(spec: &mut DataImportCronSpec) {
    spec.retention_policy
        .get_or_insert_with(|| "None".to_owned());
    spec.imports_to_keep.get_or_insert(1);
}

/// A built-in template with the administrator's overrides.
fn with_overrides(
    mut template: DataImportCronTemplate,
    changes: &DataImportCronTemplate,
    multi_arch: bool,
) -> DataImportCronTemplate {
    let before = template.clone();
    if let Some(spec) = &changes.spec {
        let mut spec = spec.clone();
        if spec.schedule.is_empty()
            && let Some(known) = &template.spec
        {
            spec.schedule.clone_from(&known.schedule);
        }
        template.spec = Some(spec);
    }
    template
        .metadata
        .namespace
        .clone_from(&changes.metadata.namespace);
    let annotations = template.metadata.annotations.get_or_insert_default();
    if let Some(changed) = &changes.metadata.annotations {
        annotations.extend(changed.clone());
    }
    if multi_arch {
        // Architectures are a property of the image: an override with another image brings its own
        // list. This is HCO's rule.
        let image = |template: &DataImportCronTemplate| {
            let source = template.spec.as_ref()?.template.spec.source.as_ref()?;
            source.registry.clone()
        };
        let new = changes.spec.as_ref().and_then(|_| image(changes));
        let same = new.is_none() || new == image(&before);
        let listed = if same { &before } else { changes };
        match listed.annotation(ARCHITECTURES) {
            Some(list) => annotations.insert(ARCHITECTURES.to_owned(), list.to_owned()),
            None => annotations.remove(ARCHITECTURES),
        };
    }
    template
}

/// Whether a template is enabled. As in HCO, any value but `true` disables it, even an empty one.
fn is_enabled(template: &DataImportCronTemplate) -> bool {
    template
        .annotation(ENABLE)
        .is_none_or(|text| text.eq_ignore_ascii_case("true"))
}
