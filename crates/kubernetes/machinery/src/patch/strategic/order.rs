//! The order of merged lists: what the patch names, in the order of the patch (or of
//! `$setElementOrder`), with the other items woven in where the server had them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::lists::{Items, items_of, merge_field_lists};
use super::merge::{DIRECTIVE, Object, SET_ORDER, no_merge_key, without_directives, wrong_type};
use super::{StrategicType, list_field};
use crate::patch::{PatchError, go_print};

/// Where the items of a list stand, by merge key or, for scalars, by themselves.
pub(super) struct Order<'a> {
    places: HashMap<Value, usize>,
    merge_key: &'a str,
    items: Items,
    /// The first item that has no key; reported only when the order is used.
    keyless: Option<PatchError>,
}

impl<'a> Order<'a> {
    pub(super) fn new(list: &[Value], merge_key: &'a str, items: Items) -> Self {
        let mut order = Self {
            places: HashMap::new(),
            merge_key,
            items,
            keyless: None,
        };
        for (place, item) in list.iter().enumerate() {
            match order.identity(item) {
                Ok(identity) => {
                    let identity = identity.clone();
                    order.places.entry(identity).or_insert(place);
                }
                Err(error) => {
                    order.keyless.get_or_insert(error);
                }
            }
        }
        order
    }

    fn identity<'v>(&self, item: &'v Value) -> Result<&'v Value, PatchError> {
        match self.items {
            Items::Scalars => Ok(item),
            Items::Objects => key_of(item, self.merge_key),
        }
    }

    fn place(&self, item: &Value) -> Option<usize> {
        self.places.get(self.identity(item).ok()?).copied()
    }

    /// Sorts `list` into this order; items marked for deletion go last.
    fn sort(&self, list: Vec<Value>) -> Result<Vec<Value>, PatchError> {
        for item in &list {
            self.identity(item)?;
        }
        if let Some(error) = &self.keyless {
            return Err(error.clone());
        }
        let (doomed, kept): (Vec<Value>, Vec<Value>) = list.into_iter().partition(is_deletion);
        let mut kept: Vec<(Option<usize>, Value)> = kept
            .into_iter()
            .map(|item| (self.place(&item), item))
            .collect();
        if kept.iter().all(|(place, _)| place.is_some()) {
            kept.sort_by_key(|(place, _)| *place);
        } else {
            sort_unplaced(&mut kept);
        }
        Ok(kept
            .into_iter()
            .map(|(_, item)| item)
            .chain(doomed)
            .collect())
    }
}

/// Go's stable sort works through runs of this length item by item.
// `insertionSort` block size of Go's `sort.Stable` (`sort/zsortfunc.go`).
const RUN: usize = 20;

/// Sorts when some items have no place, which only an empty `$setElementOrder` brings about.
///
/// Upstream then calls every such item less than any other, so the outcome is that of the sorting
/// method: an item without a place moves to the front, one with a place past all those without.
/// Short lists follow it to the letter; long ones get what that comes to where the new items lead,
/// as they do after a merge.
fn sort_unplaced(list: &mut [(Option<usize>, Value)]) {
    if list.len() > RUN {
        list.reverse();
        list.sort_by_key(|(place, _)| (place.is_none(), *place));
        return;
    }
    let less = |a: &(Option<usize>, Value), b: &(Option<usize>, Value)| match (a.0, b.0) {
        (Some(a), Some(b)) => a < b,
        _ => true,
    };
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && less(&list[at], &list[at - 1]) {
            list.swap(at, at - 1);
            at -= 1;
        }
    }
}

fn is_deletion(item: &Value) -> bool {
    item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete")
}

fn key_of<'v>(item: &'v Value, merge_key: &str) -> Result<&'v Value, PatchError> {
    let object = object_of(item)?;
    object
        .get(merge_key)
        .ok_or_else(|| no_merge_key(object, merge_key))
}

fn object_of(item: &Value) -> Result<&Object, PatchError> {
    item.as_object()
        .ok_or_else(|| wrong_type("map[string]interface {}", item))
}

