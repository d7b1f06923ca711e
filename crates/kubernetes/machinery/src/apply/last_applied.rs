//! The way from client-side to server-side apply: only for a manager named `kubectl`, and only
//! while the object carries the annotation that client-side apply leaves.

use serde_json::{Map, Value};

use super::conflict::Conflicts;
use super::request::Request;
use super::set::FieldSet;
use super::tracking::HeldType;
use super::typed::Duplicates;
use crate::json;

/// The manager that this is for.
pub(super) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What all annotations of an object may take together.
// `TotalAnnotationSizeLimitB` of `apimachinery/pkg/api/validation/objectmeta.go`. Beyond it the write would be
// rejected for an annotation that the user did not send.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The conflicts that are real. Fields that the client applied and that are still as it applied
/// them are its own. `None` when no conflict is left.
pub(super) fn remaining(
    request: &Request<'_>,
    live: &Value,
    mut conflicts: Conflicts,
) -> Option<Conflicts> {
    if let Some(own) = applied_before(request, live) {
        conflicts.0.retain(|conflict| !own.contains(&conflict.path));
    }
    (!conflicts.0.is_empty()).then_some(conflicts)
}

/// The fields of the annotation that the live object has with the same value.
fn applied_before(request: &Request<'_>, live: &Value) -> Option<FieldSet> {
    let before: Value = serde_json::from_str(annotation(live)?).ok()?;
    if before.get("apiVersion").and_then(Value::as_str) != Some(request.api_version) {
        return None;
    }
    let held = HeldType::find(request, request.api_version)?;
    let typed = held.typed();
    // An annotation that cannot be used is ignored, not an error: it is a hint that
    // client-side apply left, and users edit it.
    typed.validate(live, Duplicates::Deny).ok()?;
    typed.validate(&before, Duplicates::Deny).ok()?;
    let mut set = typed.to_set(&before);
    let comparison = typed.compare(&before, live);
    set.subtract(&comparison.modified);
    set.subtract(&comparison.added);
    set.subtract(&comparison.removed);
    Some(set)
}

/// Rewrites the annotation, where there is one, to what was applied now. One that would make the
/// annotations too large is removed.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
    }
    let mut text = json::to_string(&config);
    text.push('\n');
    let Some(annotations) = annotations_mut(object) else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let size: usize = annotations
        .iter()
        .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object
        .get("metadata")?
        .get("annotations")?
        .get(ANNOTATION)?
        .as_str()?;
    (!text.is_empty()).then_some(text)
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object
        .get_mut("metadata")?
        .get_mut("annotations")?
        .as_object_mut()
}
