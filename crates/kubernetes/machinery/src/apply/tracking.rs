//! Field ownership after a change: the part that update and apply share
//! (`structured-merge-diff/merge`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::managed::{Entry, Managed, Operation, to_second};
use super::request::{Request, object_label};
use super::schema::{Schema, TypeRef};
use super::set::FieldSet;
use super::typed::{Comparison, Duplicates, Typed};

/// Fields that are never owned: those of the server, and those that identify the object.
static UNTRACKED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_paths(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Removes the fields that are never owned from a set.
pub(super) fn strip(set: &mut FieldSet) {
    set.subtract(&UNTRACKED);
}

/// A merge type that is held on to.
pub(super) struct HeldType(Arc<Schema>, TypeRef);

impl HeldType {
    /// The type of one version; `None` when it is not served.
    pub(super) fn find(request: &Request<'_>, api_version: &str) -> Option<Self> {
        request
            .versions
            .merge_type(api_version)
            .map(|(schema, root)| Self(schema, root))
    }

    pub(super) fn typed(&self) -> Typed<'_> {
        Typed::new(&self.0, &self.1)
    }
}

/// `object` in a version, converted when it has to be.
pub(super) fn in_version<'a>(
    request: &Request<'_>,
    object: &'a Value,
    api_version: &str,
) -> Option<Cow<'a, Value>> {
    // Almost always: conversion needs a copy of the object, so it is left to
    // objects with managers of another version.
    if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
        return Some(Cow::Borrowed(object));
    }
    request
        .versions
        .convert(object, api_version)
        .map(Cow::Owned)
}

/// Adapts every entry to the schema of its version; entries whose version is no longer served are
/// removed.
pub(super) fn reconcile(request: &Request<'_>, managed: &mut Managed) {
    // One lookup for each version: an object may have a dozen entries, usually all of one version.
    let mut types: BTreeMap<String, Option<HeldType>> = BTreeMap::new();
    managed.entries.retain_mut(|entry| {
        if !types.contains_key(&entry.api_version) {
            let found = HeldType::find(request, &entry.api_version);
            types.insert(entry.api_version.clone(), found);
        }
        let Some(Some(held)) = types.get(&entry.api_version) else {
            return false;
        };
        held.typed().reconcile(&mut entry.set);
        true
    });
}

/// The changes, in every version in which a manager owns fields.
pub(super) struct Changes<'a> {
    request: &'a Request<'a>,
    old: &'a Value,
    new: &'a Value,
    found: BTreeMap<String, Option<Comparison>>,
}

impl<'a> Changes<'a> {
    /// Compares two objects of the request's version.
    pub(super) fn new(
        request: &'a Request<'a>,
        typed: Typed<'_>,
        old: &'a Value,
        new: &'a Value,
    ) -> Self {
        let mut own = typed.compare(old, new);
        own.exclude(request.reset);
        let found = BTreeMap::from([(request.api_version.to_owned(), Some(own))]);
        Self {
            request,
            old,
            new,
            found,
        }
    }

    /// The changes as that version shows them; `None` when it is not served.
    pub(super) fn at(&mut self, api_version: &str) -> Result<Option<&Comparison>, String> {
        if !self.found.contains_key(api_version) {
            let comparison = self.compare_in(api_version)?;
            self.found.insert(api_version.to_owned(), comparison);
        }
        Ok(self.found.get(api_version).and_then(Option::as_ref))
    }

    fn compare_in(&self, api_version: &str) -> Result<Option<Comparison>, String> {
        let Some(held) = HeldType::find(self.request, api_version) else {
            return Ok(None);
        };
        let (Some(old), Some(new)) = (
            in_version(self.request, self.old, api_version),
            in_version(self.request, self.new, api_version),
        ) else {
            return Ok(None);
        };
        let typed = held.typed();
        typed
            .validate(&old, Duplicates::Allow)
            .map_err(|errors| format!("failed to convert old object: {errors}"))?;
        typed
            .validate(&new, Duplicates::Allow)
            .map_err(|errors| format!("failed to convert new object: {errors}"))?;
        let mut comparison = typed.compare(&old, &new);
        comparison.exclude(self.request.reset);
        Ok(Some(comparison))
    }
}

/// Records that `manager` made `new` out of `old` by anything but apply.
pub(super) fn record_update(
    request: &Request<'_>,
    old: &Value,
    new: &Value,
    managed: &mut Managed,
    manager: &str,
) -> Result<(), String> {
    let held = HeldType::find(request, request.api_version).ok_or_else(|| {
        format!(
            "no corresponding type for {}, Kind={}",
            request.api_version, request.kind
        )
    })?;
    let typed = held.typed();
    for (name, object) in [("new", new), ("live", old)] {
        typed
            .validate(object, Duplicates::Allow)
            .map_err(|errors| {
                format!(
                    "failed to convert {name} object ({}) to smd typed: {errors}",
                    object_label(object)
                )
            })?;
    }
    // Before the changes are subtracted: paths of an older schema would not match those that the comparison finds.
    reconcile(request, managed);
    let mut changes = Changes::new(request, typed, old, new);
    let mut failure = None;
    managed
        .entries
        .retain_mut(|entry| match changes.at(&entry.api_version) {
            Ok(Some(comparison)) => {
                entry.set.subtract(&comparison.modified);
                entry.set.subtract(&comparison.added);
                entry.set.subtract(&comparison.removed);
                !entry.set.is_empty()
            }
            // The version of this entry is not served: it is dropped (`merge/update.go` of structured-merge-diff).
            Ok(None) => false,
            Err(why) => {
                failure = Some(why);
                true
            }
        });
    if let Some(why) = failure {
        return Err(why);
    }
    let mut taken = match changes.at(request.api_version)? {
        Some(own) => own.modified.union(&own.added),
        None => FieldSet::default(),
    };
    strip(&mut taken);
    if !taken.is_empty() {
        let mut entry = Entry {
            manager: manager.to_owned(),
            operation: Operation::Update,
            api_version: request.api_version.to_owned(),
            subresource: request.subresource.to_owned(),
            time: Some(to_second(request.now)),
            set: taken,
        };
        match managed
            .entries
            .iter_mut()
            .find(|there| there.is_of_same(&entry))
        {
            Some(there) => {
                there.set.union_with(std::mem::take(&mut entry.set));
                there.time = entry.time;
            }
            None => managed.entries.push(entry),
        }
    }
    managed.cap();
    Ok(())
}
