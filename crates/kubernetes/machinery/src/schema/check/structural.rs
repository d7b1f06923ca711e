//! The rules of structural schemas: every node has a type, and logic only restricts what is declared
//! outside of it.

use crate::field::{ErrorList, FieldError, Path};

use super::super::node::{Additional, Node};
use super::super::regexp;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// All violations, ordered by their text.
pub(super) fn check(node: Node<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(node, Level::Root, path, &mut errors);
    complete(node, Some(node), path, path, &mut errors);
    // Upstream walks Go maps in random order and sorts by text in the end.
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// The first keyword that cannot be in a structural schema at all (`NewStructural`).
pub(super) fn unsupported(node: Node<'_>) -> Option<String> {
    let mut found = None;
    node.walk(&mut |node| {
        let first = found.take().or_else(|| {
            let named = |name: &str| Some(format!("OpenAPIV3Schema '{name}' is not supported"));
            if !node.text("id").is_empty() {
                named("id")
            } else if !node.text("$schema").is_empty() {
                named("schema")
            } else if !node.text("$ref").is_empty() {
                named("$ref")
            } else if node.has_entries("patternProperties") {
                named("patternProperties")
            } else if node.has_entries("dependencies") {
                named("dependencies")
            } else if node.get("additionalItems").is_some() {
                named("additionalItems")
            } else if node.has_entries("definitions") {
                named("definitions")
            } else if !node.list("items").is_empty() {
                Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned())
            } else if node.get("x-kubernetes-preserve-unknown-fields") == Some(&false.into()) {
                let name = "x-kubernetes-preserve-unknown-fields";
                Some(format!(
                    "internal error: '{name}' must be true or undefined"
                ))
            } else {
                None
            }
        });
        found = first;
    });
    found
}

fn invariants(node: Node<'_>, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let type_name = node.text("type");
    let at_type = path.child("type");
    let at_additional = path.child("additionalProperties");
    match node.items() {
        Some(items) => invariants(items, Level::Item, &path.child("items"), errors),
        None if type_name == "array" => {
            errors.required(&path.child("items"), "must be specified");
        }
        None => {}
    }
    for (name, property) in node.named("properties") {
        invariants(
            property,
            Level::Field,
            &path.child("properties").key(name),
            errors,
        );
    }
    if node.additional().is_some() && level == Level::Root {
        errors.forbidden(&at_additional, "must not be used at the root");
    }
    if let Some(schema) = node.additional_schema() {
        invariants(schema, Level::Field, &at_additional, errors);
    }

    let embedded = node.flag("x-kubernetes-embedded-resource");
    let int_or_string = node.flag("x-kubernetes-int-or-string");
    let preserve = node.flag("x-kubernetes-preserve-unknown-fields");
    for (set, name) in [
        (preserve, "x-kubernetes-preserve-unknown-fields"),
        (embedded, "x-kubernetes-embedded-resource"),
    ] {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.invalid(&path.child(name), true, detail);
        }
    }
    let skip_any_of = is_int_or_string(node);
    // The two spellings of int-or-string that predate `x-kubernetes-int-or-string` and that controller-gen still
    // writes; everything else in `anyOf` must not state a type.
    let skip_first = node.children("allOf").next().is_some_and(is_int_or_string);
    values(node, skip_any_of, skip_first, path, errors);

    let resource = level == Level::Root || embedded;
    if embedded && type_name != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if type_name.is_empty() {
            FieldError::required(&at_type, detail)
        } else {
            FieldError::invalid(&at_type, type_name, detail)
        });
    } else if type_name.is_empty() && !int_or_string && !preserve {
        let whose = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.required(&at_type, format!("must not be empty {whose}"));
    }
    if embedded && node.additional().is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(&at_additional, detail);
    }
    if level == Level::Root && !type_name.is_empty() && type_name != "object" {
        errors.invalid(&at_type, type_name, "must be object at the root");
    }
    for name in ["kind", "apiVersion"] {
        if let Some(property) = node.property(name).filter(|_| resource)
            && property.text("type") != "string"
        {
            let at = path.child("properties").key(name).child("type");
            errors.invalid(&at, property.text("type"), "must be string");
        }
    }
    if let Some(metadata) = node.property("metadata") {
        let at = path.child("properties").key("metadata");
        if resource && metadata.text("type") != "object" {
            let at = at.child("type");
            errors.invalid(&at, metadata.text("type"), "must be object");
        }
        // The API server validates metadata itself; a schema that restricts labels, for example, would contradict it.
        if level == Level::Root && !only_names(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata is \
                          implicitly specified";
            errors.forbidden(&at, detail);
        }
    }
    // Pruning would empty every such object, except for its metadata.
    if embedded && !preserve && !node.has_entries("properties") {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.required(&path.child("properties"), detail);
    }
}

