//! The rules for metadata, in upstream's order and words.

use serde_json::Value;

use super::owners::OwnerReference;
use crate::field::{ErrorList, FieldError, Path};
use crate::gvk::GroupVersionKind;
use crate::json::{go_quote, is_print};
use crate::names::{is_qualified_name, is_valid_label_value, name_is_dns_label};

/// How many bytes the keys and values of all annotations may have together.
pub const ANNOTATIONS_MAX: usize = 256 << 10;

/// How many bytes the name of a field manager may have.
pub(crate) const FIELD_MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;
const IMMUTABLE: &str = "field is immutable";

/// Checks `metadata` of an object to be created. `name_errors` is the name rule of the kind; its flag
/// tells that the text is a generateName.
pub fn validate_object_meta(
    meta: &Value,
    namespaced: bool,
    name_errors: impl Fn(&str, bool) -> Vec<String>,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let base = text(meta, "generateName");
    if !base.is_empty() {
        let field = path.child("generateName");
        errors.extend(
            name_errors(base, true)
                .into_iter()
                .map(|e| FieldError::invalid(&field, base, e)),
        );
    }
    let name = text(meta, "name");
    let field = path.child("name");
    if name.is_empty() {
        errors.required(&field, "name or generateName is required");
    } else {
        errors.extend(
            name_errors(name, false)
                .into_iter()
                .map(|e| FieldError::invalid(&field, name, e)),
        );
    }
    errors.extend(validate_namespace(meta, namespaced, path));
    let generation = number(meta, "generation");
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.invalid(&path.child("generation"), generation, detail);
    }
    errors.extend(validate_labels(meta.get("labels"), &path.child("labels")));
    errors.extend(validate_annotations(
        meta.get("annotations"),
        &path.child("annotations"),
    ));
    errors.extend(validate_owner_references(meta, path));
    errors.extend(validate_finalizers(meta, &path.child("finalizers")));
    errors.extend(validate_managed_fields(
        list(meta, "managedFields"),
        &path.child("managedFields"),
    ));
    errors
}

/// Checks `metadata` of an object that replaces `old`.
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !absent(old.get("deletionTimestamp")) {
        errors.extend(no_new_finalizers(new, old, &path.child("finalizers")));
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.invalid(&path.child("resourceVersion"), "", detail);
    }
    let generation = number(new, "generation");
    if generation < number(old, "generation") {
        let detail = "must not be decremented";
        errors.invalid(&path.child("generation"), generation, detail);
    }
    for field in ["name", "namespace", "uid"] {
        let value = text(new, field);
        if value != text(old, field) {
            errors.invalid(&path.child(field), value, IMMUTABLE);
        }
    }
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let value = new.get(field).unwrap_or(&Value::Null);
        if value != old.get(field).unwrap_or(&Value::Null) {
            errors.invalid(&path.child(field), value.clone(), IMMUTABLE);
        }
    }
    errors.extend(validate_labels(new.get("labels"), &path.child("labels")));
    errors.extend(validate_annotations(
        new.get("annotations"),
        &path.child("annotations"),
    ));
    errors.extend(validate_owner_references(new, path));
    errors.extend(validate_managed_fields(
        list(new, "managedFields"),
        &path.child("managedFields"),
    ));
    errors
}

fn validate_namespace(meta: &Value, namespaced: bool, path: &Path) -> Vec<FieldError> {
    let namespace = text(meta, "namespace");
    let field = path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => vec![FieldError::required(&field, "")],
        (true, false) => name_is_dns_label(namespace, false)
            .into_iter()
            .map(|e| FieldError::invalid(&field, namespace, e))
            .collect(),
        (false, true) => Vec::new(),
        (false, false) => vec![FieldError::forbidden(&field, "not allowed on this type")],
    }
}

/// Checks a map of labels; all errors carry the path of the map.
pub fn validate_labels(labels: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in entries(labels) {
        errors.extend(
            is_qualified_name(key)
                .into_iter()
                .map(|e| FieldError::invalid(path, key, e)),
        );
        errors.extend(
            is_valid_label_value(value)
                .into_iter()
                .map(|e| FieldError::invalid(path, value, e)),
        );
    }
    errors
}