/// Splits `merged` into the items `listed` names and the rest.
pub(super) fn partition(
    merged: Vec<Value>,
    listed: &[Value],
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    if merge_key.is_empty() {
        let listed: HashSet<&Value> = listed.iter().collect();
        return Ok(merged.into_iter().partition(|item| listed.contains(item)));
    }
    let mut keys: HashSet<&Value> = HashSet::new();
    for (place, item) in listed.iter().enumerate() {
        let Some(object) = item.as_object() else {
            return Err(PatchError::Internal(format!(
                "value for key {place} is not a map"
            )));
        };
        keys.extend(object.get(merge_key));
    }
    let (mut named, mut rest) = (Vec::new(), Vec::new());
    for item in merged {
        if keys.contains(key_of(&item, merge_key)?) {
            named.push(item);
        } else {
            rest.push(item);
        }
    }
    Ok((named, rest))
}

/// Sorts both parts and weaves the server's own items into those of the patch: one goes in front
/// of the next patch item if the server had it in front of that.
pub(super) fn normalize(
    listed: Vec<Value>,
    rest: Vec<Value>,
    patch_order: &Order<'_>,
    server_order: &Order<'_>,
) -> Result<Vec<Value>, PatchError> {
    let listed = patch_order.sort(listed)?;
    let rest = server_order.sort(rest)?;
    let mut out = Vec::with_capacity(listed.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for item in listed {
        let place = server_order.place(&item);
        while let Some(own) = rest.next_if(|own| match (server_order.place(own), place) {
            (Some(own), Some(place)) => own < place,
            _ => false,
        }) {
            out.push(own);
        }
        out.push(item);
    }
    out.extend(rest);
    Ok(out)
}

/// Handles every `$setElementOrder/<list>` of an object together with the patch of that list, and
/// takes both out of the patch.
pub(super) fn merge_ordered_lists(
    original: &mut Object,
    patch: &mut Object,
    ty: &dyn StrategicType,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else {
            continue;
        };
        let Value::Array(order) = order else {
            return Err(wrong_type("[]interface {}", &order));
        };
        let Some((SET_ORDER, name)) = directive.split_once('/') else {
            return Err(bad_order());
        };
        let server = list_at(original, name)?;
        let changes = list_at(patch, name)?;
        let field = list_field(ty, name)?;
        let merge_key = field.merge_key.unwrap_or_default();
        check_against_order(changes.unwrap_or_default(), &order, merge_key)?;
        let (old, new) = (server.unwrap_or_default(), changes.unwrap_or_default());
        let merged = match (server, changes) {
            (Some(server), None) => server.to_vec(),
            (None, Some(changes)) => changes
                .iter()
                .cloned()
                .filter_map(without_directives)
                .collect(),
            (Some(server), Some(changes)) => {
                merge_field_lists(server.to_vec(), changes.to_vec(), &field, false)?
            }
            (None, None) => continue,
        };
        let (listed, rest) = partition(merged, &order, merge_key)?;
        let items = items_of(old, new)?;
        let patch_order = Order::new(&order, merge_key, items);
        let server_order = Order::new(old, merge_key, items);
        let ordered = normalize(listed, rest, &patch_order, &server_order)?;
        original.insert(name.to_owned(), Value::Array(ordered));
        patch.remove(name);
    }
    Ok(())
}

fn bad_order() -> PatchError {
    PatchError::Malformed("invalid patch format of setElementOrder list".to_owned())
}

fn list_at<'v>(object: &'v Object, name: &str) -> Result<Option<&'v [Value]>, PatchError> {
    match object.get(name) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(wrong_type("[]interface {}", other)),
    }
}

/// The items of the patch have to stand in `order`, in that order; deletions need not.
fn check_against_order(
    patch: &[Value],
    order: &[Value],
    merge_key: &str,
) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    if !merge_key.is_empty() {
        for item in patch {
            object_of(item)?;
        }
    }
    let mut wanted = order.iter();
    for item in patch {
        if !merge_key.is_empty() && is_deletion(item) {
            continue;
        }
        if wanted.len() > 0 && item.get(DIRECTIVE).is_some() {
            continue;
        }
        let found = if merge_key.is_empty() {
            wanted.any(|entry| entry == item)
        } else {
            let mut found = false;
            for entry in wanted.by_ref() {
                if key_of(item, merge_key)? == key_of(entry, merge_key)? {
                    found = true;
                    break;
                }
            }
            found
        };
        if !found {
            return Err(PatchError::Internal(format!(
                "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                go_print(&patch.into()),
                go_print(&order.into())
            )));
        }
    }
    Ok(())
}
