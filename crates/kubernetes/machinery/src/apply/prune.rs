//! Removing what an applier no longer wants.

use std::collections::BTreeMap;

use serde_json::Value;

use super::managed::Managed;
use super::request::Request;
use super::set::FieldSet;
use super::tracking::{HeldType, in_version};
use super::typed::Typed;

/// What an applier owned before.
pub(super) struct Last {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
}

/// `merged` without the fields that its applier owned before, does not apply now, and no other manager
/// owns. `managed` already has the new set of the applier.
///
/// The steps are upstream's (`merge.Updater.prune`): remove everything the applier owned, add back what
/// any manager owns, add back what the applier did not own but lost with its parent.
pub(super) fn prune(
    request: &Request<'_>,
    merged: Value,
    managed: &Managed,
    wanted: &FieldSet,
    last: &Last,
) -> Value {
    // An applier that still applies everything it owned removes nothing: the common re-apply.
    if last.set.is_empty()
        || (last.api_version == request.api_version && last.set.difference(wanted).is_empty())
    {
        return merged;
    }
    // The version the applier used is not served any more. Its old fields cannot be interpreted, so they stay rather
    // than being removed by guess.
    let Some(held) = HeldType::find(request, &last.api_version) else {
        return merged;
    };
    let Some(base) = in_version(request, &merged, &last.api_version) else {
        return merged;
    };
    let mut base = base.into_owned();
    let typed = held.typed();
    let lost = typed.with_structs(&last.set);

    let mut pruned = base.clone();
    typed.remove(&mut pruned, &lost);
    let pruned = add_back_owned(request, &base, pruned, &last.api_version, managed);
    let Some(pruned) = in_version(request, &pruned, &last.api_version) else {
        return merged;
    };

    let before = structs_of(typed, &base);
    let after = structs_of(typed, &pruned);
    typed.remove(&mut base, &before.difference(&after).intersection(&lost));
    in_version(request, &base, request.api_version)
        .map_or_else(|| merged.clone(), std::borrow::Cow::into_owned)
}

/// Everything in a value, structs included.
fn structs_of(typed: Typed<'_>, value: &Value) -> FieldSet {
    typed.with_structs(&typed.to_set(value))
}

/// Adds back fields owned by any manager, in the version of the pruned object first: fields needed by
/// conversion have to be present before converting.
fn add_back_owned(
    request: &Request<'_>,
    merged: &Value,
    mut pruned: Value,
    api_version: &str,
    managed: &Managed,
) -> Value {
    let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for entry in &managed.entries {
        owned
            .entry(&entry.api_version)
            .or_default()
            .union_with(entry.set.clone());
    }
    let first = owned.remove_entry(api_version);
    for (version, owned) in first.into_iter().chain(owned) {
        let Some(held) = HeldType::find(request, version) else {
            continue;
        };
        let typed = held.typed();
        let (Some(whole), Some(part)) = (
            in_version(request, merged, version),
            in_version(request, &pruned, version),
        ) else {
            continue;
        };
        let mut keep = structs_of(typed, &part);
        keep.union_with(typed.with_structs(&owned));
        let mut whole = whole.into_owned();
        let gone = structs_of(typed, &whole).difference(&keep);
        typed.remove(&mut whole, &gone);
        pruned = whole;
    }
    pruned
}
