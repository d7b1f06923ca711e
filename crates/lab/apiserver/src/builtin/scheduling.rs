//! The `scheduling.k8s.io` group.

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill};
use crate::builtin::{check, print};

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[PRIORITY_CLASS];

const PRIORITY_CLASS: Entry = Entry {
    short_names: &["pc"],
    namespaced: false,
    capabilities: Capabilities {
        generation: true,
        ..Capabilities::NONE
    },
    default: |class| {
        fill(class, "value", 0);
        fill(class, "preemptionPolicy", "PreemptLowerPriority");
    },
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    // No permitted change starts a new generation.
    new_generation: |_, _| false,
    validate,
    validate_update: |new, old, _| {
        let mut errors = Errors::new();
        if new.number("value") != old.number("value") {
            let detail = "may not be changed in an update.";
            errors.push(FieldError::forbidden(&Path::new("value"), detail));
        }
        let path = Path::new("preemptionPolicy");
        let (policy, was) = (new.at("preemptionPolicy"), old.at("preemptionPolicy"));
        errors.extend(check::immutable(&path, policy, was));
        errors
    },
    columns: COLUMNS,
    cells: |class, now| {
        vec![
            class.name().into(),
            json!(class.number("value")),
            json!(class.is_true("globalDefault")),
            print::age(class, now),
            class.text("preemptionPolicy").into(),
        ]
    },
    ..Entry::new(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        "priorityclass",
    )
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Value", "integer", "The priority pods get"),
    column(
        "Global-Default",
        "boolean",
        "Whether pods without a class get this one",
    ),
    AGE,
    column(
        "PreemptionPolicy",
        "string",
        "Whether pods may push others away",
    ),
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
            errors.push(FieldError::forbidden(&check::path("metadata.name"), detail));
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let detail =
            format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errors.push(FieldError::forbidden(&Path::new("value"), detail));
    }
    if let Some(policy) = class.maybe_text("preemptionPolicy") {
        errors.extend(check::one_of(
            &Path::new("preemptionPolicy"),
            policy,
            &["PreemptLowerPriority", "Never"],
        ));
    }
    errors
}
