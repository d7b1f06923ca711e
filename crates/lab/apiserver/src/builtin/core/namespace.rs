//! Namespaces (`ValidateNamespace`).

use machinery::field::{FieldError, Path};
use machinery::names::name_is_dns_label;
use serde_json::{Value, json};

use crate::builtin::check;
use crate::builtin::entry::Capability::{DeleteReturnsObject, Status};
use crate::builtin::entry::Cell::Text;
use crate::builtin::entry::{AGE, Entry, Errors, NAME, column, selectable_text};
use crate::builtin::value::{Read, fill_empty, keep, object_at, set};
use crate::kind::{Part, WriteContext};

/// The kind.
pub(crate) const ENTRY: Entry = Entry {
    short_names: &["ns"],
    namespaced: false,
    capabilities: &[Status, DeleteReturnsObject],
    default,
    prepare_create,
    prepare_update,
    validate,
    validate_update,
    name: name_is_dns_label,
    selectable: &[selectable_text!("status.phase")],
    columns: &[
        NAME,
        column!("Status" string Text("status.phase")
            => "Whether the namespace is active or terminating"),
        AGE,
    ],
    ..Entry::new("", "v1", "Namespace", "namespaces")
};

/// The label that names the namespace, which selectors rely on.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn default(namespace: &mut Value) {
    let name = namespace.name().to_owned();
    if !name.is_empty()
        && let Some(labels) = object_at(namespace, "metadata.labels")
    {
        // Overwrites a value of the client: webhooks and policies exempt system namespaces by this
        // label.
        labels.insert(NAME_LABEL.to_owned(), name.into());
    }
    fill_empty(namespace, "status.phase", "Active");
}

fn prepare_create(namespace: &mut Value, _: WriteContext<'_>) {
    set(namespace, "status", json!({ "phase": "Active" }));
    let mut finalizers = namespace.items("spec.finalizers").to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        // Content is deleted by the namespace controller before it removes this finalizer; without
        // it a namespace would disappear from under its objects.
        finalizers.push("kubernetes".into());
    }
    set(namespace, "spec.finalizers", finalizers);
}

fn prepare_update(new: &mut Value, old: &Value, part: Part<'_>, _: WriteContext<'_>) {
    match part {
        Part::Main => {
            // Finalizers change through `/finalize` only, so that a client which PUTs what it has
            // read cannot remove one that was added since.
            keep(new, old, "spec.finalizers");
            keep(new, old, "status");
        }
        Part::Status => keep(new, old, "spec"),
        Part::Other(_) => keep(new, old, "status"),
    }
}

fn validate(namespace: &Value) -> Errors {
    let path = Path::new("spec.finalizers");
    namespace
        .texts("spec.finalizers")
        .iter()
        .flat_map(|finalizer| check_finalizer(&path, finalizer))
        .collect()
}

fn check_finalizer(path: &Path, finalizer: &str) -> Errors {
    let mut errors = check::qualified(path, finalizer);
    let standard = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
    if !finalizer.contains('/') && !standard {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(path, finalizer, detail);
    }
    errors
}

fn validate_update(new: &Value, _: &Value, part: Part<'_>) -> Errors {
    match part {
        Part::Status => {
            let phase = new.text("status.phase");
            let path = Path::new("status.Phase");
            let detail = if new.has("metadata.deletionTimestamp") {
                "may only be 'Terminating' if `deletionTimestamp` is not empty"
            } else {
                "may only be 'Active' if `deletionTimestamp` is empty"
            };
            let expected = if new.has("metadata.deletionTimestamp") {
                "Terminating"
            } else {
                "Active"
            };
            if phase == expected {
                Errors::new()
            } else {
                FieldError::invalid(&path, phase, detail).into()
            }
        }
        Part::Other("finalize") => {
            let path = Path::new("spec.finalizers");
            let finalizers = new.texts("spec.finalizers");
            let each = finalizers.iter().enumerate();
            each.flat_map(|(i, finalizer)| check_finalizer(&path.index(i), finalizer))
                .collect()
        }
        _ => Errors::new(),
    }
}
