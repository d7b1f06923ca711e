//! Pins of images that CDI imports: edits of the objects that users own.
//!
//! CDI has no pins. It imports the digest in an annotation of the DataImportCron, and its poll overwrites that with the
//! newest one, unless the schedule is empty. So a pin is that annotation and an empty schedule.
//!
//! A URL with a digest is no pin: CDI appends the digest of its poll to the URL, whatever it has, and cannot import the
//! result (kubevirt/containerized-data-importer#2689).
//!
//! | owner of the DataImportCron | what is edited |
//! |---|---|
//! | a user | its annotation; only with an empty schedule, because CDI's webhook forbids changes of its spec |
//! | an SSP | the template in the SSP: its operator copies annotations, and creates the DataImportCron again for a new schedule |
//! | an SSP of a HyperConverged | the template there. HCO gives overrides of built-in templates a schedule, so a built-in one is disabled, and a copy of it with another name takes its place |

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::cdi::{DataImportCron, annotations, labels};
use api::golden::names::{BEFORE_PIN, PINNED};
use api::hco::TemplateWithStatus;
use api::ssp::{ARCHITECTURES, DataImportCronTemplate, ENABLE, OWNER_TYPE};
use serde::{Deserialize, Serialize};

use crate::action::{annotation, label};
use crate::names::for_architecture;

/// The suffix of a template that takes the place of a built-in one.
const SUFFIX: &str = "-pinned";
/// The longest name that CDI accepts for a DataImportCron.
const MAX_NAME: usize = 63;
/// The longest architecture that SSP appends to the name of a template.
const LONGEST_ARCHITECTURE: &str = "s390x";
/// The owner annotation of objects of an SSP.
const SSP_TYPE: &str = "SSP.ssp.kubevirt.io";

/// Why a version cannot be pinned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The source is not a URL in a registry.
    #[error(
        "cannot pin {0} beside CDI: its source is not the URL of an image in a registry, and CDI imports only these by digest"
    )]
    NoRegistry(String),
    /// CDI polls, and would overwrite the pin.
    #[error(
        "cannot pin DataImportCron {name} beside CDI: the next poll of CDI (schedule {schedule:?}) overwrites the pin, and the webhook of CDI forbids changes \
         of the spec. A URL with a digest is not imported by CDI either. Create the DataImportCron again with an empty schedule \
         (with retentionPolicy All its volumes stay), and pin then"
    )]
    Scheduled {
        /// The DataImportCron.
        name: String,
        /// Its schedule.
        schedule: String,
    },
    /// No template creates the DataImportCron.
    #[error(
        "cannot pin DataImportCron {cron} beside CDI: it belongs to an SSP, and {place} has no template for it"
    )]
    NoTemplate {
        /// The DataImportCron.
        cron: String,
        /// The object that was searched.
        place: &'static str,
    },
    /// A template has one digest for all architectures.
    #[error(
        "cannot pin {architecture} of template {template} alone beside CDI: one digest, of the index, is imported for all architectures; leave out --arch"
    )]
    OneArchitecture {
        /// The template.
        template: String,
        /// The selected architecture.
        architecture: String,
    },
    /// The architectures of an image have different versions.
    #[error(
        "cannot pin template {template} beside CDI: one digest is imported for all architectures, but they have different ones: {}; use --digest with that of an index", .digests.join(", ")
    )]
    Different {
        /// The template.
        template: String,
        /// The digests.
        digests: Vec<String>,
    },
    /// The copy of a built-in template would have a name that CDI rejects.
    #[error(
        "cannot pin built-in template {0} beside CDI: DataImportCrons of its copy {0}{SUFFIX} would have names with more than {MAX_NAME} characters"
    )]
    LongName(String),
}

/// What a pin changes back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BeforePin {
    /// The schedule.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    schedule: String,
    /// The digest that was set by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// The built-in template that the pinned one takes the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    built_in: Option<String>,
    /// On a disabled built-in template: the override from before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overridden: Option<Box<DataImportCronTemplate>>,
}

impl BeforePin {
    fn read(text: Option<&str>) -> Option<Self> {
        serde_json::from_str(text?).ok()
    }

