//! Owners of the fields of a target, and takeovers.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::advisor::{FIELD_MANAGER, Takeover};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};
use kube_core::Status;
use machinery::apply::{FieldSet, PathElement, path_text, values_equal};
use serde_json::{Value, json};

use crate::served::ServedSchema;
use crate::snapshot::Kind;
use crate::values::normal;

/// A field owned by another manager that an apply would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner.
    pub manager: String,
    /// The field: dotted, list items as servers print them (`spec.ports[port=80].name`).
    pub path: String,
    /// The time of the owner's last write, if the server reports it.
    pub since: Option<Timestamp>,
}

/// An owner of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The manager.
    pub manager: String,
    /// The operation of its managedFields entry: `Apply` or `Update`.
    pub operation: String,
    /// The time of its last write.
    pub time: Option<Timestamp>,
}

/// The conflicts in the response to an apply; none if it failed for another reason.
pub fn conflicts(status: &Status) -> Vec<Conflict> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        // `CauseTypeFieldManagerConflict` in apimachinery's meta/v1/types.go. Optimistic lock errors are 409 as well,
        // and have no causes of this type.
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| {
            // A conflict that is left out here would be taken without consent by an apply that is forced for the others.
            let unknown = || (cause.message.clone(), None);
            let (manager, since) = owner(&cause.message).unwrap_or_else(unknown);
            let path = cause.field.strip_prefix('.').unwrap_or(&cause.field);
            Conflict {
                manager,
                path: path.to_owned(),
                since,
            }
        })
        .collect()
}

/// The conflicts over fields that their manager chose.
///
/// An API server attributes the defaults of a schema to the client that creates or updates the object, although it did
/// not send them. A field that has its default value belongs to a manager only if that has applied it: server-side
/// apply owns what was sent.
pub(crate) fn chosen(
    mut conflicts: Vec<Conflict>,
    live: &Value,
    kind: Option<&Kind>,
) -> Vec<Conflict> {
    if conflicts.is_empty() {
        return conflicts;
    }
    let entries = live
        .pointer("/metadata/managedFields")
        .and_then(|entries| serde_json::from_value::<Vec<ManagedFieldsEntry>>(entries.clone()).ok())
        .unwrap_or_default();
    let schema = ServedSchema::of(kind);
    conflicts.retain(|conflict| {
        let mut owners = owners_among(&entries, &conflict.path);
        let is_applied = owners
            .any(|(_, owner)| owner.manager == conflict.manager && owner.operation == "Apply");
        is_applied || !schema.is_default(live, &conflict.path)
    });
    conflicts
}

/// Parses `conflict with "name" with subresource "status" using apps/v1 at 2026-01-01T00:00:00Z`; all but the name may
/// be missing (`printManager` in `managedfields/internal/conflict.go`).
fn owner(message: &str) -> Option<(String, Option<Timestamp>)> {
    let quoted = message.strip_prefix("conflict with ")?;
    let mut escaped = false;
    let end = quoted.char_indices().skip(1).find_map(|(at, char)| {
        let closes = char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        closes.then_some(at + 1)
    })?;
    let (name, rest) = quoted.split_at_checked(end)?;
    // Go quotes the allowed characters of a manager name like JSON.
    let name = serde_json::from_str(name).ok()?;
    let since = rest
        .rsplit_once(" at ")
        .and_then(|(_, time)| time.parse().ok());
    Some((name, since))
}

/// The takeovers by a forced apply: which manager loses which field, with the live and the desired value.
/// `formerly_ours` is the state applied before, if any.
pub fn takeovers(
    conflicts: &[Conflict],
    live: &Value,
    desired: &Value,
    formerly_ours: Option<&BTreeMap<String, Value>>,
) -> Vec<Takeover> {
    let ours: Vec<String> = formerly_ours
        .into_iter()
        .flat_map(BTreeMap::keys)
        .map(|path| normal(path))
        .collect();
    // Servers rarely report the time; managedFields has it.
    let entries = live
        .pointer("/metadata/managedFields")
        .and_then(|entries| serde_json::from_value::<Vec<ManagedFieldsEntry>>(entries.clone()).ok())
        .unwrap_or_default();
    let since = |conflict: &Conflict| {
        conflict.since.or_else(|| {
            owners_among(&entries, &conflict.path)
                .filter(|(_, owner)| owner.manager == conflict.manager)
                .filter_map(|(_, owner)| owner.time)
                .max()
        })
    };
    let mut found: Vec<Takeover> = conflicts
        .iter()
        .map(|conflict| Takeover {
            path: conflict.path.clone(),
            manager: conflict.manager.clone(),
            since: since(conflict).map(Time),
            live: resolve(live, &conflict.path).cloned(),
            wanted: resolve(desired, &conflict.path).cloned(),
            reclaimed: ours.iter().any(|path| lies_at(&conflict.path, path)),
        })
        .collect();
    found.sort_by(|a, b| (&a.path, &a.manager).cmp(&(&b.path, &b.manager)));
    found.dedup_by(|a, b| a.path == b.path && a.manager == b.manager);
    found
}

