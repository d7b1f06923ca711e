//! Rollback: the inverse of all changes from a revision on, as a plan like any other.
//!
//! The target state is that before the revision: of all records from there on, the first one that changed a target has
//! its former values.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::advisor::{FIELD_MANAGER, Operation, TargetRef};
use serde_json::Value;

use crate::decide::DecisionInputs;
use crate::plan::{self, Draft, Problem};
use crate::record::{Record, RecordedItem};

/// The draft that undoes a revision and all later ones.
pub(crate) fn draft(facts: &DecisionInputs<'_>, revision: i64) -> Result<Draft, Problem> {
    let mut records: Vec<_> = facts
        .records
        .iter()
        // All later ones as well: a single plan cannot be taken out of a sequence, because later plans recorded its
        // values as theirs to restore.
        .filter(|record| record.revision >= revision)
        .collect();
    records.sort_by_key(|record| record.revision);
    if records
        .first()
        .is_none_or(|first| first.revision != revision)
    {
        let mut known: Vec<_> = facts.records.iter().map(|record| record.revision).collect();
        known.sort_unstable();
        let known: Vec<_> = known.iter().map(i64::to_string).collect();
        return Err(Problem::Invalid(format!(
            "Invalid config: spec.rollbackTo: {revision} is not in the history; there is {}",
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            },
        )));
    }
    // The first change of a target has its former values; the last change is undone first.
    let mut firsts: Vec<&RecordedItem> = Vec::new();
    for item in records.iter().flat_map(|record| &record.items) {
        if !firsts
            .iter()
            .any(|first| first.target_ref == item.target_ref)
        {
            firsts.push(item);
        }
    }
    let items = firsts
        .into_iter()
        .rev()
        .filter_map(|first| {
            let managed = all_managed(&records, &first.target_ref);
            let before = before(records.iter().copied(), &first.target_ref);
            undo(first, managed, &before, facts)
        })
        .collect();
    Ok(Draft {
        items,
        ..Draft::default()
    })
}

/// The state of a target before some plans.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Before {
    /// None of them changed it.
    Untouched,
    /// It did not exist.
    Absent,
    /// The values of its managed fields, if they were set.
    Values(BTreeMap<String, Value>),
}

/// The state of a target before all of these records, oldest first: for each field, the first record that manages it
/// has the former value.
pub(crate) fn before<'a>(records: impl Iterator<Item = &'a Record>, target: &TargetRef) -> Before {
    let mut items = records
        .flat_map(|record| &record.items)
        .filter(|item| item.target_ref == *target);
    let Some(first) = items.next() else {
        return Before::Untouched;
    };
    let Some(mut all) = first.before.clone() else {
        return Before::Absent;
    };
    let mut managed_paths: Vec<&String> = first.managed_fields.iter().collect();
    for item in items {
        for path in &item.managed_fields {
            if managed_paths.contains(&path) {
                continue;
            }
            managed_paths.push(path);
            if let Some(value) = item.before.as_ref().and_then(|before| before.get(path)) {
                all.insert(path.clone(), value.clone());
            }
        }
    }
    Before::Values(all)
}

/// All fields of a target that any of the records manages.
fn all_managed(records: &[&Record], target: &TargetRef) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for item in records.iter().flat_map(|record| &record.items) {
        if item.target_ref == *target {
            for path in &item.managed_fields {
                if !all.contains(path) {
                    all.push(path.clone());
                }
            }
        }
    }
    all
}

/// Whether fields of a target were ours when a plan started.
fn was_ours(first: &RecordedItem) -> bool {
    first.owners.values().any(|owner| owner == FIELD_MANAGER)
}

fn undo(
    first: &RecordedItem,
    managed: Vec<String>,
    before: &Before,
    facts: &DecisionInputs<'_>,
) -> Option<api::advisor::Item> {
    use kube_core::ResourceExt as _;
    let target = &first.target_ref;
    let live = facts.snapshot.target(target);
    // A rollback of a rollback would otherwise be called `restore-restore-...`.
    let stem = first
        .name
        .strip_prefix("remove-")
        .or_else(|| first.name.strip_prefix("restore-"))
        .unwrap_or(&first.name);
    match (before, live) {
        (Before::Untouched, _) | (Before::Absent, None) => None,
        (Before::Absent, Some(live)) => {
            // An object of the same name that we did not create is not touched.
            let governed = live.annotations().get(api::advisor::names::GOVERNED_BY);
            (governed == Some(&facts.config.name_any()))
                .then(|| plan::deletion(stem, target, managed, facts.snapshot))
        }
        (Before::Values(before), Some(_)) if !was_ours(first) => Some(plan::restoration(
            stem,
            target,
            managed,
            before,
            facts.snapshot,
        )),
        // An earlier plan had applied it: releasing it would revert that plan as well. Or we deleted it: it is
        // recreated as far as its content is recorded.
        (Before::Values(before), _) => {
            let managed = managed.into_iter();
            let managed = managed.filter(|path| before.contains_key(path)).collect();
            let mut item = plan::restoration(stem, target, managed, before, facts.snapshot);
            item.operation = Operation::Apply;
            let metadata = first.desired_state.as_ref().map(|state| &state["metadata"]);
            if let (Some(metadata), Some(desired)) = (metadata, &mut item.desired_state) {
                desired["metadata"] = metadata.clone();
                plan::mark(desired, &facts.config.name_any(), before);
            }
            Some(item)
        }
    }
}