    fn write(&self) -> String {
        // Strings always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The version that a DataImportCron is pinned to beside CDI.
pub fn pinned(cron: &DataImportCron) -> Option<&str> {
    annotation(&cron.metadata, PINNED).filter(|digest| !digest.is_empty())
}

/// Whether a template creates a DataImportCron, and not a user.
pub fn is_of_ssp(cron: &DataImportCron) -> bool {
    annotation(&cron.metadata, OWNER_TYPE) == Some(SSP_TYPE)
}

/// An error unless CDI imports the source by a digest that it is given.
pub fn check_source(cron: &DataImportCron) -> Result<(), Refusal> {
    let source = cron.spec.template.spec.source.as_ref();
    let registry = source.and_then(|it| it.registry.as_ref());
    let is_url = registry.is_some_and(|it| it.url.is_some() && it.image_stream.is_none());
    let name = cron.metadata.name.clone().unwrap_or_default();
    is_url.then_some(()).ok_or(Refusal::NoRegistry(name))
}

/// The annotations that pin a DataImportCron that no operator owns; all other annotations stay.
pub fn pin_cron(
    cron: &DataImportCron,
    digest: &str,
) -> Result<BTreeMap<&'static str, Option<String>>, Refusal> {
    check_source(cron)?;
    if !cron.spec.schedule.is_empty() {
        return Err(Refusal::Scheduled {
            name: cron.metadata.name.clone().unwrap_or_default(),
            schedule: cron.spec.schedule.clone(),
        });
    }
    let desired = annotation(&cron.metadata, annotations::DESIRED_DIGEST);
    // The first pin only: the digest from before is not that of an earlier pin.
    let before = match annotation(&cron.metadata, BEFORE_PIN).filter(|it| !it.is_empty()) {
        Some(before) => before.to_owned(),
        None => BeforePin {
            digest: desired.map(str::to_owned),
            ..BeforePin::default()
        }
        .write(),
    };
    Ok([
        (annotations::DESIRED_DIGEST, Some(digest.to_owned())),
        (PINNED, Some(digest.to_owned())),
        (BEFORE_PIN, Some(before)),
    ]
    .into())
}

/// The annotations that unpin it: the digest from before the pin.
pub fn unpin_cron(cron: &DataImportCron) -> BTreeMap<&'static str, Option<String>> {
    let before = BeforePin::read(annotation(&cron.metadata, BEFORE_PIN)).unwrap_or_default();
    let mut changes: BTreeMap<_, _> = [(PINNED, None), (BEFORE_PIN, None)].into();
    changes.insert(annotations::DESIRED_DIGEST, before.digest);
    changes
}

/// What an edit of a template leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateEdit {
    /// The template.
    pub template: String,
    /// The whole list of templates after the edit.
    pub templates: Vec<DataImportCronTemplate>,
    /// Whether the DataImportCrons are deleted and created again.
    pub recreates: bool,
    /// Whether CDI deletes the volumes of a deleted DataImportCron.
    pub deletes_volumes: bool,
}

/// The name of the template that creates a DataImportCron, among these.
pub fn template_of<'a>(
    cron: &DataImportCron,
    mut names: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let own = cron.metadata.name.as_deref().unwrap_or_default();
    let architecture = label(&cron.metadata, labels::ARCHITECTURE);
    let found = names.find(|name| {
        *name == own || architecture.is_some_and(|it| for_architecture(name, it) == own)
    });
    found.map(str::to_owned)
}

/// Pins a template among those of an SSP; `None` if it is not there.
pub fn pin_template(
    templates: &[DataImportCronTemplate],
    name: &str,
    digest: &str,
) -> Option<TemplateEdit> {
    let mut templates = templates.to_vec();
    let found = templates.iter_mut().find(|it| it.name() == name)?;
    let spec = found.spec.as_mut()?;
    let recreates = !spec.schedule.is_empty();
    let deletes_volumes = recreates && spec.cleans_up();
    let schedule = std::mem::take(&mut spec.schedule);
    let desired = found.annotation(annotations::DESIRED_DIGEST);
    let known = found.annotation(BEFORE_PIN).filter(|it| !it.is_empty());
    let before = match known {
        Some(before) => before.to_owned(),
        None => BeforePin {
            schedule,
            digest: desired.map(str::to_owned),
            ..BeforePin::default()
        }
        .write(),
    };
    mark(found, digest, before);
    Some(TemplateEdit {
        template: name.to_owned(),
        templates,
        recreates,
        deletes_volumes,
    })
}

