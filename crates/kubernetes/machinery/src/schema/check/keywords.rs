//! The rules about single keywords and their combinations
//! (`ValidateCustomResourceDefinitionOpenAPISchema`).

use serde_json::{Value, json};

use super::super::field_path::valid_field_path;
use super::super::node::{Additional, Node};
use super::super::parse;
use super::super::types::{Schema, ValidationRule};
use super::go_text;
use crate::field::{ErrorKind, ErrorList, FieldError, Path};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// What holds for a node because of where it is.
#[derive(Clone, Copy)]
struct Context {
    /// Why there may be no default; `None` if there may.
    no_default: Option<&'static str>,
    /// Inside the type or object metadata of a resource.
    in_meta: bool,
}

/// All violations in the schema, the root first.
pub(super) fn check(node: Node<'_>, schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let context = Context {
        no_default: None,
        in_meta: false,
    };
    walk(node, Some(schema), path, context, true, &mut errors);
    errors
}

/// `schema` is the parsed form of `node`, where it is known.
fn walk(
    node: Node<'_>,
    schema: Option<&Schema>,
    path: &Path,
    context: Context,
    is_root: bool,
    errors: &mut Vec<FieldError>,
) {
    standard(node, path, context, errors);
    if node.flag("uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&path.child("uniqueItems"), detail);
    }
    if let Some(additional) = node.additional() {
        let at = path.child("additionalProperties");
        if node.has_entries("properties") && !matches!(additional, Additional::Allowed(true)) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.forbidden(&at, detail);
        }
        let mut below = context;
        if context.in_meta {
            below.no_default = Some("inside additionalProperties applying to object metadata");
        }
        if let Additional::Schema(extra) = additional {
            let parsed = schema.and_then(|s| s.additional_properties.as_deref());
            walk(extra, parsed, &at, below, false, errors);
        }
    }
    for (name, property) in node.named("properties") {
        let mut below = context;
        if is_root || node.flag("x-kubernetes-embedded-resource") {
            let reason = match name {
                "metadata" => Some("in top-level metadata"),
                "kind" => Some("in top-level kind"),
                "apiVersion" => Some("in top-level apiVersion"),
                _ => None,
            };
            below.in_meta |= reason.is_some();
            if is_root && reason.is_some() {
                below.no_default = reason;
            }
        }
        let at = path.child("properties").key(name);
        let parsed = schema.and_then(|s| s.properties.get(name));
        walk(property, parsed, &at, below, false, errors);
    }
    if let Some(not) = node.child("not") {
        let parsed = schema.and_then(|s| s.not.as_deref());
        walk(not, parsed, &path.child("not"), context, false, errors);
    }
    for (key, parsed) in [
        ("allOf", schema.map(|s| &s.all_of)),
        ("oneOf", schema.map(|s| &s.one_of)),
        ("anyOf", schema.map(|s| &s.any_of)),
    ] {
        for (i, child) in node.children(key).enumerate() {
            let parsed = parsed.and_then(|all| all.get(i));
            let at = path.child(key).index(i);
            walk(child, parsed, &at, context, false, errors);
        }
    }
    for (name, child) in node.named("definitions") {
        let at = path.child("definitions").key(name);
        walk(child, None, &at, context, false, errors);
    }
    if let Some(items) = node.items() {
        let parsed = schema.and_then(|s| s.items.as_deref());
        walk(items, parsed, &path.child("items"), context, false, errors);
    }
    for (i, items) in node.children("items").enumerate() {
        let at = path.child("items").index(i);
        walk(items, None, &at, context, false, errors);
    }
    for (name, child) in node.named("dependencies") {
        let at = path.child("dependencies").key(name);
        walk(child, None, &at, context, false, errors);
    }
    if node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.invalid(&at, false, "must be true or undefined");
    }
    map_type(node, path, errors);
    list_type(node, path, errors);
    list_map_keys(node, path, errors);
    list_map_items(node, path, errors);
    for (i, rule) in node.list("x-kubernetes-validations").iter().enumerate() {
        let at = path.child("x-kubernetes-validations").index(i);
        let reason = rule.get("reason").and_then(Value::as_str);
        if let Ok(rule) = parse::rule(rule) {
            check_rule_form(&rule, reason, schema, &at, errors);
        }
    }
}

