//! Controller revisions (`ValidateControllerRevision`).

use machinery::field::Path;
use machinery::gvk::split_api_version;
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Cell::{Number, Of};
use crate::builtin::entry::{AGE, Entry, Errors, NAME, column};
use crate::builtin::value::Read;

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    validate: |revision| {
        let mut errors = check_number(revision);
        let path = Path::new("data");
        match revision.at("data") {
            Value::Null => errors.required(&path, "data is mandatory"),
            Value::Object(_) => {}
            _ => errors.required(&path, "data must be a valid JSON object"),
        }
        errors
    },
    validate_update: |new, old, _| {
        let mut errors = check_number(new);
        if new.at("data") != old.at("data") {
            errors.invalid(&Path::new("data"), new.at("data").clone(), check::IMMUTABLE);
        }
        errors
    },
    columns: &[
        NAME,
        column!("Controller" string Of(controller) => "What the revision is of"),
        column!("Revision" string Number("revision") => "Number of the revision"),
        AGE,
    ],
    ..Entry::new("apps", "v1", "ControllerRevision", "controllerrevisions")
};

fn check_number(revision: &Value) -> Errors {
    check::counts(&Path::root(), revision, "revision")
}

fn controller(revision: &Value) -> Value {
    let owners = revision.items("metadata.ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner.is_true("controller")) else {
        return "<none>".into();
    };
    let group = split_api_version(owner.text("apiVersion")).map(|(group, _)| group);
    let kind = owner.text("kind").to_lowercase();
    let kind = machinery::gvk::qualify(&kind, group.unwrap_or_default());
    format!("{kind}/{}", owner.text("name")).into()
}
