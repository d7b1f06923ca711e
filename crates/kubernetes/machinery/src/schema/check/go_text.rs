//! A schema as Go prints the internal struct it is decoded into: some errors show their value so.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::node::{Additional, Node};
use crate::json::to_string;

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    /// A pointer or a plain list: the JSON as it is, or null.
    Raw,
    Schema,
    Schemas,
    Named,
    Items,
    Additional,
    Docs,
    Rules,
}

/// The fields of `JSONSchemaProps` in their order, with their JSON names.
// Upstream passes the decoded struct to `field.Invalid`. The internal type
// (`pkg/apis/apiextensions/types_jsonschema.go`) has no JSON tags, so Go's names appear
// in messages, and all fields do, set or not.
const FIELDS: [(&str, &str, Kind); 44] = [
    ("ID", "id", Kind::Text),
    ("Schema", "$schema", Kind::Text),
    ("Ref", "$ref", Kind::Raw),
    ("Description", "description", Kind::Text),
    ("Type", "type", Kind::Text),
    ("Nullable", "nullable", Kind::Flag),
    ("Format", "format", Kind::Text),
    ("Title", "title", Kind::Text),
    ("Default", "default", Kind::Raw),
    ("Maximum", "maximum", Kind::Raw),
    ("ExclusiveMaximum", "exclusiveMaximum", Kind::Flag),
    ("Minimum", "minimum", Kind::Raw),
    ("ExclusiveMinimum", "exclusiveMinimum", Kind::Flag),
    ("MaxLength", "maxLength", Kind::Raw),
    ("MinLength", "minLength", Kind::Raw),
    ("Pattern", "pattern", Kind::Text),
    ("MaxItems", "maxItems", Kind::Raw),
    ("MinItems", "minItems", Kind::Raw),
    ("UniqueItems", "uniqueItems", Kind::Flag),
    ("MultipleOf", "multipleOf", Kind::Raw),
    ("Enum", "enum", Kind::Raw),
    ("MaxProperties", "maxProperties", Kind::Raw),
    ("MinProperties", "minProperties", Kind::Raw),
    ("Required", "required", Kind::Raw),
    ("Items", "items", Kind::Items),
    ("AllOf", "allOf", Kind::Schemas),
    ("OneOf", "oneOf", Kind::Schemas),
    ("AnyOf", "anyOf", Kind::Schemas),
    ("Not", "not", Kind::Schema),
    ("Properties", "properties", Kind::Named),
    (
        "AdditionalProperties",
        "additionalProperties",
        Kind::Additional,
    ),
    ("PatternProperties", "patternProperties", Kind::Named),
    ("Dependencies", "dependencies", Kind::Raw),
    ("AdditionalItems", "additionalItems", Kind::Additional),
    ("Definitions", "definitions", Kind::Named),
    ("ExternalDocs", "externalDocs", Kind::Docs),
    ("Example", "example", Kind::Raw),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        Kind::Raw,
    ),
    (
        "XEmbeddedResource",
        "x-kubernetes-embedded-resource",
        Kind::Flag,
    ),
    ("XIntOrString", "x-kubernetes-int-or-string", Kind::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Kind::Raw),
    ("XListType", "x-kubernetes-list-type", Kind::Raw),
    ("XMapType", "x-kubernetes-map-type", Kind::Raw),
    ("XValidations", "x-kubernetes-validations", Kind::Rules),
];

/// Go and JSON names of all keywords, in the order of the struct.
pub(super) fn keywords() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIELDS.iter().map(|(name, key, _)| (*name, *key))
}

/// Whether a keyword has a value that is not Go's zero value.
pub(super) fn is_set(node: Node<'_>, key: &str) -> bool {
    match node.get(key) {
        None | Some(Value::Bool(false)) => {
            // The only flag that is a pointer in Go, so an explicit `false` is a value.
            key == "x-kubernetes-preserve-unknown-fields" && node.get(key).is_some()
        }
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(map)) => !map.is_empty() || key != "properties",
        Some(_) => true,
    }
}

/// A schema node as Go prints it.
pub(super) fn schema(node: Node<'_>) -> String {
    let mut out = String::from("{");
    for (name, key, kind) in &FIELDS {
        if out.len() > 1 {
            out.push(',');
        }
        let _ = write!(out, "\"{name}\":{}", field(node, key, *kind));
    }
    out.push('}');
    out
}