/// Whether the root's metadata only restricts names.
fn only_names(metadata: Node<'_>) -> bool {
    let names = metadata
        .named("properties")
        .all(|(n, _)| matches!(n, "name" | "generateName"));
    names
        && super::go_text::keywords()
            .filter(|(name, _)| !matches!(*name, "Type" | "Default" | "Properties"))
            .all(|(_, key)| !super::go_text::is_set(metadata, key))
}

/// Whether the node is exactly `anyOf: [{type: integer}, {type: string}]`.
fn is_int_or_string(node: Node<'_>) -> bool {
    let bare = |node: Node<'_>, type_name: &str| {
        node.text("type") == type_name
            && super::go_text::keywords()
                .filter(|(name, _)| *name != "Type")
                .all(|(_, key)| !super::go_text::is_set(node, key))
    };
    let alternatives: Vec<Node<'_>> = node.children("anyOf").collect();
    matches!(alternatives.as_slice(), [first, second]
        if bare(*first, "integer") && bare(*second, "string"))
}

fn values(
    node: Node<'_>,
    skip_any_of: bool,
    skip_first: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && skip_any_of {
            continue;
        }
        for (i, child) in node.children(key).enumerate() {
            let skip = key == "allOf" && i == 0 && skip_first;
            nested(child, skip, &path.child(key).index(i), errors);
        }
    }
    if let Some(not) = node.child("not") {
        nested(not, false, &path.child("not"), errors);
    }
    let pattern = node.text("pattern");
    if !pattern.is_empty()
        && let Err(error) = regexp::compile(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.invalid(&path.child("pattern"), pattern, detail);
    }
}

/// Keywords forbidden inside `allOf`, `anyOf`, `oneOf` and `not`.
fn nested(node: Node<'_>, skip_any_of: bool, path: &Path, errors: &mut Vec<FieldError>) {
    const EMPTY: &str = "must be empty to be structural";
    const FALSE: &str = "must be false to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    values(node, skip_any_of, false, path, errors);
    if let Some(items) = node.items() {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in node.named("properties") {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    let additional = !matches!(node.additional(), None | Some(Additional::Allowed(false)));
    let set = |key: &str| super::go_text::is_set(node, key);
    for (forbidden, key, detail) in [
        (set("type"), "type", EMPTY),
        (additional, "additionalProperties", UNDEFINED),
        (set("default"), "default", UNDEFINED),
        (set("title"), "title", EMPTY),
        (set("description"), "description", EMPTY),
        (set("nullable"), "nullable", FALSE),
        (
            node.flag("x-kubernetes-preserve-unknown-fields"),
            "x-kubernetes-preserve-unknown-fields",
            FALSE,
        ),
        (
            set("x-kubernetes-embedded-resource"),
            "x-kubernetes-embedded-resource",
            FALSE,
        ),
        (
            set("x-kubernetes-int-or-string"),
            "x-kubernetes-int-or-string",
            FALSE,
        ),
        (
            set("x-kubernetes-list-map-keys"),
            "x-kubernetes-list-map-keys",
            EMPTY,
        ),
        (
            node.get("x-kubernetes-list-type").is_some(),
            "x-kubernetes-list-type",
            UNDEFINED,
        ),
        (
            node.get("x-kubernetes-map-type").is_some(),
            "x-kubernetes-map-type",
            UNDEFINED,
        ),
        (
            set("x-kubernetes-validations"),
            "x-kubernetes-validations",
            EMPTY,
        ),
    ] {
        if forbidden {
            errors.forbidden(&path.child(key), detail);
        }
    }
    if node.property("metadata").is_some() {
        let at = path.child("properties").key("metadata");
        errors.forbidden(&at, "must not be specified in a nested context");
    }
}

/// Everything restricted inside of logic has to be declared outside of it.
fn complete(
    values: Node<'_>,
    schema: Option<Node<'_>>,
    at: &Path,
    values_at: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = values.child("not") {
        complete_nested(not, schema, at, &values_at.child("not"), errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (i, child) in values.children(key).enumerate() {
            complete_nested(child, schema, at, &values_at.child(key).index(i), errors);
        }
    }
}

fn complete_nested(
    values: Node<'_>,
    schema: Option<Node<'_>>,
    at: &Path,
    values_at: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(node) = schema else {
        let detail = format!("because it is defined in {values_at}");
        errors.required(at, detail);
        return;
    };
    complete(values, schema, at, values_at, errors);
    if let Some(items) = values.items() {
        let values_at = values_at.child("items");
        complete_nested(items, node.items(), &at.child("items"), &values_at, errors);
    }
    for (name, property) in values.named("properties") {
        let at = at.child("properties").key(name);
        let values_at = values_at.child("properties").key(name);
        complete_nested(property, node.property(name), &at, &values_at, errors);
    }
}
