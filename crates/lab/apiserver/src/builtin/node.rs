//! The `node.k8s.io` group.

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::{AGE, Capabilities, Entry, Errors, NAME, column};
use crate::builtin::pod_spec::{scheduling, validate};
use crate::builtin::value::{Read, existing};
use crate::builtin::{check, labels, layout, print, resources};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[RUNTIME_CLASS];

const RUNTIME_CLASS: Entry = Entry {
    namespaced: false,
    capabilities: Capabilities {
        create_on_update: true,
        conditional_update: true,
        ..Capabilities::NONE
    },
    default: |class| {
        resources::round_up(existing(class, "overhead.podFixed").and_then(Value::as_object_mut));
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: check_class,
    validate_update: |new, old, _| {
        check::immutable(&Path::new("handler"), new.at("handler"), old.at("handler"))
    },
    columns: &[
        NAME,
        column("Handler", "string", "The runtime that is used"),
        AGE,
    ],
    cells: |class, now| {
        vec![
            class.name().into(),
            class.text("handler").into(),
            print::age(class, now),
        ]
    },
    ..Entry::new(
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        "runtimeclasses",
        "runtimeclass",
    )
};

fn check_class(class: &Value) -> Errors {
    let mut errors = Errors::new();
    match class.text("handler") {
        "" => errors.push(FieldError::required(&Path::new("handler"), "")),
        handler => errors.extend(check::label(&Path::new("handler"), handler)),
    }
    if class.has("overhead") {
        let path = Path::new("overhead");
        errors.extend(validate::check_overhead(
            &path,
            class.at("overhead.podFixed"),
        ));
    }
    let path = Path::new("scheduling");
    let selector = class.at("scheduling.nodeSelector");
    errors.extend(labels::check(&path.child("nodeSelector"), selector));
    let path = path.child("tolerations");
    let tolerations = class.items("scheduling.tolerations");
    errors.extend(scheduling::check_tolerations(&path, tolerations));
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
