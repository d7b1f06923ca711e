//! Filters the architectures of images by those of the workload nodes.

use std::collections::BTreeSet;

use api::hco::{TemplateStatus, TemplateWithStatus};
use api::ssp::{ARCHITECTURES, DataImportCronTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::merge::Merged;
use super::{HcoInputs, Problem, Switch};
use crate::conditions::ConditionUpdate;
use crate::list::ArchitectureList;

/// Condition of a template: set to False if it is not deployed.
pub const DEPLOYED: &str = "Deployed";
/// Condition of a template: set to False if its annotation does not match the architectures of its
/// image.
pub const ARCHITECTURES_MATCH: &str = "ArchitecturesMatch";

/// A template after filtering.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Filtered {
    /// The template for the SSP; `None` if it is not deployed.
    pub(super) deployed: Option<DataImportCronTemplate>,
    /// The template in the status of the HyperConverged.
    pub(super) reported: TemplateWithStatus,
    /// Whether the template has the architectures annotation.
    pub(super) annotated: bool,
}

pub(super) fn filter(
    facts: &HcoInputs<'_>,
    switch: Switch,
    merged: Vec<Merged>,
    problems: &mut Vec<Problem>,
) -> Vec<Filtered> {
    let cluster = facts.architectures.workload_names();
    let merged = merged.into_iter();
    merged
        .map(|entry| one(facts, switch, &cluster, entry, problems))
        .collect()
}

fn one(
    facts: &HcoInputs<'_>,
    switch: Switch,
    cluster: &BTreeSet<&str>,
    entry: Merged,
    problems: &mut Vec<Problem>,
) -> Filtered {
    let mut template = entry.template;
    let annotated = template.annotation(ARCHITECTURES).is_some();
    let mut status = TemplateStatus {
        common_template: entry.common,
        modified: entry.modified,
        ..TemplateStatus::default()
    };
    if !switch.is_on() {
        // The SSP copy loses the annotation; the status keeps it, unfiltered. This is HCO's
        // behaviour.
        let reported = reported(&template, status);
        if let Some(annotations) = &mut template.metadata.annotations {
            annotations.remove(ARCHITECTURES);
        }
        return Filtered {
            deployed: Some(template),
            reported,
            annotated,
        };
    }
    let name = template.name().to_owned();
    let discovered = facts.discovered.get(&name);
    let written = template.annotation(ARCHITECTURES).map(str::to_owned);
    let adopted = discovered
        .filter(|_| facts.policy.discovery == api::golden::Discovery::Adopt)
        .map(|names| names.iter().cloned().collect::<Vec<_>>().join(","));
    // The annotation wins: discovery fills in only where a template has none.
    let Some(original) = written.clone().or(adopted) else {
        return Filtered {
            reported: reported(&template, status),
            deployed: Some(template),
            annotated,
        };
    };
    let listed = ArchitectureList::parse(&original);
    if written.is_some() {
        problems.extend(listed.unsupported(&name).map(Problem::UnknownArchitectures));
    }
    let present = listed.present(cluster);
    let annotations = template.metadata.annotations.get_or_insert_default();
    annotations.insert(ARCHITECTURES.to_owned(), present.join(","));
    let before = before(facts, &name);
    let generation = facts.images.generation;
    let mut add_condition = |update: &ConditionUpdate| {
        let condition = update.standard(before, facts.now, generation);
        status.conditions.push(condition);
    };
    if present.is_empty() {
        add_condition(&ConditionUpdate::new(
            DEPLOYED,
            false,
            "UnsupportedArchitectures",
            "DataImportCronTemplate has no supported architectures for the current cluster",
        ));
    }
    if written.is_some()
        && facts.policy.discovery != api::golden::Discovery::Off
        && let Some(update) =
            discovered.and_then(|discovered| mismatch(&listed, discovered, cluster))
    {
        add_condition(&update);
    }
    status.original_supported_architectures = Some(original);
    // Without a single architecture left, SSP would read the empty annotation as "any
    // architecture".
    let deployed = (!present.is_empty()).then(|| template.clone());
    Filtered {
        deployed,
        reported: reported(&template, status),
        annotated,
    }
}

/// The condition for an annotation that lists other architectures than the image has.
fn mismatch(
    listed: &ArchitectureList,
    discovered: &BTreeSet<String>,
    cluster: &BTreeSet<&str>,
) -> Option<ConditionUpdate> {
    let missing: Vec<&str> = listed
        .known
        .iter()
        .filter(|name| !discovered.contains(*name))
        .map(String::as_str)
        .collect();
    let unused: Vec<&str> = discovered
        .iter()
        .map(String::as_str)
        .filter(|name| cluster.contains(name) && !listed.known.iter().any(|known| known == name))
        .collect();
    let (reason, message) = match (missing.as_slice(), unused.as_slice()) {
        ([], []) => return None,
        ([], unused) => (
            "ArchitecturesUnused",
            format!(
                "the image and the cluster have {}, but the annotation does not list it",
                unused.join(", ")
            ),
        ),
        (missing, []) => (
            "ArchitecturesMissing",
            format!(
                "the annotation lists {}, but the image does not have it",
                missing.join(", ")
            ),
        ),
        (missing, unused) => (
            "ArchitecturesMissing",
            format!(
                "the annotation lists {}, but the image does not have it; the image has {}, which the annotation does not list",
                missing.join(", "),
                unused.join(", ")
            ),
        ),
    };
    Some(ConditionUpdate::new(
        ARCHITECTURES_MATCH,
        false,
        reason,
        message,
    ))
}

fn reported(template: &DataImportCronTemplate, status: TemplateStatus) -> TemplateWithStatus {
    TemplateWithStatus {
        metadata: template.metadata.clone(),
        spec: template.spec.clone(),
        status,
        rest: template.rest.clone(),
    }
}

/// The previous conditions of a template.
fn before<'a>(facts: &HcoInputs<'a>, name: &str) -> &'a [Condition] {
    let images: &'a api::hco::Images = facts.images;
    let mut known = images.status.data_import_cron_templates.iter();
    let known = known.find(|known| known.metadata.name.as_deref() == Some(name));
    known.map_or(&[], |known| &known.status.conditions)
}
