//! The versions of a CRD, and what they have of their own or share.

use std::collections::HashSet;

use serde_json::Value;

use super::{Checks, Schema, View, check_structural, dns1035_label, has_status};
use crate::field::{ErrorList, FieldError, Path};
use crate::schema::field_path::resolve;
use crate::schema::node::Node;
use crate::schema::types::SchemaType;

/// How many selectable fields a version may have.
// `MaxSelectableFields` of `apiextensions/validation/validation.go`: each field
// costs a lookup for every watcher and event.
const MAX_SELECTABLE: usize = 8;

fn schema_of(validation: Option<&Value>) -> Option<&Value> {
    validation
        .and_then(|v| v.get("openAPIV3Schema"))
        .filter(|s| !s.is_null())
}

/// Every version needs a schema.
pub(super) fn schemas_present(view: &View<'_>, path: &Path) -> Vec<FieldError> {
    if schema_of(view.shared("schema")).is_some() {
        return Vec::new();
    }
    let lacks = |version: &Value| schema_of(view.own(version, "schema")).is_none();
    let versions = view.versions.iter().enumerate();
    versions
        .filter(|(_, version)| lacks(version))
        .map(|(i, _)| {
            let at = path
                .child("versions")
                .index(i)
                .child("schema")
                .child("openAPIV3Schema");
            FieldError::required(&at, "")
        })
        .collect()
}

/// Whether any schema has a default.
pub(super) fn has_defaults(view: &View<'_>) -> bool {
    view.versions
        .iter()
        .filter_map(|version| schema_of(version.get("schema")))
        .filter(|schema| Schema::parse(schema).is_ok())
        .filter_map(Node::of)
        .any(|schema| schema.any(&|node| node.get("default").is_some()))
}

/// What versions have of their own, and what holds for their list.
pub(super) fn each(view: &View<'_>, path: &Path, checks: &Checks<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    let mut unique = true;
    let mut storage = 0;
    for (i, value) in view.versions.iter().enumerate() {
        let Some(version) = Node::of(value) else {
            continue;
        };
        let at = path.child("versions").index(i);
        let name = version.text("name");
        storage += usize::from(version.flag("storage"));
        unique &= seen.insert(name);
        let wrong = dns1035_label(name);
        if !wrong.is_empty() {
            errors.invalid(&at.child("name"), name, wrong.join(","));
        }
        deprecation(version, &at.child("deprecationWarning"), &mut errors);
        let validation = view.own(value, "schema");
        if let Some(schema) = schema_of(validation) {
            let status = has_status(version.get("subresources"));
            errors.extend(check_structural(
                schema,
                status,
                &at.child("schema"),
                checks,
            ));
        }
        let own = |key: &str| view.own(value, key);
        errors.extend(subresources(own("subresources"), &at.child("subresources")));
        let at_columns = at.child("additionalPrinterColumns");
        errors.extend(columns(own("additionalPrinterColumns"), &at_columns));
        if let Some(fields) = own("selectableFields") {
            let at = at.child("selectableFields");
            if let Some(validation) = validation.filter(|v| schema_of(Some(v)).is_some()) {
                errors.extend(selectable(fields, validation, &at));
            } else {
                let detail =
                    "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.invalid(&at, "", detail);
            }
        }
    }
    if !unique {
        errors.push(view.invalid_versions(path, "must contain unique version names"));
    }
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(view.invalid_versions(path, detail));
    }
    // The internal form repeats the first version's name.
    let first = view
        .versions
        .first()
        .and_then(Node::of)
        .map_or("", |v| v.text("name"));
    let wrong = dns1035_label(first);
    if !first.is_empty() && !wrong.is_empty() {
        errors.invalid(&path.child("version"), first, wrong.join(","));
    }
    errors
}

fn deprecation(version: Node<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut wrong = |detail: String| errors.invalid(path, warning, detail);
    if !version.flag("deprecated") {
        wrong("can only be set for deprecated versions".to_owned());
        return;
    }
    if warning.len() > 256 {
        wrong("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        wrong("must not be an empty string".to_owned());
    }
    // Of all white space only the plain space is printable.
    let unprintable = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| unprintable(*c)) {
        wrong(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {i}"
        ));
    }
}

