//! Pod templates as objects of their own.

use machinery::field::Path;

use crate::builtin::entry::{Capabilities, Entry, NAME, column, on_update};
use crate::builtin::pod_spec::{defaults, validate, warnings};
use crate::builtin::print;
use crate::builtin::value::Read;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    capabilities: Capabilities {
        generation: true,
        delete_returns_object: true,
        ..Capabilities::NONE
    },
    default: |template| defaults::template(template, "template"),
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |template| validate::check_template(&Path::new("template"), template.at("template")),
    validate_update: on_update!(|template: &serde_json::Value| {
        validate::check_template(&Path::new("template"), template.at("template"))
    }),
    warnings: |new, _| warnings::about(&Path::new("template"), new.at("template")),
    columns: &[
        NAME,
        column("Containers", "string", "Names of the containers"),
        column("Images", "string", "Images of the containers"),
        column("Pod Labels", "string", "Labels pods get"),
    ],
    cells: |template, _| {
        let [names, images] = print::containers(template.items("template.spec.containers"));
        let labels = print::label_set(template.at("template.metadata.labels"));
        vec![template.name().into(), names, images, labels]
    },
    ..Entry::new("", "v1", "PodTemplate", "podtemplates", "podtemplate")
};
