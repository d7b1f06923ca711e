//! Findings about the operators of a release.

use std::collections::BTreeSet;

use api::openshift::ClusterOperator;
use serde_json::Value;

use super::{Finding, Rule, not_by_digest};
use crate::adoption::{IMAGE_SUFFIX, OPERATOR_IMAGE};
use crate::payload::{FileName, Manifest, Operator, Payload};

/// Kinds that run pods.
const WORKLOADS: [&str; 6] = [
    "Deployment",
    "DaemonSet",
    "StatefulSet",
    "Job",
    "CronJob",
    "Pod",
];

pub(super) fn lint(payload: &Payload) -> Vec<Finding> {
    let images: BTreeSet<&str> = payload.images.images().map(|(_, image)| image).collect();
    let mut found = Vec::new();
    for operator in payload.operators() {
        let Some(manifest) = payload.manifests.get(operator.place) else {
            continue;
        };
        let file = manifest.file.as_str();
        let finding = |rule, message: String| Finding::of(rule, file, &operator.name, message);
        found.extend(versions(&operator.expected).map(|message| finding(Rule::Versions, message)));
        if operator.expected.version(OPERATOR_IMAGE).is_none()
            && !operator.expected.versions().is_empty()
        {
            let message = format!(
                "it does not report {OPERATOR_IMAGE}: a change of images at the same version is complete for it at once, whatever runs"
            );
            found.push(finding(Rule::Adoption, message));
        }
        for version in operator.expected.versions() {
            // Names are opaque to the cluster-version operator; the suffix is the convention of its developer guide.
            if !version.name.ends_with(IMAGE_SUFFIX) || version.version.is_empty() {
                continue;
            }
            let image = version.version.as_str();
            if let Some(why) = not_by_digest(image) {
                let message = format!("{} is {image}, {why}", version.name);
                found.push(finding(Rule::Digest, message));
            } else if !images.contains(image) {
                let message = format!(
                    "{} is {image}, which image-references does not have",
                    version.name
                );
                found.push(finding(Rule::Image, message));
            } else if !is_passed_to_workload(&payload.manifests, image) {
                let message = format!(
                    "{} is {image}, which no workload of the release has in a flag, a variable or as its image: no operator can report it",
                    version.name
                );
                found.push(finding(Rule::ImageVariable, message));
            }
        }
        found.extend(order(&payload.manifests, manifest, &operator));
    }
    found
}

/// Problems of the versions that an operator is to report.
fn versions(expected: &ClusterOperator) -> impl Iterator<Item = String> {
    let all = expected.versions();
    let mut wrong = Vec::new();
    if all.is_empty() {
        wrong.push(
            "it has no status.versions: its completion cannot be determined, and the update fails"
                .to_owned(),
        );
    } else if !all.iter().any(|it| it.name == "operator") {
        wrong.push(
            "it does not report a version named operator, which every operator has to".to_owned(),
        );
    }
    let mut names = BTreeSet::new();
    for version in all {
        if !names.insert(version.name.as_str()) {
            wrong.push(format!(
                "{} is there more than once, of which an operator can only ever report the first",
                version.name
            ));
        }
        if version.version.is_empty() {
            wrong.push(format!("{} is empty", version.name));
        }
    }
    wrong.into_iter()
}

/// Whether any workload receives an image.
fn is_passed_to_workload(manifests: &[Manifest], image: &str) -> bool {
    let workloads = manifests
        .iter()
        // ConfigMaps too: the Machine Config Operator hands images to its operands in one.
        .filter(|it| WORKLOADS.contains(&it.kind()) || it.kind() == "ConfigMap");
    workloads.map(|it| &it.object).any(|it| has(it, image))
}

/// Whether an object contains an image.
fn has(value: &Value, image: &str) -> bool {
    match value {
        // Contained and not equal: flags have the form `--operator-image=IMAGE`.
        Value::String(text) => text.contains(image),
        Value::Array(items) => items.iter().any(|it| has(it, image)),
        Value::Object(fields) => fields.values().any(|it| has(it, image)),
        _ => false,
    }
}

/// Whether an operator is waited for before the workload that reports for it is applied: then the update blocks
/// forever.
fn order(manifests: &[Manifest], own: &Manifest, operator: &Operator) -> Option<Finding> {
    let component = FileName::read(&own.file)?.component;
    let late = manifests.iter().skip(operator.place + 1).find(|it| {
        it.kind() == "Deployment"
            && FileName::read(&it.file).is_some_and(|name| name.component == component)
    })?;
    let before = manifests.iter().take(operator.place).any(|it| {
        it.kind() == "Deployment"
            && FileName::read(&it.file).is_some_and(|name| name.component == component)
    });
    (!before).then(|| {
        let message = format!(
            "it is waited for before {} of {} is applied, which is to report for it; its name has to come after",
            late.called(),
            late.file
        );
        Finding::of(Rule::Order, &own.file, &operator.name, message)
    })
}