fn simple_path(text: &str, path: &Path) -> Option<FieldError> {
    (!text.starts_with('.'))
        .then(|| FieldError::invalid(path, text, "must be a simple json path starting with ."))
}

/// The paths of the scale subresource.
pub(super) fn subresources(subresources: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let Some(scale) = subresources
        .and_then(Node::of)
        .and_then(|s| s.child("scale"))
    else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    for (key, root) in [
        ("specReplicasPath", ".spec"),
        ("statusReplicasPath", ".status"),
    ] {
        let at = path.child("scale").child(key);
        let text = scale.text(key);
        if text.is_empty() {
            errors.required(&at, "");
        } else if let Some(error) = simple_path(text, &at) {
            errors.push(error);
        } else if !text
            .strip_prefix(root)
            .is_some_and(|rest| rest.starts_with('.'))
        {
            let detail = format!("should be a json path under {root}");
            errors.invalid(&at, text, detail);
        }
    }
    let text = scale.text("labelSelectorPath");
    if !text.is_empty() {
        let at = path.child("scale").child("labelSelectorPath");
        let below = text.starts_with(".spec.") || text.starts_with(".status.");
        let outside = || {
            let detail = "should be a json path under either .spec or .status";
            (!below).then(|| FieldError::invalid(&at, text, detail))
        };
        errors.extend(simple_path(text, &at).or_else(outside));
    }
    errors
}

/// Printer columns.
pub(super) fn columns(columns: Option<&Value>, path: &Path) -> Vec<FieldError> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    let mut errors = Vec::new();
    for (i, column) in columns
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        let Some(column) = Node::of(column) else {
            continue;
        };
        let at = path.index(i);
        if column.text("name").is_empty() {
            errors.required(&at.child("name"), "");
        }
        let (type_name, types) = (column.text("type"), TYPES.join(","));
        if type_name.is_empty() {
            let detail = format!("must be one of {types}");
            errors.required(&at.child("type"), detail);
        } else if !TYPES.contains(&type_name) {
            let detail = format!("must be one of {types}");
            errors.invalid(&at.child("type"), type_name, detail);
        }
        let format = column.text("format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.invalid(&at.child("format"), format, detail);
        }
        let json_path = column.text("jsonPath");
        if json_path.is_empty() {
            errors.required(&at.child("JSONPath"), "");
        } else {
            errors.extend(simple_path(json_path, &at.child("JSONPath")));
        }
    }
    errors
}

/// Selectable fields have to be declared scalars.
pub(super) fn selectable(fields: &Value, validation: &Value, path: &Path) -> Vec<FieldError> {
    let schema = match schema_of(Some(validation)).map(Schema::parse) {
        Some(Ok(schema)) => schema,
        // A schema that cannot be read has been reported already.
        Some(Err(_)) => return Vec::new(),
        None => Schema::default(),
    };
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    for (i, field) in fields.as_array().into_iter().flatten().enumerate() {
        let at = path.index(i).child("jsonPath");
        let text = Node::of(field).map_or("", |field| field.text("jsonPath"));
        if text.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let found = match resolve(text, &schema, false) {
            Ok(found) => found,
            Err(error) => {
                let detail = format!("is an invalid path: {error}");
                errors.invalid(&at, text, detail);
                continue;
            }
        };
        if found.first == "metadata" {
            let detail = "must not point to fields in metadata";
            errors.invalid(&at, text, detail);
        }
        let scalar = matches!(
            found.schema.schema_type,
            Some(SchemaType::String | SchemaType::Boolean | SchemaType::Integer)
        );
        if !scalar {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields \
                          and strings with formats are allowed.";
            errors.invalid(&at, text, detail);
        }
        if !seen.insert(found.path) {
            errors.push(FieldError::duplicate(&at, text));
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE));
    }
    errors
}
