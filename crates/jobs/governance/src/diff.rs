//! The change of an object for review, as a unified diff of YAML.

#[cfg(test)]
mod tests;

use machinery::json::settle_numbers;
use serde_json::{Map, Value};
use similar::TextDiff;

use crate::hash::remove_annotation;

/// Maximum size of one diff in a status: the whole configuration has to fit into one object.
pub const LIMIT: usize = 64 * 1024;

/// Maximum size of all diffs of a configuration: etcd limits requests to 1.5 MiB, and the status has other fields.
pub const TOTAL_LIMIT: usize = 256 * 1024;

/// Annotation of `kubectl apply`: a copy of the object, including secret data.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Metadata fields written by the server.
const SERVER_METADATA: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "uid",
    "selfLink",
];

const NO_CHANGES: &str = "(no changes)";
/// Counts as a change, as every line with a sign does.
const OMITTED: &str = "+... left out here; `medley diff` shows it";
const NOTHING: &str = "/dev/null";
/// Number of header lines before the first change.
const HEADER_LINES: usize = 2;

/// Removes what is not reviewed: server-side metadata, the status, and the last-applied annotation.
pub fn sanitize(object: &mut Value) {
    remove_annotation(object, LAST_APPLIED);
    let Some(object) = object.as_object_mut() else {
        return;
    };
    object.remove("status");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in SERVER_METADATA {
            metadata.remove(name);
        }
    }
}

/// The diff between the live and the resulting object, one of them absent on creation or deletion. Both are sanitized,
/// and secret data is masked. Truncated to [`LIMIT`].
pub fn unified(live: Option<&Value>, result: Option<&Value>, name: &str, kind: &str) -> String {
    cut(&whole(live, result, name, kind))
}

/// [`unified`] without truncation.
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
        return without_change(&from, &to);
    }
    TextDiff::from_lines(&old, &new)
        .unified_diff()
        // As `diff -u` and `kubectl diff` print it.
        .context_radius(3)
        .header(&from, &to)
        .to_string()
}

/// The diff of an object that stays as it is.
pub fn unchanged(name: &str, kind: &str) -> String {
    let header = format!("{name} ({kind})");
    without_change(&header, &header)
}

/// The diff of an object that is absent, and stays so.
pub fn absent() -> String {
    without_change(NOTHING, NOTHING)
}

fn without_change(from: &str, to: &str) -> String {
    format!("--- {from}\n+++ {to}\n{NO_CHANGES}\n")
}

/// Whether a diff contains no change.
pub fn is_no_change(diff: &str) -> bool {
    // The first two lines are headers; after them every change has a sign.
    !diff
        .lines()
        .skip(HEADER_LINES)
        .any(|line| line.starts_with(['+', '-']))
}

/// Omits the diffs that exceed the total limit of one status. The placeholder still counts as a change.
pub fn fit<'a>(diffs: impl IntoIterator<Item = &'a mut String>) {
    let mut remaining = TOTAL_LIMIT;
    for diff in diffs {
        match remaining.checked_sub(diff.len()) {
            Some(left) => remaining = left,
            // A placeholder counts as a change, so a diff without one is kept; it is three lines long.
            None if is_no_change(diff) => {}
            None => {
                let headers: String = diff.split_inclusive('\n').take(HEADER_LINES).collect();
                *diff = format!("{headers}{OMITTED}\n");
            }
        }
    }
}

/// An object as YAML: sorted keys, lists at the indentation of their key, strings never folded.
fn yaml(object: &Value) -> String {
    let options = serde_saphyr::ser_options! {
        folded_wrap_chars: usize::MAX,
    };
    // Every JSON value can be written as YAML; JSON is YAML too.
    serde_saphyr::to_string_with_options(object, options)
        .unwrap_or_else(|_| format!("{object:#}\n"))
}

/// Masks secret data as `kubectl diff` does: it shows which keys change, not their values.
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

/// Truncates a diff to the limit, with a last line that states how much is missing.
fn cut(diff: &str) -> String {
    if diff.len() <= LIMIT {
        return diff.to_owned();
    }
    // Space for the last line, more than its maximum length.
    let remaining = LIMIT - 128;
    let mut end = 0;
    let mut kept = 0;
    for line in diff.split_inclusive('\n') {
        if end + line.len() > remaining {
            break;
        }
        end += line.len();
        kept += 1;
    }
    let left_out = diff.lines().count() - kept;
    let shown = diff.get(..end).unwrap_or_default();
    format!("{shown}... {left_out} more lines are left out here; `medley diff` shows all\n")
}
