//! Replica sets.

use machinery::field::Path;
use serde_json::{Value, json};

use crate::builtin::apps::{self, replicas};
use crate::builtin::entry::{Capabilities, Entry, Errors};
use crate::builtin::pod_spec::defaults;
use crate::builtin::value::{Read, fill, set};
use crate::builtin::{check, print};
use crate::kind::Part;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["rs"],
    categories: &["all"],
    capabilities: Capabilities {
        generation: true,
        status: true,
        scale: true,
        ..Capabilities::NONE
    },
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
            let (selector, was) = (new.at("spec.selector"), old.at("spec.selector"));
            errors.extend(check::immutable(
                &check::path("spec.selector"),
                selector,
                was,
            ));
            errors
        }
    },
    warnings: apps::template_warnings,
    selectable: &[("status.replicas", |object| {
        object.number("status.replicas").to_string()
    })],
    columns: replicas::COLUMNS,
    cells: |object, now| {
        let [names, images] = print::containers(object.items("spec.template.spec.containers"));
        let mut cells = replicas::counts(object, now);
        cells.extend([names, images, print::selector(object.at("spec.selector"))]);
        cells
    },
    ..Entry::new("apps", "v1", "ReplicaSet", "replicasets", "replicaset")
};

fn validate(object: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = object.at("spec");
    let mut errors = check::not_negative(&path.child("replicas"), spec.int("replicas"));
    errors.extend(check::not_negative(
        &path.child("minReadySeconds"),
        spec.int("minReadySeconds"),
    ));
    errors.extend(apps::check_selector_and_template(&path, spec));
    errors
}
