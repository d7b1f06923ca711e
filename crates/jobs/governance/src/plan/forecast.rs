//! The diff of an item in force, computed without a dry run: what applying it now would change.
//!
//! A dry run for every event of a thousand targets would load the API server, and a status that is written before the
//! dry run would show the drift without its diff. The result differs from that of a dry run only in what admission does
//! to other fields than before.

use api::advisor::{Deviation, Item, Operation};
use kube_core::DynamicObject;
use serde_json::Value;

use super::wanted_values;
use crate::served::{self, ServedSchema};
use crate::snapshot::{Kind, part_with, whole};
use crate::{deviation, diff};

/// The diff between the live target of an applied item and its desired state, without the deviations of the last
/// write. `None` for items that restore or delete: they are not watched.
pub(crate) fn diff_now(
    item: &Item,
    live: Option<&DynamicObject>,
    deviations: &[Deviation],
    kind: Option<&Kind>,
) -> Option<String> {
    let desired = item
        .desired_state
        .as_ref()
        .filter(|_| item.operation == Operation::Apply)?;
    let target = &item.target_ref;
    if let Some(live) = live {
        let wanted = wanted_values(item);
        let part = part_with(live, wanted.keys());
        if deviation::unexplained(&wanted, &part, deviations).is_empty() {
            return Some(diff::unchanged(&target.name, &target.kind));
        }
    }
    let live = live.map(whole);
    let mut result = live.clone().unwrap_or_default();
    lay_over(&mut result, desired);
    ServedSchema::of(kind).decode(&mut result);
    for one in deviations {
        let is_wanted = crate::values::at(&result, &one.path).ok().flatten() == one.wanted.as_ref();
        match &one.kept {
            _ if !is_wanted => {}
            Some(kept) => served::put(&mut result, &one.path, kept.clone()),
            None => {
                let steps: Vec<&str> = crate::values::segments(&one.path).collect();
                served::remove(&mut result, &steps);
            }
        }
    }
    Some(diff::unified(
        live.as_ref(),
        Some(&result),
        &target.name,
        &target.kind,
    ))
}

/// Applies an object over another one: maps are merged, everything else is replaced.
fn lay_over(object: &mut Value, desired: &Value) {
    match (object, desired) {
        (Value::Object(fields), Value::Object(desired)) => {
            for (name, value) in desired {
                if value.is_null() {
                    fields.remove(name);
                } else {
                    lay_over(fields.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (object, Value::Object(desired)) => {
            *object = Value::Object(serde_json::Map::new());
            lay_over(object, &Value::Object(desired.clone()));
        }
        (object, desired) => *object = desired.clone(),
    }
}
