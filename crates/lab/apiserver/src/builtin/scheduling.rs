//! The `scheduling.k8s.io` group (rules: `pkg/apis/scheduling/validation`).

use machinery::field::Path;
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Capability::Generation;
use crate::builtin::entry::Cell::{Flag, Number, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[PRIORITY_CLASS];

const PRIORITY_CLASS: Entry = Entry {
    short_names: &["pc"],
    namespaced: false,
    capabilities: &[Generation],
    default: |class| {
        fill(class, "value", 0);
        fill(class, "preemptionPolicy", "PreemptLowerPriority");
    },
    // No permitted change starts a new generation.
    new_generation: |_, _| false,
    validate,
    validate_update: |new, old, _| {
        let mut errors = Errors::new();
        // The number is copied into pods when they are created; a changed class would leave pods of
        // one class with different priorities.
        if new.number("value") != old.number("value") {
            errors.forbidden(&Path::new("value"), "may not be changed in an update.");
        }
        errors += check::unchanged(new, old, "preemptionPolicy");
        errors
    },
    columns: COLUMNS,
    ..Entry::new(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
    )
};

const COLUMNS: &[Column] = &[
    NAME,
    column!("Value" integer Number("value") => "The priority pods get"),
    column!("Global-Default" boolean Flag("globalDefault")
        => "Whether pods without a class get this one"),
    AGE,
    column!("PreemptionPolicy" string Text("preemptionPolicy")
        => "Whether pods may preempt others"),
];

/// The highest priority of user-defined classes; higher ones are reserved for the system.
pub(crate) const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

/// System priority classes and their values.
const SYSTEM_CLASSES: &[(&str, i64)] = &[
    ("system-cluster-critical", 2 * HIGHEST_USER_PRIORITY),
    ("system-node-critical", 2 * HIGHEST_USER_PRIORITY + 1000),
];

fn validate(class: &Value) -> Errors {
    let mut errors = Errors::new();
    let (name, value) = (class.name(), class.number("value"));
    if name.starts_with("system-") {
        let why = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, expected)) if *expected != value => {
                Some(format!("value of {name} PriorityClass must be {expected}"))
            }
            Some(_) if class.is_true("globalDefault") => Some(format!(
                "globalDefault of {name} PriorityClass must be false"
            )),
            Some(_) => None,
        };
        if let Some(why) = why {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {why}"
            );
            errors.forbidden(&Path::new("metadata.name"), detail);
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let detail =
            format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errors.forbidden(&Path::new("value"), detail);
    }
    let form = check::preemption_policy;
    errors += check::absent_or(&Path::root(), class, "preemptionPolicy", form);
    errors
}
