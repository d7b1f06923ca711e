//! What an API server keeps instead of what was sent to it: pruned by the schema, changed by admission, or defaulted.
//!
//! A deviation is no drift: the response to our own write has it, so applying again would not change it. It is compared
//! in each dry run, so that a plan shows it before its approval, and in the response to the write.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::advisor::{Deviation, DeviationClass, Item, Operation};
use machinery::apply::values_equal;
use serde_json::Value;

use crate::mutators::Mutator;
use crate::plan;
use crate::served::ServedSchema;
use crate::snapshot::Kind;
use crate::values::{self, Difference, short};

/// Maximum number of deviations of one item: the defaults of a large CRD would fill the status.
const MAX_DEVIATIONS: usize = 32;

/// Number of deviations of a plan above which defaults are left out: the status has to fit into one object, and the
/// diff shows defaults anyway.
const MAX_WITH_DEFAULTS: usize = 500;

/// Leaves out the defaults of a plan that has too many deviations.
pub(crate) fn fit(items: &mut [Item]) {
    let all: usize = items.iter().map(|item| item.deviations.len()).sum();
    if all > MAX_WITH_DEFAULTS {
        for item in items {
            item.deviations
                .retain(|one| one.class != DeviationClass::Defaulted);
        }
    }
}

/// How the object that the server keeps differs from what an item requests. `live` is the object before the write.
///
/// A field that was not sent and is new counts as well, unless it is metadata or status: it is a default, or admission
/// added it.
pub fn deviations(
    item: &Item,
    live: Option<&Value>,
    kept: &Value,
    kind: Option<&Kind>,
) -> Vec<Deviation> {
    let Some(desired) = item
        .desired_state
        .as_ref()
        .filter(|_| item.operation == Operation::Apply)
    else {
        return Vec::new();
    };
    let wanted = plan::wanted_values(item);
    let lost = values::differences(&wanted, kept);
    let mut added = Vec::new();
    for (name, value) in kept.as_object().into_iter().flatten() {
        if !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()) {
            let before = live.and_then(|live| live.get(name));
            additions(name, value, desired.get(name), before, &mut added);
        }
    }
    if lost.is_empty() && added.is_empty() {
        return Vec::new();
    }
    // Only now: parsing the schema of a large CRD takes longer than everything above.
    let schema = ServedSchema::of(kind);
    let pruned = schema.pruned(&wanted);
    let class_of = |path: &str| {
        if schema.is_default(kept, path) {
            DeviationClass::Defaulted
        } else {
            DeviationClass::ChangedByAdmission
        }
    };
    let lost = lost.into_iter().map(|one| Deviation {
        class: if pruned.contains(&one.path) {
            DeviationClass::PrunedBySchema
        } else if one.wanted.as_ref().is_none_or(Value::is_null) {
            class_of(&one.path)
        } else {
            DeviationClass::ChangedByAdmission
        },
        path: one.path,
        wanted: one.wanted,
        kept: one.live,
        by: None,
    });
    let added = added.into_iter().map(|(path, value)| Deviation {
        class: class_of(&path),
        path,
        wanted: None,
        kept: Some(value),
        by: None,
    });
    let mut all: Vec<_> = lost.chain(added).collect();
    // What is lost first: it is what drift is compared with.
    all.truncate(MAX_DEVIATIONS);
    all
}

/// The fields of `kept` that neither the request nor the object before has with this value; an added object counts as
/// one field.
fn additions(
    path: &str,
    kept: &Value,
    sent: Option<&Value>,
    before: Option<&Value>,
    found: &mut Vec<(String, Value)>,
) {
    if before.is_some_and(|before| values_equal(before, kept)) {
        return;
    }
    match (kept, sent, before) {
        (Value::Object(kept), Some(Value::Object(_)), _)
        | (Value::Object(kept), None, Some(Value::Object(_))) => {
            for (key, value) in kept {
                let below = |object: Option<&'_ Value>| object.and_then(|it| it.get(key)).cloned();
                let path = format!("{path}.{key}");
                additions(
                    &path,
                    value,
                    below(sent).as_ref(),
                    below(before).as_ref(),
                    found,
                );
            }
        }
        // What was sent and differs is found by its managed path.
        (_, Some(_), _) => {}
        (_, None, _) => found.push((path.to_owned(), kept.clone())),
    }
}

/// Names what may have changed the fields: the registered mutators of the target, if there are any.
pub fn attribute(deviations: &mut [Deviation], mutators: &[Mutator]) {
    let names: Vec<&str> = mutators.iter().map(|one| one.name.as_str()).collect();
    if names.is_empty() {
        return;
    }
    for deviation in deviations.iter_mut().filter(|one| is_by_admission(one)) {
        deviation.by = Some(names.join(" or "));
    }
}

/// Whether admission changed a field.
pub fn is_by_admission(deviation: &Deviation) -> bool {
    deviation.class == DeviationClass::ChangedByAdmission
}

/// The differences between desired and live values that are no deviation: what applying again would change.
pub(crate) fn unexplained(
    wanted: &BTreeMap<String, Value>,
    live: &Value,
    deviations: &[Deviation],
) -> Vec<Difference> {
    let mut differences = values::differences(wanted, live);
    differences.retain(|difference| !deviations.iter().any(|one| explains(one, difference)));
    differences
}

fn explains(deviation: &Deviation, difference: &Difference) -> bool {
    deviation.path == difference.path
        && same(deviation.wanted.as_ref(), difference.wanted.as_ref())
        && same(deviation.kept.as_ref(), difference.live.as_ref())
}

/// Whether two values are the same; a null is read back from a status as absent.
fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let present = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    match (&present(one), &present(other)) {
        (Some(one), Some(other)) => values_equal(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// The deviations that change what was sent: those by which a target in force differs from the desired state.
pub(crate) fn losses(deviations: &[Deviation]) -> Vec<Deviation> {
    let mut losses = deviations.to_vec();
    losses.retain(|one| one.wanted.is_some());
    losses
}

/// A deviation as a line of text, without the item.
pub fn describe(deviation: &Deviation) -> String {
    let Deviation {
        path,
        class,
        wanted,
        kept,
        by,
    } = deviation;
    let by = by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
    let (wanted_text, kept_text) = (short(wanted.as_ref()), short(kept.as_ref()));
    match class {
        DeviationClass::PrunedBySchema if kept.is_none() => {
            format!("{path} is {wanted_text}: pruned by the schema")
        }
        DeviationClass::PrunedBySchema => {
            format!("{path} is {wanted_text}: pruned by the schema to {kept_text}")
        }
        DeviationClass::ChangedByAdmission if wanted.is_none() => {
            format!("{path} is not set: set to {kept_text} by admission{by}")
        }
        DeviationClass::ChangedByAdmission => {
            format!("{path} is {wanted_text}: changed by admission{by} to {kept_text}")
        }
        DeviationClass::Defaulted => format!("{path} is not set: defaulted to {kept_text}"),
    }
}