/// Keywords that are not part of the accepted subset of OpenAPI v3.
fn standard(node: Node<'_>, path: &Path, context: Context, errors: &mut Vec<FieldError>) {
    let type_name = node.text("type");
    if !type_name.is_empty() && !TYPES.contains(&type_name) {
        errors.not_supported(&path.child("type"), type_name, TYPES);
    }
    let mut forbid = |key: &str, detail: &str| {
        errors.forbidden(&path.child(key), detail);
    };
    if let (Some(reason), Some(_)) = (context.no_default, node.get("default")) {
        forbid("default", &format!("must not be set {reason}"));
    }
    for (set, key) in [
        (!node.text("id").is_empty(), "id"),
        (node.get("additionalItems").is_some(), "additionalItems"),
        (node.has_entries("patternProperties"), "patternProperties"),
        (node.has_entries("definitions"), "definitions"),
        (node.get("dependencies").is_some(), "dependencies"),
        (node.get("$ref").is_some(), "$ref"),
    ] {
        if set {
            forbid(key, &format!("{key} is not supported"));
        }
    }
    if type_name == "null" {
        forbid(
            "type",
            "type cannot be set to null, use nullable as an alternative",
        );
    }
    if !node.list("items").is_empty() {
        forbid("items", "items must be a schema object and not an array");
    }
    let embedded = "x-kubernetes-embedded-resource";
    if context.in_meta && node.flag(embedded) {
        forbid(embedded, "must not be used inside of resource meta");
    }
}

fn wrong_type(node: Node<'_>, path: &Path, detail: &str) -> FieldError {
    match node.text("type") {
        "" => FieldError::required(&path.child("type"), detail),
        found => FieldError::invalid(&path.child("type"), found, detail),
    }
}

fn map_type(node: Node<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(map_type) = node.get("x-kubernetes-map-type").and_then(Value::as_str) else {
        return;
    };
    if node.text("type") != "object" {
        let detail = "must be object if x-kubernetes-map-type is specified";
        errors.push(wrong_type(node, path, detail));
    }
    let accepted = ["atomic", "granular"];
    if !accepted.contains(&map_type) {
        let at = path.child("x-kubernetes-map-type");
        errors.not_supported(&at, map_type, accepted);
    }
}

fn list_type(node: Node<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(list_type) = node.get("x-kubernetes-list-type").and_then(Value::as_str) else {
        return;
    };
    if node.text("type") != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(wrong_type(node, path, detail));
    } else if let (Some(items), "set") = (node.items(), list_type) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let inner = items.get("x-kubernetes-list-type").and_then(Value::as_str);
        let shown = || inner.map_or(Value::Null, Value::from);
        let key = match items.text("type") {
            "array" if inner.is_some_and(|t| t != "atomic") => "x-kubernetes-list-type",
            "object" if items.text("x-kubernetes-map-type") != "atomic" => "x-kubernetes-map-type",
            _ => "",
        };
        if !key.is_empty() {
            let at = path.child("items").child(key);
            errors.invalid(&at, shown(), detail);
        }
    }
    let accepted = ["atomic", "set", "map"];
    if !accepted.contains(&list_type) {
        let at = path.child("x-kubernetes-list-type");
        errors.not_supported(&at, list_type, accepted);
    }
}

