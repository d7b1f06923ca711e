//! Controller revisions.

use machinery::field::{FieldError, Path};
use machinery::gvk::split_api_version;
use serde_json::{Value, json};

use crate::builtin::entry::{AGE, Entry, Errors, NAME, column};
use crate::builtin::value::Read;
use crate::builtin::{check, print};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |revision| {
        let mut errors = check_number(revision);
        let path = Path::new("data");
        match revision.at("data") {
            Value::Null => errors.push(FieldError::required(&path, "data is mandatory")),
            Value::Object(_) => {}
            _ => errors.push(FieldError::required(
                &path,
                "data must be a valid JSON object",
            )),
        }
        errors
    },
    validate_update: |new, old, _| {
        let mut errors = check_number(new);
        if new.at("data") != old.at("data") {
            errors.push(FieldError::invalid(
                &Path::new("data"),
                new.at("data").clone(),
                check::IMMUTABLE,
            ));
        }
        errors
    },
    columns: &[
        NAME,
        column("Controller", "string", "What the revision is of"),
        column("Revision", "string", "Number of the revision"),
        AGE,
    ],
    cells: |revision, now| {
        vec![
            revision.name().into(),
            print::or(&controller(revision), "<none>"),
            json!(revision.number("revision")),
            print::age(revision, now),
        ]
    },
    ..Entry::new(
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        "controllerrevision",
    )
};

fn check_number(revision: &Value) -> Errors {
    check::not_negative(&Path::new("revision"), revision.int("revision"))
}

fn controller(revision: &Value) -> String {
    let owners = revision.items("metadata.ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner.is_true("controller")) else {
        return String::new();
    };
    let group = split_api_version(owner.text("apiVersion")).map(|(group, _)| group);
    let kind = owner.text("kind").to_lowercase();
    let kind = machinery::gvk::qualify(&kind, group.unwrap_or_default());
    format!("{kind}/{}", owner.text("name"))
}
