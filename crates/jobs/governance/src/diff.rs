//! What a change does to an object, as people review it: a unified diff of YAML.

#[cfg(test)]
mod tests;

use machinery::json::settle_numbers;
use serde_json::{Map, Value};
use similar::TextDiff;

use crate::hash::remove_annotation;

/// How large a diff in a status may be: all of a configuration has to fit into one object.
pub const LIMIT: usize = 64 * 1024;

/// How large all diffs of a configuration may be together: etcd takes requests of 1.5 MiB, and the
/// status has more to say.
pub const ROOM: usize = 256 * 1024;

/// What `kubectl apply` leaves behind: the object in small, secrets and all.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What servers write into metadata.
const BOOKKEEPING: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "uid",
    "selfLink",
];

const NO_CHANGES: &str = "(no changes)";
/// Says that something changes, as every line with a sign does.
const LEFT_OUT: &str = "+... left out here; `medley diff` shows it";
const NOTHING: &str = "/dev/null";
/// How many lines come before the first change.
const HEADERS: usize = 2;

/// Removes what nobody reviews: bookkeeping of the server, the status, and what `kubectl apply`
/// remembers.
pub fn sanitize(object: &mut Value) {
    remove_annotation(object, LAST_APPLIED);
    let Some(object) = object.as_object_mut() else {
        return;
    };
    object.remove("status");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in BOOKKEEPING {
            metadata.remove(name);
        }
    }
}

/// What changes between an object and what becomes of it, either absent if it is created or deleted.
/// Both are sanitized, and the data of secrets is masked. What is longer than [`LIMIT`] is cut.
pub fn unified(live: Option<&Value>, result: Option<&Value>, name: &str, kind: &str) -> String {
    cut(&whole(live, result, name, kind))
}

/// [`unified`], however long it is.
pub fn whole(live: Option<&Value>, result: Option<&Value>, name: &str, kind: &str) -> String {
    let (mut before, mut after) = (live.cloned(), result.cloned());
    for object in [&mut before, &mut after].into_iter().flatten() {
        sanitize(object);
        // A server writes 1.0 as 1.
        settle_numbers(object);
    }
    if kind == "Secret" {
        mask(before.as_mut(), after.as_mut());
    }
    let header = |object: Option<&Value>| {
        object.map_or_else(|| NOTHING.to_owned(), |_| format!("{name} ({kind})"))
    };
    let (from, to) = (header(live), header(result));
    let (old, new) = (
        before.as_ref().map(yaml).unwrap_or_default(),
        after.as_ref().map(yaml).unwrap_or_default(),
    );
    if old == new {
        return format!("--- {from}\n+++ {to}\n{NO_CHANGES}\n");
    }
    TextDiff::from_lines(&old, &new)
        .unified_diff()
        .context_radius(3)
        .header(&from, &to)
        .to_string()
}

/// Whether a diff tells no change.
pub fn is_no_change(diff: &str) -> bool {
    // The first two lines are headers; after them every change has a sign.
    !diff
        .lines()
        .skip(HEADERS)
        .any(|line| line.starts_with(['+', '-']))
}

/// Leaves out the diffs that there is no room for in one status. What is left of them still says that
/// something changes.
pub fn fit<'a>(diffs: impl IntoIterator<Item = &'a mut String>) {
    let mut room = ROOM;
    for diff in diffs {
        match room.checked_sub(diff.len()) {
            Some(left) => room = left,
            None if is_no_change(diff) => {}
            None => {
                let headers: String = diff.split_inclusive('\n').take(HEADERS).collect();
                *diff = format!("{headers}{LEFT_OUT}\n");
            }
        }
    }
}

/// An object as YAML: keys sorted, lists at the level of their key, text never folded.
fn yaml(object: &Value) -> String {
    let options = serde_saphyr::ser_options! {
        folded_wrap_chars: usize::MAX,
    };
    // Every JSON value can be written as YAML; JSON is YAML too.
    serde_saphyr::to_string_with_options(object, options)
        .unwrap_or_else(|_| format!("{object:#}\n"))
}

/// Hides the data of secrets as `kubectl diff` does: it tells what changes, but not into what.
fn mask(before: Option<&mut Value>, after: Option<&mut Value>) {
    let (mut before, mut after) = (before, after);
    for field in ["data", "stringData"] {
        let mut none = Map::new();
        let mut nothing = Map::new();
        let old = data(before.as_deref_mut(), field).unwrap_or(&mut none);
        let new = data(after.as_deref_mut(), field).unwrap_or(&mut nothing);
        for (key, value) in old.iter_mut() {
            match new.get_mut(key) {
                Some(other) if other != value => {
                    *value = Value::from("*** (before)");
                    *other = Value::from("*** (after)");
                }
                Some(other) => {
                    *value = Value::from("***");
                    *other = Value::from("***");
                }
                None => *value = Value::from("***"),
            }
        }
        for (key, value) in new.iter_mut() {
            if !old.contains_key(key) {
                *value = Value::from("***");
            }
        }
    }
}

fn data<'a>(object: Option<&'a mut Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    object?.get_mut(field)?.as_object_mut()
}

/// A diff that fits into a status, with a last line that says what is missing.
fn cut(diff: &str) -> String {
    if diff.len() <= LIMIT {
        return diff.to_owned();
    }
    // Room for the last line; longer than any there can be.
    let room = LIMIT - 128;
    let mut end = 0;
    let mut kept = 0;
    for line in diff.split_inclusive('\n') {
        if end + line.len() > room {
            break;
        }
        end += line.len();
        kept += 1;
    }
    let left_out = diff.lines().count() - kept;
    let shown = diff.get(..end).unwrap_or_default();
    format!("{shown}... {left_out} more lines are left out here; `medley diff` shows all\n")
}
