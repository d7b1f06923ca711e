//! Pod templates as objects of their own.

use machinery::field::Path;

use crate::builtin::entry::Capability::{DeleteReturnsObject, Generation};
use crate::builtin::entry::Cell::Of;
use crate::builtin::entry::{Entry, NAME, column, on_update};
use crate::builtin::pod_spec::{defaults, validate, warnings};
use crate::builtin::print;
use crate::builtin::value::Read;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    capabilities: &[Generation, DeleteReturnsObject],
    default: |template| defaults::template(template, "template"),
    validate: |template| validate::check_template(&Path::new("template"), template.at("template")),
    validate_update: on_update!(|template: &serde_json::Value| {
        validate::check_template(&Path::new("template"), template.at("template"))
    }),
    warnings: |new, _| warnings::about(&Path::new("template"), new.at("template")),
    columns: &[
        NAME,
        column!("Containers" string
            Of(|template| print::joined(template.items("template.spec.containers"), "name"))
            => "Names of the containers"),
        column!("Images" string
            Of(|template| print::joined(template.items("template.spec.containers"), "image"))
            => "Images of the containers"),
        column!("Pod Labels" string
            Of(|template| print::label_set(template.at("template.metadata.labels")))
            => "Labels pods get"),
    ],
    ..Entry::new("", "v1", "PodTemplate", "podtemplates")
};
