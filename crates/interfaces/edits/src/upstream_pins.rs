//! Pins of images that CDI imports: edits of the DataImportCron, SSP or HyperConverged that a user owns, with the
//! permissions of that user.

use std::collections::{BTreeMap, BTreeSet};

use api::cdi::{DataImportCron, GROUP};
use api::hco::{Images, Version, v1, v1beta1};
use api::ssp::{DataImportCronTemplate, SSP};
use cluster_view::list::list_in;
use golden_images::overview::{Image, Variant};
use golden_images::upstream_pins::{
    Refusal, TemplateEdit, check_source, is_of_ssp, pin_cron, pin_hyperconverged, pin_template,
    template_of, unpin_cron, unpin_template,
};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client, Resource, ResourceExt as _};
use runtime::{Error, Writer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A change of pins.
#[derive(Debug, Clone, Copy)]
pub enum PinChange<'a> {
    /// Pins DataSources to digests.
    Pin(&'a BTreeMap<String, String>),
    /// Unpins these DataSources.
    Unpin(&'a BTreeSet<String>),
}

impl PinChange<'_> {
    fn concerns(&self, data_source: &str) -> bool {
        match self {
            Self::Pin(all) => all.contains_key(data_source),
            Self::Unpin(all) => all.contains(data_source),
        }
    }
}

/// An edit of one object.
#[derive(Debug)]
pub struct PlannedPin {
    /// The object, as `kind.group/name`.
    pub object: String,
    /// What is edited in it, for messages.
    pub what: String,
    /// What the edit destroys until CDI has imported again; `None` for an edit that keeps everything.
    pub loss: Option<String>,
    target: Target,
    metadata: ObjectMeta,
    patch: Value,
}

#[derive(Debug, Clone, Copy)]
enum Target {
    Cron,
    Ssp,
    HyperConverged(Version),
}

/// The objects with templates.
enum Place {
    HyperConverged(Box<Images>, Box<ObjectMeta>),
    Ssp(Box<SSP>),
    None,
}

/// Plans the edits for an image; an error if CDI cannot be made to keep a version.
pub async fn plan_pins(
    client: &Client,
    image: &Image,
    change: PinChange<'_>,
) -> Result<Vec<PlannedPin>, Error> {
    let crons: Api<DataImportCron> = Api::namespaced(client.clone(), &image.namespace);
    let mut planned = Vec::new();
    let mut of_ssp: Vec<(DataImportCron, &Variant)> = Vec::new();
    for variant in &image.architectures {
        let Some(name) = &variant.cron else { continue };
        if !change.concerns(&variant.data_source) {
            continue;
        }
        let operation = format!("getting DataImportCron {}/{name}", image.namespace);
        let cron = crons.get(name).await.map_err(Error::api(operation))?;
        if is_of_ssp(&cron) {
            of_ssp.push((cron, variant));
        } else {
            planned.push(plan_cron(&cron, variant, change)?);
        }
    }
    if of_ssp.is_empty() {
        return Ok(planned);
    }
    let place = place(client).await?;
    let names: Vec<String> = match &place {
        Place::HyperConverged(images, _) => {
            let all = images.status.data_import_cron_templates.iter();
            all.filter_map(|it| it.metadata.name.clone()).collect()
        }
        Place::Ssp(ssp) => {
            let all = ssp.spec.common_templates.data_import_cron_templates.iter();
            all.map(|it| it.name().to_owned()).collect()
        }
        Place::None => Vec::new(),
    };
    let mut by_template: BTreeMap<String, Vec<&(DataImportCron, &Variant)>> = BTreeMap::new();
    for entry in &of_ssp {
        let found = template_of(&entry.0, names.iter().map(String::as_str));
        let template = found.ok_or_else(|| no_template(&entry.0, &place))?;
        by_template.entry(template).or_default().push(entry);
    }
    for (template, entries) in &by_template {
        // Others of the same template, which the edit would change as well.
        let mut others = image.architectures.iter().filter(|it| {
            it.cron.is_some()
                && entries
                    .iter()
                    .all(|(_, own)| own.data_source != it.data_source)
        });
        if let (Some(_), Some((_, own))) = (others.next(), entries.first()) {
            return Err(invalid(&Refusal::OneArchitecture {
                template: template.clone(),
                architecture: own.architecture.clone(),
            }));
        }
        planned.push(plan_template(&place, template, entries, change)?);
    }
    Ok(planned)
}

/// Sends the edits, or only validates them (dry run). An object that has changed since the plan is a conflict.
pub async fn apply_pins(
    client: &Client,
    planned: &[PlannedPin],
    (manager, dry_run): (&'static str, bool),
) -> Result<(), Error> {
    for edit in planned {
        match edit.target {
            Target::Cron => send::<DataImportCron>(client, edit, manager, dry_run).await?,
            Target::Ssp => send::<SSP>(client, edit, manager, dry_run).await?,
            Target::HyperConverged(Version::V1) => {
                send::<v1::HyperConverged>(client, edit, manager, dry_run).await?;
            }
            Target::HyperConverged(Version::V1Beta1) => {
                send::<v1beta1::HyperConverged>(client, edit, manager, dry_run).await?;
            }
        }
    }
    Ok(())
}

async fn send<K>(
    client: &Client,
    edit: &PlannedPin,
    manager: &'static str,
    dry_run: bool,
) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static,
{
    let namespace = edit.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let writer = Writer::new(api, manager).dry_run(dry_run);
    writer
        .merge_into(&edit.metadata, edit.patch.clone())
        .await?;
    Ok(())
}

fn plan_cron(
    cron: &DataImportCron,
    variant: &Variant,
    change: PinChange<'_>,
) -> Result<PlannedPin, Error> {
    let annotations = match change {
        PinChange::Pin(digests) => {
            let digest = digests.get(&variant.data_source).cloned();
            pin_cron(cron, &digest.unwrap_or_default()).map_err(|why| invalid(&why))?
        }
        PinChange::Unpin(_) => unpin_cron(cron),
    };
    Ok(PlannedPin {
        object: format!("dataimportcron.{GROUP}/{}", cron.name_any()),
        what: "its annotations".to_owned(),
        loss: None,
        target: Target::Cron,
        metadata: cron.metadata.clone(),
        patch: json!({ "metadata": { "annotations": annotations } }),
    })
}

fn plan_template(
    place: &Place,
    template: &str,
    entries: &[&(DataImportCron, &Variant)],
    change: PinChange<'_>,
) -> Result<PlannedPin, Error> {
    let none = || {
        entries.first().map_or_else(
            || Error::Invalid(String::new()),
            |(cron, _)| no_template(cron, place),
        )
    };
    let digest = match change {
        PinChange::Pin(digests) => Some(one_digest(template, entries, digests)?),
        PinChange::Unpin(_) => None,
    };
    let (edit, object, target, metadata) = match place {
        Place::HyperConverged(images, metadata) => {
            let all = &images.status.data_import_cron_templates;
            let edit = match &digest {
                Some(digest) => pin_hyperconverged(&images.templates, all, template, digest)
                    .map_err(|why| invalid(&why))?,
                None => unpin_template(&images.templates, template),
            };
            let object = format!("hyperconverged.{}/{}", api::hco::GROUP, images.name);
            let target = Target::HyperConverged(images.version);
            (edit.ok_or_else(none)?, object, target, &**metadata)
        }
        Place::Ssp(ssp) => {
            let own = &ssp.spec.common_templates.data_import_cron_templates;
            let edit = match &digest {
                Some(digest) => pin_template(own, template, digest),
                None => unpin_template(own, template),
            };
            let object = format!("ssp.ssp.kubevirt.io/{}", ssp.name_any());
            (edit.ok_or_else(none)?, object, Target::Ssp, &ssp.metadata)
        }
        Place::None => return Err(none()),
    };
    let list = &edit.templates;
    let patch = match target {
        Target::Ssp => templates_at(&["commonTemplates"], list),
        Target::HyperConverged(Version::V1) => templates_at(&["workloadSources"], list),
        Target::HyperConverged(Version::V1Beta1) | Target::Cron => templates_at(&[], list),
    };
    Ok(PlannedPin {
        object,
        what: format!("template {template}"),
        loss: loss(&edit, entries, digest.as_deref()),
        target,
        metadata: metadata.clone(),
        patch,
    })
}

fn templates_at(path: &[&str], list: &[DataImportCronTemplate]) -> Value {
    let mut value = json!({ "dataImportCronTemplates": list });
    for name in path.iter().rev() {
        value = json!({ *name: value });
    }
    json!({ "spec": value })
}

/// What is gone until CDI has imported again.
fn loss(
    edit: &TemplateEdit,
    entries: &[&(DataImportCron, &Variant)],
    digest: Option<&str>,
) -> Option<String> {
    if !edit.recreates {
        return None;
    }
    let crons: Vec<String> = entries.iter().map(|(cron, _)| cron.name_any()).collect();
    let crons = crons.join(", ");
    let version = digest.unwrap_or("the newest version");
    let volumes = if edit.deletes_volumes {
        format!(
            "CDI deletes their volumes with them (retentionPolicy None), so that nothing can be cloned until {version} is imported from the registry again"
        )
    } else {
        "their volumes stay".to_owned()
    };
    Some(format!(
        "the SSP operator deletes DataImportCrons {crons} and creates them again; {volumes}"
    ))
}

/// The digest of all architectures of a template.
fn one_digest(
    template: &str,
    entries: &[&(DataImportCron, &Variant)],
    digests: &BTreeMap<String, String>,
) -> Result<String, Error> {
    for (cron, _) in entries {
        check_source(cron).map_err(|why| invalid(&why))?;
    }
    let all: BTreeSet<&String> = entries
        .iter()
        .filter_map(|(_, variant)| digests.get(&variant.data_source))
        .collect();
    match (all.first(), all.len()) {
        (Some(only), 1) => Ok((*only).clone()),
        _ => Err(invalid(&Refusal::Different {
            template: template.to_owned(),
            digests: all.into_iter().cloned().collect(),
        })),
    }
}

fn no_template(cron: &DataImportCron, place: &Place) -> Error {
    invalid(&Refusal::NoTemplate {
        cron: cron.name_any(),
        place: match place {
            Place::HyperConverged(..) => "the HyperConverged",
            Place::Ssp(_) => "the SSP",
            Place::None => "the cluster",
        },
    })
}

fn invalid(why: &Refusal) -> Error {
    Error::Invalid(why.to_string())
}

/// Where a user edits templates: in the HyperConverged, if there is one, because its operator reverts edits of the SSP.
async fn place(client: &Client) -> Result<Place, Error> {
    let all = ListParams::default();
    let found: Option<Vec<v1::HyperConverged>> = list_in(client, None, &all).await?;
    if let Some(found) = found {
        if let Some(object) = found.into_iter().next() {
            let metadata = Box::new(object.metadata.clone());
            return Ok(Place::HyperConverged(Box::new(object.into()), metadata));
        }
    } else {
        // An operator from before `v1`.
        let found: Option<Vec<v1beta1::HyperConverged>> = list_in(client, None, &all).await?;
        if let Some(object) = found.into_iter().flatten().next() {
            let metadata = Box::new(object.metadata.clone());
            return Ok(Place::HyperConverged(Box::new(object.into()), metadata));
        }
    }
    let ssps: Option<Vec<SSP>> = list_in(client, None, &all).await?;
    let ssp = ssps.into_iter().flatten().next();
    Ok(ssp.map_or(Place::None, |ssp| Place::Ssp(Box::new(ssp))))
}
