//! Differences between traces, field by field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::line;
use super::normal::is_condition;
use super::trace::Trace;

/// One difference: where, what the recording has, and what the other trace has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) step: String,
    /// The object; empty for the order.
    pub(super) object: String,
    /// The field; empty for the object as a whole.
    pub(super) field: String,
    pub(super) text: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            step,
            object,
            field,
            text,
        } = self;
        write!(f, "step {step:?}: {object} {field}: {text}")
    }
}

/// The fields without fields below them, by path. Items of lists are named by their `type` or `name`, if they have one:
/// whether a list is a map is a matter of the CRD.
pub(super) fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    collect(String::new(), value, &mut all);
    all
}

fn collect(path: String, value: &Value, all: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let separator = if path.is_empty() { "" } else { "." };
                collect(format!("{path}{separator}{name}"), value, all);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                let name = match item["name"].as_str() {
                    _ if is_condition(item) => format!("type={}", line(&item["type"])),
                    Some(name) => format!("name={name:?}"),
                    None => index.to_string(),
                };
                collect(format!("{path}[{name}]"), item, all);
            }
        }
        _ => {
            all.insert(path, value.clone());
        }
    }
}

/// What differs between a recording and another trace of the same story.
pub(super) fn differences(recorded: &Trace, other: &Trace) -> Vec<Difference> {
    let mut found = Vec::new();
    let names = |trace: &Trace| -> Vec<String> {
        trace.steps.iter().map(|step| step.step.clone()).collect()
    };
    if names(recorded) != names(other) {
        found.push(Difference {
            step: String::new(),
            object: String::new(),
            field: String::new(),
            text: format!(
                "recorded are {:?}, played {:?}",
                names(recorded),
                names(other)
            ),
        });
        return found;
    }
    // A step has what has changed: compared is what there is.
    let (mut theirs, mut ours) = (BTreeMap::new(), BTreeMap::new());
    for (recorded, other) in recorded.steps.iter().zip(&other.steps) {
        for (all, step) in [(&mut theirs, recorded), (&mut ours, other)] {
            for (object, value) in &step.objects {
                all.insert(object.clone(), value.clone());
            }
            all.retain(|object, _| !step.deleted.contains(object));
        }
        let mut in_step = |object: &str, field: &str, text: String| {
            found.push(Difference {
                step: recorded.step.clone(),
                object: object.to_owned(),
                field: field.to_owned(),
                text,
            });
        };
        of_objects(&theirs, &ours, &mut in_step);
        let all: BTreeSet<&String> = recorded
            .sequences
            .keys()
            .chain(other.sequences.keys())
            .collect();
        for at in all {
            let (theirs, ours) = (recorded.sequences.get(at), other.sequences.get(at));
            if theirs != ours {
                let (object, field) = at.rsplit_once(' ').unwrap_or((at, ""));
                in_step(
                    object,
                    field,
                    format!(
                        "one after the other: {} recorded, {} written",
                        line(&json!(theirs)),
                        line(&json!(ours))
                    ),
                );
            }
        }
    }
    found
}

type Objects = BTreeMap<String, Value>;

fn of_objects(theirs: &Objects, ours: &Objects, add: &mut impl FnMut(&str, &str, String)) {
    let all: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    for object in all {
        let (theirs, ours) = match (theirs.get(object), ours.get(object)) {
            (Some(theirs), Some(ours)) => (leaves(theirs), leaves(ours)),
            (Some(_), None) => {
                add(object, "", "recorded, not written".to_owned());
                continue;
            }
            (None, Some(ours)) => {
                add(object, "", format!("written, not recorded: {}", line(ours)));
                continue;
            }
            (None, None) => continue,
        };
        let fields: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
        for field in fields {
            let text = match (theirs.get(field), ours.get(field)) {
                (Some(theirs), Some(ours)) if theirs == ours => continue,
                (Some(theirs), Some(ours)) => {
                    format!("{} recorded, {} written", line(theirs), line(ours))
                }
                (Some(theirs), None) => format!("{} recorded, not written", line(theirs)),
                (None, Some(ours)) => format!("{} written, not recorded", line(ours)),
                (None, None) => continue,
            };
            add(object, field, text);
        }
    }
}