/// Pins a template of a HyperConverged: `own` are those in its spec, `all` those in its status, with the built-in ones.
/// `None` if it is in neither.
pub fn pin_hyperconverged(
    own: &[DataImportCronTemplate],
    all: &[TemplateWithStatus],
    name: &str,
    digest: &str,
) -> Result<Option<TemplateEdit>, Refusal> {
    let named = |it: &&TemplateWithStatus| it.metadata.name.as_deref() == Some(name);
    let Some(known) = all.iter().find(named) else {
        return Ok(None);
    };
    if !known.status.common_template {
        return Ok(pin_template(own, name, digest));
    }
    let Some(mut spec) = known.spec.clone() else {
        return Ok(None);
    };
    let copy = format!("{name}{SUFFIX}");
    if copy.len() + 1 + LONGEST_ARCHITECTURE.len() > MAX_NAME {
        return Err(Refusal::LongName(name.to_owned()));
    }
    let deletes_volumes = spec.cleans_up();
    spec.schedule = String::new();
    let mut pinned = DataImportCronTemplate {
        metadata: known.metadata.clone(),
        spec: Some(spec),
        ..DataImportCronTemplate::default()
    };
    pinned.metadata.name = Some(copy.clone());
    if let Some(architectures) = &known.status.original_supported_architectures {
        // The annotation in the status has only those of the cluster.
        let annotations = pinned.metadata.annotations.get_or_insert_default();
        annotations.insert(ARCHITECTURES.to_owned(), architectures.clone());
    }
    let before = BeforePin {
        built_in: Some(name.to_owned()),
        ..BeforePin::default()
    };
    mark(&mut pinned, digest, before.write());
    let mut disabled = DataImportCronTemplate::default();
    disabled.metadata.name = Some(name.to_owned());
    let overridden = own.iter().find(|it| it.name() == name).cloned();
    let before = BeforePin {
        overridden: overridden.map(Box::new),
        ..BeforePin::default()
    };
    let marks = [(ENABLE, "false".to_owned()), (BEFORE_PIN, before.write())];
    let marks = marks.map(|(key, value)| (key.to_owned(), value));
    disabled.metadata.annotations = Some(marks.into());
    let kept = own
        .iter()
        .filter(|it| it.name() != name && it.name() != copy);
    let mut templates: Vec<DataImportCronTemplate> = kept.cloned().collect();
    templates.extend([disabled, pinned]);
    Ok(Some(TemplateEdit {
        template: name.to_owned(),
        templates,
        recreates: true,
        deletes_volumes,
    }))
}

/// Unpins a template of an SSP or a HyperConverged; `None` if it is not pinned.
pub fn unpin_template(templates: &[DataImportCronTemplate], name: &str) -> Option<TemplateEdit> {
    let mut templates = templates.to_vec();
    let found = templates.iter().position(|it| it.name() == name)?;
    let template = templates.get_mut(found)?;
    let before = BeforePin::read(template.annotation(BEFORE_PIN))?;
    let spec = template.spec.as_mut()?;
    let deletes_volumes = spec.cleans_up();
    if let Some(built_in) = before.built_in {
        templates.remove(found);
        let disabled = templates.iter().position(|it| it.name() == built_in);
        if let Some(disabled) = disabled {
            let entry = templates.remove(disabled);
            let before = BeforePin::read(entry.annotation(BEFORE_PIN));
            let overridden = before.and_then(|it| it.overridden);
            templates.extend(overridden.map(|it| *it));
        }
        return Some(TemplateEdit {
            template: name.to_owned(),
            templates,
            recreates: true,
            deletes_volumes,
        });
    }
    let recreates = !before.schedule.is_empty();
    spec.schedule = before.schedule;
    let annotations = template.metadata.annotations.get_or_insert_default();
    for (key, value) in [
        (annotations::DESIRED_DIGEST, before.digest),
        (PINNED, None),
        (BEFORE_PIN, None),
    ] {
        match value {
            Some(value) => annotations.insert(key.to_owned(), value),
            None if recreates => annotations.remove(key),
            // The SSP operator removes no annotation from a DataImportCron that stays.
            None => annotations.insert(key.to_owned(), String::new()),
        };
    }
    Some(TemplateEdit {
        template: name.to_owned(),
        templates,
        recreates,
        deletes_volumes: recreates && deletes_volumes,
    })
}

fn mark(template: &mut DataImportCronTemplate, digest: &str, before: String) {
    let marks = [
        (annotations::DESIRED_DIGEST, digest.to_owned()),
        (PINNED, digest.to_owned()),
        (BEFORE_PIN, before),
    ];
    let marks = marks.map(|(key, value)| (key.to_owned(), value));
    template
        .metadata
        .annotations
        .get_or_insert_default()
        .extend(marks);
}