/// The managedFields of an object in which `manager` also owns the fields that would otherwise be removed when we
/// release ours; `None` if there are none. `kept` are the values that are going to stay, by path.
///
/// A field that only we own is removed once we release it. A patch makes its manager the owner of the fields that it
/// changes, and no others: one that has its former value already is not given back by setting it. Applying it in the
/// name of the former manager would do, but release all other fields that this manager has applied. So its ownership is
/// recorded directly, which API servers permit in an update (`kubectl apply --server-side` migrates from client-side
/// apply this way).
pub(crate) fn hand_over(
    live: &Value,
    kept: &BTreeMap<String, Value>,
    manager: &str,
) -> Option<Value> {
    let entries = live["metadata"]["managedFields"].as_array()?;
    let set = |entry: &Value| FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap_or_default();
    let is_of = |entry: &Value, manager: &str, operation: &str| {
        let subresource = entry["subresource"].as_str().unwrap_or_default();
        entry["manager"] == manager && entry["operation"] == operation && subresource.is_empty()
    };
    let ours = entries
        .iter()
        .find(|entry| is_of(entry, FIELD_MANAGER, "Apply"))?;
    let mut only_ours = set(ours);
    let leaves = only_ours.leaves();
    for entry in entries.iter().filter(|entry| *entry != ours) {
        only_ours.subtract(&set(entry));
    }
    let mut given = FieldSet::default();
    for path in only_ours.iter() {
        let text = path_text(&path);
        let text = text.strip_prefix('.').unwrap_or(&text);
        let stays = kept.iter().any(|(top, value)| {
            let top = normal(top);
            let below = text.strip_prefix(&top).filter(|_| lies_at(text, &top));
            let then = below.and_then(|below| resolve(value, below));
            match (resolve(live, text), then) {
                // The patch changes something below it, or nothing.
                (Some(Value::Object(_)), Some(Value::Object(_)))
                | (Some(Value::Array(_)), Some(Value::Array(_)))
                    if !leaves.contains(&path) =>
                {
                    true
                }
                (Some(now), Some(then)) => !then.is_null() && values_equal(now, then),
                _ => false,
            }
        });
        if stays {
            given.insert(&path);
        }
    }
    if given.is_empty() {
        return None;
    }
    let mut entries = entries.clone();
    let version = ours["apiVersion"].clone();
    let former = entries
        .iter_mut()
        .find(|entry| is_of(entry, manager, "Update") && entry["apiVersion"] == version);
    match former {
        Some(former) => former["fieldsV1"] = set(former).union(&given).to_fields_v1(),
        None => entries.push(json!({
            "manager": manager,
            "operation": "Update",
            "apiVersion": version,
            "fieldsType": "FieldsV1",
            "fieldsV1": given.to_fields_v1(),
        })),
    }
    Some(Value::Array(entries))
}

/// The owners of a field, of a field above it as a whole, or of a field below it; without ownership through the status
/// subresource.
pub fn owners(meta: &ObjectMeta, path: &str) -> Vec<Owner> {
    let entries = meta.managed_fields.as_deref().unwrap_or_default();
    owners_among(entries, &normal(path))
        .map(|(_, owner)| owner)
        .collect()
}

