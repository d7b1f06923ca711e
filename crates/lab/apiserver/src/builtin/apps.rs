//! The `apps` group, and rules shared by all kinds with pod templates.

pub(crate) mod controller_revision;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod replica_set;
pub(crate) mod replicas;
pub(crate) mod stateful_set;
#[cfg(test)]
mod tests;

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::Cell::Of;
use crate::builtin::entry::{Column, Entry, Errors, column, content_changed};
use crate::builtin::pod_spec::{validate, warnings};
use crate::builtin::value::Read;
use crate::builtin::{check, labels, print};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[
    controller_revision::ENTRY,
    daemon_set::ENTRY,
    deployment::ENTRY,
    replica_set::ENTRY,
    stateful_set::ENTRY,
];

/// Ready pods of a workload.
pub(crate) const READY: Column = column!("Ready" string Of(|object| {
    let ready = object.number("status.readyReplicas");
    format!("{ready}/{}", object.number("spec.replicas")).into()
}) => "Pods that are ready, out of those there should be");

/// Names of the containers of a template.
pub(crate) const CONTAINERS: Column = column!("Containers" wide
    Of(|object| print::joined(containers(object), "name")) => "Names of the containers");

/// Images of the containers of a template.
pub(crate) const IMAGES: Column = column!("Images" wide
    Of(|object| print::joined(containers(object), "image")) => "Images of the containers");

/// The selector of a workload.
pub(crate) const SELECTOR: Column = column!("Selector" wide
    Of(|object| print::selector(object.at("spec.selector"))) => "Which pods belong to it");

fn containers(object: &Value) -> &[Value] {
    object.items("spec.template.spec.containers")
}

/// Where the name of a workload is used.
pub(crate) const POD_NAMES: &str = "Pod names and hostnames";

/// The error for a template whose labels the selector does not match.
pub(crate) fn selector_mismatch(template: &Path, own: &Value) -> FieldError {
    FieldError::invalid(
        &template.child("metadata").child("labels"),
        own.clone(),
        "`selector` does not match template `labels`",
    )
}

/// Pods of these workloads have to restart always.
pub(crate) fn check_always_restarts(path: &Path, template: &Value, owner: &str) -> Errors {
    let mut errors = Errors::new();
    let path = path.child("spec");
    let policy = template.text("spec.restartPolicy");
    if policy != "Always" {
        errors.not_supported(&path.child("restartPolicy"), policy, ["Always"]);
    }
    if template.has("spec.activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        errors.forbidden(&path.child("activeDeadlineSeconds"), detail);
    }
    errors
}

/// Selector and template of deployments and replica sets.
pub(crate) fn check_selector_and_template(path: &Path, spec: &Value) -> Errors {
    let mut errors = check_selector(&path.child("selector"), spec.at("selector"), "deployment");
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    if !labels::is_readable(selector) {
        let path = path.child("selector");
        errors.invalid(&path, selector.clone(), "invalid label selector");
        return errors;
    }
    let path = path.child("template");
    let own = template.at("metadata.labels");
    // An absent selector matches nothing; only an empty one is not compared with the labels.
    let selects = selector.is_null() || !labels::is_empty(selector);
    if selects && !labels::matches(selector, own) {
        errors.push(selector_mismatch(&path, own));
    }
    errors += validate::check_template(&path, template);
    errors += check_always_restarts(&path, template, "ReplicaSet");
    errors
}

/// A selector that is required and must not be empty.
pub(crate) fn check_selector(path: &Path, selector: &Value, owner: &str) -> Errors {
    if selector.is_null() {
        return FieldError::required(path, "").into();
    }
    let mut errors = labels::check_selector(path, selector);
    if labels::is_empty(selector) {
        let detail = format!("empty selector is invalid for {owner}");
        errors.invalid(path, selector.clone(), detail);
    }
    errors
}

/// Warnings about the template, and about the name when the object is new.
pub(crate) fn template_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let path = Path::new("spec.template");
    match old {
        None => {
            let mut all = warnings::about_name(new.name(), POD_NAMES);
            all.extend(warnings::about(&path, new.at("spec.template")));
            all
        }
        Some(old) if content_changed(new, old) => warnings::about(&path, new.at("spec.template")),
        Some(_) => Vec::new(),
    }
}

/// Counters in a status, separated by spaces: none negative.
pub(crate) fn check_counters(status: &Value, fields: &str) -> Errors {
    check::counts(&Path::new("status"), status, fields)
}

/// Counters in a status that are part of another, which the message names as `most`.
pub(crate) fn check_at_most(status: &Value, fields: &str, most: &str) -> Errors {
    let limit = status.number(most.trim_start_matches("status."));
    let mut errors = Errors::new();
    for field in fields.split_whitespace() {
        let count = status.number(field);
        if count > limit {
            let detail = format!("cannot be greater than {most}");
            errors.invalid(&Path::new("status").child(field), count, detail);
        }
    }
    errors
}

/// The count of hash collisions only grows.
pub(crate) fn check_collisions(new: &Value, old: &Value) -> Errors {
    let count = new.number("status.collisionCount");
    if old.has("status.collisionCount") && count < old.number("status.collisionCount") {
        let path = Path::new("status.collisionCount");
        FieldError::invalid(&path, count, "cannot be decremented").into()
    } else {
        Errors::new()
    }
}