fn joined<T>(items: impl Iterator<Item = T>, text: impl Fn(T) -> String) -> String {
    format!("[{}]", items.map(text).collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    to_string(&text.into())
}

fn field(node: Node<'_>, key: &str, kind: Kind) -> String {
    let Some(value) = node.get(key) else {
        return match kind {
            Kind::Text => "\"\"".to_owned(),
            Kind::Flag => "false".to_owned(),
            _ => "null".to_owned(),
        };
    };
    match kind {
        Kind::Text | Kind::Flag | Kind::Raw => to_string(value),
        Kind::Schema => node.child(key).map_or_else(|| "null".to_owned(), schema),
        Kind::Schemas => joined(node.children(key), schema),
        Kind::Named => {
            let entries: Vec<String> = node
                .named(key)
                .map(|(name, child)| format!("{}:{}", quoted(name), schema(child)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        Kind::Items => {
            let one = node.child(key).map_or_else(|| "null".to_owned(), schema);
            let several = if value.is_array() {
                joined(node.children(key), schema)
            } else {
                "null".into()
            };
            format!("{{\"Schema\":{one},\"JSONSchemas\":{several}}}")
        }
        Kind::Additional => match (value, node.additional()) {
            (Value::Bool(allowed), _) => format!("{{\"Allows\":{allowed},\"Schema\":null}}"),
            (_, Some(Additional::Schema(child))) => {
                format!("{{\"Allows\":true,\"Schema\":{}}}", schema(child))
            }
            _ => "null".to_owned(),
        },
        Kind::Docs => node.child(key).map_or_else(
            || "null".to_owned(),
            |docs| {
                let (description, url) = (docs.text("description"), docs.text("url"));
                format!(
                    "{{\"Description\":{},\"URL\":{}}}",
                    quoted(description),
                    quoted(url)
                )
            },
        ),
        Kind::Rules => joined(node.children(key), rule),
    }
}

fn rule(rule: Node<'_>) -> String {
    let raw = |key: &str| rule.get(key).map_or_else(|| "null".to_owned(), to_string);
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\
         \"OptionalOldSelf\":{}}}",
        quoted(rule.text("rule")),
        quoted(rule.text("message")),
        quoted(rule.text("messageExpression")),
        raw("reason"),
        quoted(rule.text("fieldPath")),
        raw("optionalOldSelf"),
    )
}

fn own<'a>(version: Node<'a>, key: &str, per_version: &dyn Fn(&str) -> bool) -> Option<&'a Value> {
    version.get(key).filter(|_| per_version(key))
}

/// `spec.versions` as Go prints it after the conversion that lifts what all versions share.
pub(in super::super) fn versions(versions: &[Value], per_version: &dyn Fn(&str) -> bool) -> String {
    let null = || "null".to_owned();
    let text = |version: Node<'_>| {
        let schema = own(version, "schema", per_version)
            .and_then(Node::of)
            .map_or_else(null, |validation| {
                let inner = validation
                    .child("openAPIV3Schema")
                    .map_or_else(null, schema);
                format!("{{\"OpenAPIV3Schema\":{inner}}}")
            });
        let subresources =
            own(version, "subresources", per_version).and_then(Node::of).map_or_else(null, |subresources| {
                let status = subresources.child("status").map_or_else(null, |_| "{}".to_owned());
                let scale = subresources.child("scale").map_or_else(null, |scale| {
                    format!(
                        "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                        quoted(scale.text("specReplicasPath")),
                        quoted(scale.text("statusReplicasPath")),
                        scale.get("labelSelectorPath").map_or_else(null, to_string),
                    )
                });
                format!("{{\"Status\":{status},\"Scale\":{scale}}}")
            });
        let columns = own(version, "additionalPrinterColumns", per_version).map_or_else(null, |_| {
            joined(version.children("additionalPrinterColumns"), |column| {
                format!(
                    "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\
                     \"JSONPath\":{}}}",
                    quoted(column.text("name")),
                    quoted(column.text("type")),
                    quoted(column.text("format")),
                    quoted(column.text("description")),
                    column
                        .get("priority")
                        .map_or_else(|| "0".to_owned(), to_string),
                    quoted(column.text("jsonPath")),
                )
            })
        });
        let selectable = own(version, "selectableFields", per_version).map_or_else(null, |_| {
            joined(version.children("selectableFields"), |field| {
                format!("{{\"JSONPath\":{}}}", quoted(field.text("jsonPath")))
            })
        });
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
             \"Schema\":{schema},\"Subresources\":{subresources},\
             \"AdditionalPrinterColumns\":{columns},\"SelectableFields\":{selectable}}}",
            quoted(version.text("name")),
            version.flag("served"),
            version.flag("storage"),
            version.flag("deprecated"),
            version
                .get("deprecationWarning")
                .map_or_else(null, to_string),
        )
    };
    joined(versions.iter().filter_map(Node::of), text)
}