/// Checks a map of annotations: keys like labels but in any case, values bounded in sum.
pub fn validate_annotations(annotations: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in entries(annotations) {
        // Lower case: annotation keys may have upper-case prefixes for historical reasons (`validateAnnotations` in
        // `objectmeta.go`), label keys may not.
        let complaints = is_qualified_name(&key.to_lowercase());
        errors.extend(
            complaints
                .into_iter()
                .map(|e| FieldError::invalid(path, key, e)),
        );
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
    errors
}

fn validate_owner_references(meta: &Value, path: &Path) -> Vec<FieldError> {
    let path = path.child("ownerReferences");
    let entries = list(meta, "ownerReferences");
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for entry in entries {
        let owner = OwnerReference::read(entry);
        let gvk = GroupVersionKind::from_api_version(owner.api_version, owner.kind)
            .unwrap_or_else(|| GroupVersionKind::new("", "", owner.kind));
        let mut check = |bad: bool, field: &str, value: &str, detail: &str| {
            if bad {
                errors.invalid(&path.child(field), value, detail);
            }
        };
        let empty = "must not be empty";
        let no_version = gvk.version.is_empty();
        check(
            no_version,
            "apiVersion",
            owner.api_version,
            "version must not be empty",
        );
        check(gvk.kind.is_empty(), "kind", owner.kind, empty);
        check(owner.name.is_empty(), "name", owner.name, empty);
        check(owner.uid.is_empty(), "uid", owner.uid, empty);
        // `BannedOwners` of `objectmeta.go`: events expire, and the garbage collector would delete what they own.
        if gvk == GroupVersionKind::new("", "v1", "Event") {
            let detail = format!("{gvk} is disallowed from being an owner");
            errors.invalid(&path, entry.clone(), detail);
        }
        if owner.controller == Some(true) {
            let this = format!("{}/{}", owner.kind, owner.name);
            match &controller {
                Some(first) => errors.invalid(
                    &path,
                    entries.to_vec(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                ),
                None => controller = Some(this),
            }
        }
    }
    errors
}

fn validate_finalizers(meta: &Value, path: &Path) -> Vec<FieldError> {
    let finalizers = strings(meta, "finalizers");
    let mut errors: Vec<FieldError> = finalizers
        .iter()
        .flat_map(|f| {
            is_qualified_name(f)
                .into_iter()
                .map(|e| FieldError::invalid(path, *f, e))
        })
        .collect();
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(path, finalizers, detail);
    }
    errors
}

fn no_new_finalizers(new: &Value, old: &Value, path: &Path) -> Option<FieldError> {
    let old = strings(old, "finalizers");
    let mut added = strings(new, "finalizers");
    added.retain(|f| !old.contains(f));
    added.sort_unstable();
    added.dedup();
    if added.is_empty() {
        return None;
    }
    let added: Vec<String> = added.into_iter().map(go_quote).collect();
    Some(FieldError::forbidden(
        path,
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ),
    ))
}

/// Checks the entries of `metadata.managedFields` for form.
pub fn validate_managed_fields(entries: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.invalid(&path.child("operation"), operation, detail);
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let detail = "must be `FieldsV1`";
            errors.invalid(&path.child("fieldsType"), fields_type, detail);
        }
        errors.extend(validate_manager(
            text(entry, "manager"),
            &path.child("manager"),
        ));
        if text(entry, "subresource").len() > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(
                &path.child("subresource"),
                SUBRESOURCE_MAX,
            ));
        }
    }
    errors
}

/// The errors in the name of a field manager.
pub(crate) fn validate_manager(manager: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > FIELD_MANAGER_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX));
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let code = u32::from(c);
        let detail = format!("invalid character U+{code:04X} (at position {position})");
        errors.invalid(path, manager, detail);
    }
    errors
}

/// Warnings for finalizers of a custom resource that are not qualified by a domain.
pub fn finalizer_warnings(meta: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for finalizer in strings(meta, "finalizers") {
        let start = format!("{path}: {}", go_quote(finalizer));
        warnings.extend(
            is_qualified_name(finalizer)
                .into_iter()
                .map(|e| format!("{start}: {e}")),
        );
        let standard = matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes");
        if !finalizer.contains('/') && !standard {
            let part = if finalizer.contains('.') {
                " including a path (/)"
            } else {
                ""
            };
            warnings.push(format!(
                "{start}: prefer a domain-qualified finalizer name{part} to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    warnings
}

fn absent(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}

fn text<'a>(meta: &'a Value, field: &str) -> &'a str {
    meta.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn number(meta: &Value, field: &str) -> i64 {
    meta.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn list<'a>(meta: &'a Value, field: &str) -> &'a [Value] {
    meta.get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn strings<'a>(meta: &'a Value, field: &str) -> Vec<&'a str> {
    list(meta, field).iter().filter_map(Value::as_str).collect()
}

fn entries(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let map = map.and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
}
