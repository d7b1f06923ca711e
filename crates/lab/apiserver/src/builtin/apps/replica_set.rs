//! Replica sets (`ValidateReplicaSet`).

use machinery::field::Path;
use serde_json::{Value, json};

use crate::builtin::apps::{self, SELECTOR, replicas};
use crate::builtin::check;
use crate::builtin::entry::Capability::{Generation, Scale, Status};
use crate::builtin::entry::{Entry, Errors};
use crate::builtin::pod_spec::defaults;
use crate::builtin::value::{Read, fill, set};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["rs"],
    categories: &["all"],
    capabilities: &[Generation, Status, Scale],
    default: |object| {
        fill(object, "spec.replicas", 1);
        fill(object, "spec.template", json!({}));
        defaults::template(object, "spec.template");
    },
    prepare_create: |object, _| set(object, "status", json!({ "replicas": 0 })),
    validate,
    validate_update: |new, old, part| {
        if part == Part::Status {
            replicas::check_status(new)
        } else {
            let mut errors = validate(new);
            errors += check::unchanged(new, old, "spec.selector");
            errors
        }
    },
    warnings: apps::template_warnings,
    selectable: &[("status.replicas", |object| {
        object.number("status.replicas").to_string()
    })],
    columns: &replicas::columns(SELECTOR),
    ..Entry::new("apps", "v1", "ReplicaSet", "replicasets")
};

fn validate(object: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = object.at("spec");
    let mut errors = check::counts(&path, spec, "replicas minReadySeconds");
    errors += apps::check_selector_and_template(&path, spec);
    errors
}