/// The last writer of a field and the time: the newest owner, other managers before us.
///
/// A deleted field has no owner; then the last updater of the object is returned, which is only a guess.
pub fn last_writer(meta: &ObjectMeta, path: &str) -> Option<(String, Option<Timestamp>)> {
    let entries = meta.managed_fields.as_deref().unwrap_or_default();
    let owners: Vec<(FieldCoverage, Owner)> = owners_among(entries, &normal(path)).collect();
    let newest = |coverage: FieldCoverage, ours: bool| {
        owners
            .iter()
            .filter(|(how, owner)| *how == coverage && (owner.manager == FIELD_MANAGER) == ours)
            .map(|(_, owner)| owner.clone())
            .max_by_key(|owner| owner.time)
    };
    let updater = || {
        entries
            .iter()
            .filter(|entry| !is_status(entry))
            .map(as_owner)
            .filter(|owner| owner.operation == "Update" && owner.manager != FIELD_MANAGER)
            .max_by_key(|owner| owner.time)
    };
    // Other managers first: what we applied is not what differs. A manager of the whole object above the field is
    // likelier to have removed it than one that only updates other fields.
    newest(FieldCoverage::Field, false)
        .or_else(|| newest(FieldCoverage::Above, false))
        .or_else(|| newest(FieldCoverage::Field, true))
        .or_else(updater)
        .or_else(|| newest(FieldCoverage::Above, true))
        .map(|owner| (owner.manager, owner.time))
}

/// How an owner covers a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldCoverage {
    /// It owns the field, or a field below it.
    Field,
    /// It owns a field above it, and none below that.
    Above,
}

fn owners_among(
    entries: &[ManagedFieldsEntry],
    path: &str,
) -> impl Iterator<Item = (FieldCoverage, Owner)> {
    entries
        .iter()
        .filter(|entry| !is_status(entry))
        .filter_map(move |entry| Some((coverage(entry, path)?, as_owner(entry))))
}

fn is_status(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref() == Some("status")
}

fn as_owner(entry: &ManagedFieldsEntry) -> Owner {
    Owner {
        manager: entry.manager.clone().unwrap_or_default(),
        operation: entry.operation.clone().unwrap_or_default(),
        time: entry.time.as_ref().map(|time| time.0),
    }
}

/// How an entry covers a path. An unreadable entry owns nothing.
fn coverage(entry: &ManagedFieldsEntry, path: &str) -> Option<FieldCoverage> {
    let set = FieldSet::from_fields_v1(&entry.fields_v1.as_ref()?.0).ok()?;
    let mut found = None;
    // Paths are compared as strings: a path with dots in a key cannot be split.
    for leaf in set.leaves().iter() {
        let leaf = path_text(&leaf);
        let leaf = leaf.strip_prefix('.').unwrap_or(&leaf);
        if lies_at(leaf, path) {
            return Some(FieldCoverage::Field);
        }
        if lies_at(path, leaf) {
            found = Some(FieldCoverage::Above);
        }
    }
    found
}

/// Whether a path is the given one or below it.
fn lies_at(path: &str, top: &str) -> bool {
    path.strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The value at a path as servers print it. Keys may contain dots, so the object determines how to split the path.
fn resolve<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(value);
    }
    match value {
        Value::Object(map) => {
            let path = path.strip_prefix('.').unwrap_or(path);
            map.iter().find_map(|(key, below)| {
                let rest = path.strip_prefix(key.as_str())?;
                let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                if ends { resolve(below, rest) } else { None }
            })
        }
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let rest = [
                PathElement::Index(i64::try_from(index).ok()?),
                PathElement::item(item.clone()),
            ]
            .iter()
            .find_map(|element| path.strip_prefix(element.to_string().as_str()))
            .or_else(|| after_keys(item, path.strip_prefix('[')?))?;
            resolve(item, rest)
        }),
        _ => None,
    }
}

/// The rest of the path after `name="a",port=80]` if the item has these keys.
fn after_keys<'p>(item: &Value, path: &'p str) -> Option<&'p str> {
    item.as_object()?.iter().find_map(|(key, value)| {
        // An item of a set is printed as `[=value]`.
        let printed = PathElement::item(value.clone()).to_string();
        let text = printed.strip_prefix('[')?.strip_suffix(']')?;
        let rest = path.strip_prefix(key.as_str())?.strip_prefix(text)?;
        match rest.strip_prefix(',') {
            Some(more) => after_keys(item, more),
            None => rest.strip_prefix(']'),
        }
    })
}
