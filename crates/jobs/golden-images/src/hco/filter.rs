//! The architectures of an image, without those that no node has.

use std::collections::BTreeSet;

use api::hco::{TemplateStatus, TemplateWithStatus};
use api::ssp::{ARCHITECTURES, DataImportCronTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::merge::Merged;
use super::{Facts, Problem, Switch};
use crate::conditions::Said;
use crate::list::Listed;

/// The condition that says that a template came to nothing.
pub const DEPLOYED: &str = "Deployed";
/// The condition that says that a template names other architectures than its image has.
pub const ARCHITECTURES_MATCH: &str = "ArchitecturesMatch";

/// What becomes of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Filtered {
    /// What the SSP gets, if anything.
    pub(super) deployed: Option<DataImportCronTemplate>,
    /// What the status says.
    pub(super) reported: TemplateWithStatus,
    /// Whether the template names architectures.
    pub(super) annotated: bool,
}

pub(super) fn filter(
    facts: &Facts<'_>,
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
    facts: &Facts<'_>,
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
        // What is not looked at further down is not passed on, but it can still be seen here.
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
    let really = facts.discovered.get(&name);
    let written = template.annotation(ARCHITECTURES).map(str::to_owned);
    let adopted = really
        .filter(|_| facts.policy.discovery == api::golden::Discovery::Adopt)
        .map(|names| names.iter().cloned().collect::<Vec<_>>().join(","));
    let Some(original) = written.clone().or(adopted) else {
        return Filtered {
            reported: reported(&template, status),
            deployed: Some(template),
            annotated,
        };
    };
    let listed = Listed::parse(&original);
    if written.is_some() && !listed.unknown.is_empty() {
        problems.push(Problem::UnknownArchitectures {
            template: name.clone(),
            architectures: listed.unknown.clone(),
        });
    }
    let present = listed.present(cluster);
    let annotations = template.metadata.annotations.get_or_insert_default();
    annotations.insert(ARCHITECTURES.to_owned(), present.join(","));
    let before = before(facts, &name);
    let generation = facts.images.generation;
    let mut say = |said: &Said| {
        let condition = said.standard(before, facts.now, generation);
        status.conditions.push(condition);
    };
    if present.is_empty() {
        say(&Said::new(
            DEPLOYED,
            false,
            "UnsupportedArchitectures",
            "DataImportCronTemplate has no supported architectures for the current cluster",
        ));
    }
    if written.is_some()
        && facts.policy.discovery != api::golden::Discovery::Off
        && let Some(said) = really.and_then(|really| mismatch(&listed, really, cluster))
    {
        say(&said);
    }
    status.original_supported_architectures = Some(original);
    let deployed = (!present.is_empty()).then(|| template.clone());
    Filtered {
        deployed,
        reported: reported(&template, status),
        annotated,
    }
}

/// What a template should say and does not, or says and should not.
fn mismatch(listed: &Listed, really: &BTreeSet<String>, cluster: &BTreeSet<&str>) -> Option<Said> {
    let missing: Vec<&str> = listed
        .known
        .iter()
        .filter(|name| !really.contains(*name))
        .map(String::as_str)
        .collect();
    let unused: Vec<&str> = really
        .iter()
        .map(String::as_str)
        .filter(|name| cluster.contains(name) && !listed.known.iter().any(|known| known == name))
        .collect();
    let (reason, message) = match (missing.as_slice(), unused.as_slice()) {
        ([], []) => return None,
        ([], unused) => (
            "ArchitecturesUnused",
            format!(
                "the image has {}, and so has the cluster, but the annotation does not name it",
                unused.join(", ")
            ),
        ),
        (missing, []) => (
            "ArchitecturesMissing",
            format!(
                "the annotation names {}, but the image does not have it",
                missing.join(", ")
            ),
        ),
        (missing, unused) => (
            "ArchitecturesMissing",
            format!(
                "the annotation names {}, but the image does not have it; the image has {}, which the annotation does not name",
                missing.join(", "),
                unused.join(", ")
            ),
        ),
    };
    Some(Said::new(ARCHITECTURES_MATCH, false, reason, message))
}

fn reported(template: &DataImportCronTemplate, status: TemplateStatus) -> TemplateWithStatus {
    TemplateWithStatus {
        metadata: template.metadata.clone(),
        spec: template.spec.clone(),
        status,
        rest: template.rest.clone(),
    }
}

/// What was said of a template before.
fn before<'a>(facts: &Facts<'a>, name: &str) -> &'a [Condition] {
    let images: &'a api::hco::Images = facts.images;
    let mut known = images.status.data_import_cron_templates.iter();
    let known = known.find(|known| known.metadata.name.as_deref() == Some(name));
    known.map_or(&[], |known| &known.status.conditions)
}