fn list_map_keys(node: Node<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let keys = node.texts("x-kubernetes-list-map-keys");
    let list_type = node.get("x-kubernetes-list-type").and_then(Value::as_str);
    let at_keys = path.child("x-kubernetes-list-map-keys");
    if !keys.is_empty() {
        let at = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.required(&at, detail),
            Some("map") => {}
            Some(other) => errors.invalid(&at, other, detail),
        }
    }
    if list_type != Some("map") {
        return;
    }
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.required(&at_keys, detail);
    }
    let at_items = path.child("items");
    let Some(items) = node.items() else {
        errors.push(if node.get("items").is_some() {
            let inner: Vec<String> = node.children("items").map(go_text::schema).collect();
            let value = format!("{{\"Schema\":null,\"JSONSchemas\":[{}]}}", inner.join(","));
            let detail =
                format!("{value}: must only have a single schema if x-kubernetes-list-type is map");
            FieldError::without_value(ErrorKind::Invalid, &at_items, detail)
        } else {
            FieldError::required(
                &at_items,
                "must have a schema if x-kubernetes-list-type is map",
            )
        });
        return;
    };
    if items.text("type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.invalid(&at_items.child("type"), items.text("type"), detail);
        return;
    }
    for (i, key) in keys.iter().enumerate() {
        match items.property(key) {
            Some(property) if matches!(property.text("type"), "array" | "object") => {
                let at = at_items.child("properties").key(key).child("type");
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                // The type of the items and not that of the property: upstream reports the wrong value here, and
                // clients compare messages.
                errors.invalid(&at, items.text("type"), detail);
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.invalid(&at_keys, json!(keys), detail);
            }
        }
        if keys.iter().take(i).any(|earlier| earlier == key) {
            let detail = "must not contain duplicate entries";
            errors.invalid(&at_keys, json!(keys), detail);
        }
    }
}

/// Items of sets and maps are never null, and the keys of maps are always there.
fn list_map_items(node: Node<'_>, path: &Path, errors: &mut Vec<FieldError>) {
    let list_type = node.text("x-kubernetes-list-type");
    let Some(items) = node.items().filter(|_| matches!(list_type, "set" | "map")) else {
        return;
    };
    let at = path.child("items");
    if items.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(&at.child("nullable"), detail);
    }
    if list_type == "set" {
        return;
    }
    let required = items.texts("required");
    for key in node.texts("x-kubernetes-list-map-keys") {
        let Some(property) = items.property(key) else {
            continue;
        };
        let at = at.child("properties").key(key);
        if !required.contains(&key) && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or \
                          be a required property";
            errors.required(&at.child("default"), detail);
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&at.child("nullable"), detail);
        }
    }
}

/// The form of a rule; whether its expressions compile is for the rules' own check. `reason` is absent
/// rather than empty if there is none.
pub(crate) fn check_rule_form(
    rule: &ValidationRule,
    reason: Option<&str>,
    schema: Option<&Schema>,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let (source, message) = (rule.rule.trim(), rule.message.trim());
    let at_message = path.child("message");
    if source.is_empty() {
        errors.required(&path.child("rule"), "rule is not specified");
    } else if !rule.message.is_empty() && message.is_empty() {
        let detail = "must be non-empty if specified";
        errors.invalid(&at_message, rule.message.as_str(), detail);
    } else if breaks(message) {
        let detail = "must not contain line breaks";
        errors.invalid(&at_message, rule.message.as_str(), detail);
    } else if breaks(source) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.required(&at_message, detail);
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.required(&path.child("messageExpression"), detail);
    }
    if let Some(reason) = reason.filter(|reason| !REASONS.contains(reason)) {
        errors.not_supported(&path.child("reason"), reason, REASONS);
    }
    let field_path = rule.field_path.as_str();
    if field_path.is_empty() {
        return;
    }
    let at = path.child("fieldPath");
    if field_path.trim().is_empty() {
        errors.invalid(&at, field_path, "must be non-empty if specified");
    }
    if breaks(field_path) {
        errors.invalid(&at, field_path, "must not contain line breaks");
    }
    if schema.is_some_and(|schema| valid_field_path(field_path, schema).is_err()) {
        errors.invalid(&at, field_path, "must be a valid path");
    }
}
