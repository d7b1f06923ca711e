//! The names of a CRD.

use serde_json::Value;

use super::{dns1035_label, dns1123_subdomain};
use crate::field::{ErrorList, FieldError, Path};
use crate::schema::node::Node;

/// The CRD's own name has to be `<plural>.<group>`.
pub(super) fn object_name(crd: &Value, spec: Node<'_>) -> Vec<FieldError> {
    let path = Path::new("metadata").child("name");
    let name = crd
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if name.is_empty() {
        return vec![FieldError::required(
            &path,
            "name or generateName is required",
        )];
    }
    let mut errors: Vec<FieldError> = dns1123_subdomain(name)
        .into_iter()
        .map(|wrong| FieldError::invalid(&path, name, wrong))
        .collect();
    let plural = spec.child("names").map_or("", |names| names.text("plural"));
    if name.strip_prefix(plural).and_then(|n| n.strip_prefix('.')) != Some(spec.text("group")) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.invalid(&path, name, detail);
    }
    errors
}

/// Names that a spec has to have.
pub(super) fn required(spec: Node<'_>, path: &Path) -> Vec<FieldError> {
    let names = spec.child("names");
    ["plural", "singular", "kind", "listKind"]
        .into_iter()
        .filter(|key| names.is_none_or(|names| names.text(key).is_empty()))
        .map(|key| FieldError::required(&path.child("names").child(key), ""))
        .collect()
}

/// The names that were accepted, as the status holds them.
pub(super) fn accepted(crd: &Value) -> Vec<FieldError> {
    let names = crd.pointer("/status/acceptedNames").and_then(Node::of);
    check(names, &Path::new("status").child("acceptedNames"))
}

/// The form of names that are there.
pub(super) fn check(names: Option<Node<'_>>, path: &Path) -> Vec<FieldError> {
    let Some(names) = names else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for key in ["plural", "singular"] {
        label(names.text(key), &path.child(key), &mut errors);
    }
    for key in ["kind", "listKind"] {
        let name = names.text(key);
        let wrong = dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let wrong = wrong.join(",");
            let detail = format!("may have mixed case, but should otherwise match: {wrong}");
            errors.invalid(&path.child(key), name, detail);
        }
    }
    let list = |key: &str, errors: &mut Vec<FieldError>| {
        for (i, name) in names.texts(key).into_iter().enumerate() {
            let wrong = dns1035_label(name);
            if !wrong.is_empty() {
                let at = path.child(key).index(i);
                errors.invalid(&at, name, wrong.join(","));
            }
        }
    };
    list("shortNames", &mut errors);
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.invalid(&path.child("listKind"), kind, detail);
    }
    list("categories", &mut errors);
    errors
}

fn label(name: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let wrong = dns1035_label(name);
    if !name.is_empty() && !wrong.is_empty() {
        errors.invalid(path, name, wrong.join(","));
    }
}
