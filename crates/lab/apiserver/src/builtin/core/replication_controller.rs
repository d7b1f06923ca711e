//! Replication controllers, the predecessors of replica sets.

use machinery::field::Path;
use serde_json::{Value, json};

use crate::builtin::apps::{self, SELECTOR, replicas};
use crate::builtin::check;
use crate::builtin::entry::Capability::{Generation, Scale, Status};
use crate::builtin::entry::Cell::Of;
use crate::builtin::entry::{Column, Entry, Errors};
use crate::builtin::labels;
use crate::builtin::pod_spec::{defaults, validate, warnings};
use crate::builtin::print;
use crate::builtin::value::{Read, fill, set};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["rc"],
    categories: &["all"],
    capabilities: &[Generation, Status, Scale],
    default,
    prepare_create: |object, _| set(object, "status", json!({ "replicas": 0 })),
    validate,
    validate_update: |new, _, part| match part {
        Part::Status => replicas::check_status(new),
        _ => validate(new),
    },
    warnings: |new, old| {
        let mut all = Vec::new();
        if old.is_none() {
            all = warnings::about_name(new.name(), apps::POD_NAMES);
        }
        all.extend(warnings::about(
            &Path::new("spec.template"),
            new.at("spec.template"),
        ));
        all
    },
    selectable: &[("status.replicas", |object| {
        object.number("status.replicas").to_string()
    })],
    columns: &replicas::columns(Column {
        cell: Of(|object| print::label_set(object.at("spec.selector"))),
        ..SELECTOR
    }),
    ..Entry::new("", "v1", "ReplicationController", "replicationcontrollers")
};

fn default(object: &mut Value) {
    let labels = object.at("spec.template.metadata.labels").clone();
    if labels.is_object() {
        if object.count("spec.selector") == 0 {
            set(object, "spec.selector", labels.clone());
        }
        if object.count("metadata.labels") == 0 {
            set(object, "metadata.labels", labels);
        }
    }
    fill(object, "spec.replicas", 1);
    defaults::template(object, "spec.template");
}

fn validate(object: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = object.at("spec");
    let mut errors = check::counts(&path, spec, "minReadySeconds");
    if spec.count("selector") == 0 {
        errors.required(&path.child("selector"), "");
    }
    errors += check::counts(&path, spec, "replicas");
    let path = path.child("template");
    let template = spec.at("template");
    if template.is_null() {
        errors.required(&path, "");
        return errors;
    }
    let selector = json!({ "matchLabels": spec.at("selector") });
    let own = template.at("metadata.labels");
    if spec.count("selector") > 0 && !labels::matches(&selector, own) {
        errors.push(apps::selector_mismatch(&path, own));
    }
    errors += validate::check_template(&path, template);
    errors += apps::check_always_restarts(&path, template, "ReplicationController");
    errors
}
