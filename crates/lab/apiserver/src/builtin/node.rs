//! The `node.k8s.io` group (rules: `pkg/apis/node/validation`).

use machinery::field::Path;
use serde_json::Value;

use crate::builtin::entry::Capability::{ConditionalUpdate, CreateOnUpdate};
use crate::builtin::entry::Cell::Text;
use crate::builtin::entry::{AGE, Entry, Errors, NAME, column};
use crate::builtin::pod_spec::{scheduling, validate};
use crate::builtin::value::{Read, existing};
use crate::builtin::{check, labels, layout, resources};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[RUNTIME_CLASS];

const RUNTIME_CLASS: Entry = Entry {
    namespaced: false,
    capabilities: &[CreateOnUpdate, ConditionalUpdate],
    default: |class| {
        resources::round_up(existing(class, "overhead.podFixed").and_then(Value::as_object_mut));
    },
    validate: check_class,
    validate_update: |new, old, _| check::unchanged(new, old, "handler"),
    columns: &[
        NAME,
        column!("Handler" string Text("handler") => "The runtime that is used"),
        AGE,
    ],
    ..Entry::new("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")
};

fn check_class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    match class.text("handler") {
        "" => errors.required(&Path::new("handler"), ""),
        handler => errors += check::label(&Path::new("handler"), handler),
    }
    if class.has("overhead") {
        errors += validate::check_overhead(&Path::new("overhead"), class.at("overhead.podFixed"));
    }
    let path = Path::new("scheduling");
    let selector = class.at("scheduling.nodeSelector");
    errors += labels::check(&path.child("nodeSelector"), selector);
    let path = path.child("tolerations");
    let tolerations = class.items("scheduling.tolerations");
    errors += scheduling::check_tolerations(&path, tolerations);
    let mut seen = Vec::new();
    for (i, toleration) in tolerations.iter().enumerate() {
        let key = ["key", "operator", "value", "effect"].map(|field| toleration.text(field));
        if seen.contains(&key) {
            errors.push(layout::duplicate(&path.index(i), "Toleration", toleration));
        } else {
            seen.push(key);
        }
    }
    errors
}
