//! The OpenAPI v3 models of a custom resource (`controller/openapi/builder`).

use serde_json::{Map, Value, json};

use super::node::{Additional, Node};
use super::types::Schema;

const META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1";
const API_VERSION: &str = "Group and version of the schema this object follows, for example apps/v1. The \
    server may answer in another version of the same group than the one it was given, and refuses versions \
    it does not know.";
const KIND: &str = "The kind of this object in upper camel case. It follows from the endpoint the object is \
    sent to and cannot be changed.";
const METADATA: &str =
    "Metadata that every object has: name, namespace, labels, annotations, owners.";
const LIST_METADATA: &str =
    "Metadata that every list has: its resource version and how to continue it.";

/// Keywords that are published as they are. Everything with schemas inside is handled on its own.
const PLAIN: [&str; 28] = [
    "type",
    "description",
    "title",
    "format",
    "nullable",
    "default",
    "externalDocs",
    "example",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
    "required",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Keywords with lists that are left out when empty.
const LISTS: [&str; 2] = ["x-kubernetes-list-map-keys", "x-kubernetes-validations"];

/// The name of a model: the reversed group, the version and the kind.
pub fn model_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// The models of one version of a CRD and of its list, by name, ready for `components.schemas`. They
/// refer to `ObjectMeta` and `ListMeta`. Empty if the CRD has no such version.
pub fn crd_openapi(crd: &Value, version: &str) -> Map<String, Value> {
    let mut models = Map::new();
    let Some(spec) = crd.get("spec").and_then(Node::of) else {
        return models;
    };
    let Some(found) = spec
        .children("versions")
        .find(|v| v.text("name") == version)
    else {
        return models;
    };
    let Some(names) = spec.child("names") else {
        return models;
    };
    let group = spec.text("group");
    let (kind, list_kind) = (names.text("kind"), names.text("listKind"));
    let raw = found.child("schema").and_then(|s| s.get("openAPIV3Schema"));
    let mut model = match raw
        // A schema that cannot be read is published as an open object: kubectl validates against this document, and
        // half a model would make it reject valid objects.
        .filter(|raw| Schema::parse(raw).is_ok())
        .and_then(Node::of)
    {
        None => json_map(&json!({"type": "object"})),
        Some(schema) => {
            let mut model = node(schema, true);
            add_meta(&mut model, reference("ObjectMeta", METADATA));
            model
        }
    };
    let mut list = json_map(&json!({
        "type": "object",
        "description": format!("{list_kind} is a list of {kind}"),
        "required": ["items"],
        "properties": {
            "items": {
                "type": "array",
                "description": format!("List of {}.", names.text("plural")),
                "items": {
                    "$ref": format!("#/components/schemas/{}", model_name(group, version, kind))
                },
            },
        },
    }));
    add_meta(&mut list, reference("ListMeta", LIST_METADATA));
    let selectable: Vec<Value> = found
        .children("selectableFields")
        .map(|field| field.text("jsonPath"))
        .map(|path| json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)}))
        .collect();
    for (kind, mut model) in [(kind, std::mem::take(&mut model)), (list_kind, list)] {
        let gvk = json!([{"group": group, "version": version, "kind": kind}]);
        model.insert("x-kubernetes-group-version-kind".into(), gvk);
        if !selectable.is_empty() {
            model.insert(
                "x-kubernetes-selectable-fields".into(),
                selectable.clone().into(),
            );
        }
        models.insert(model_name(group, version, kind), Value::Object(model));
    }
    models
}

fn json_map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Adds what every resource has to the properties of a model.
fn add_meta(model: &mut Map<String, Value>, metadata: Value) {
    let mut properties = match model.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    properties.insert("metadata".into(), metadata);
    for (name, description) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        properties.insert(
            name.into(),
            json!({"description": description, "type": "string"}),
        );
    }
    model.insert("properties".into(), properties.into());
}

fn reference(name: &str, description: &str) -> Value {
    json!({"description": description, "allOf": [{"$ref": format!("{META}.{name}")}]})
}

/// A node as it is published. Logic (`declared` is false inside of it) has no additional properties.
fn node(schema: Node<'_>, declared: bool) -> Map<String, Value> {
    let mut out = Map::new();
    for key in PLAIN {
        if let Some(value) = schema.get(key)
            && *value != json!(false)
            && *value != json!("")
        {
            out.insert(key.to_owned(), value.clone());
        }
    }
    for key in LISTS {
        if !schema.list(key).is_empty() {
            out.insert(key.to_owned(), schema.list(key).into());
        }
    }
    if let Some(items) = schema.items() {
        out.insert("items".to_owned(), node(items, declared).into());
    }
    let properties: Map<String, Value> = schema
        .named("properties")
        .map(|(k, v)| (k.to_owned(), node(v, declared).into()))
        .collect();
    if !properties.is_empty() {
        out.insert("properties".to_owned(), properties.into());
    }
    match schema.additional().filter(|_| declared) {
        Some(Additional::Schema(extra)) => {
            out.insert("additionalProperties".to_owned(), node(extra, true).into());
        }
        Some(Additional::Allowed(allowed)) => {
            out.insert("additionalProperties".to_owned(), allowed.into());
        }
        None => {}
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let children: Vec<Value> = schema
            .children(key)
            .map(|c| node(c, false).into())
            .collect();
        if !children.is_empty() {
            out.insert(key.to_owned(), children.into());
        }
    }
    if let Some(not) = schema.child("not") {
        out.insert("not".to_owned(), node(not, false).into());
    }
    if declared {
        unfold(schema, &mut out);
        embedded(schema, &mut out);
    }
    out
}

/// Clients that do not know int-or-string get it in plain words.
fn unfold(schema: Node<'_>, out: &mut Map<String, Value>) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first_all_of = schema
        .children("allOf")
        .next()
        .and_then(|first| first.get("anyOf"));
    let is_declared = schema.get("anyOf") == Some(&either) || first_all_of == Some(&either);
    if !schema.flag("x-kubernetes-int-or-string") || is_declared {
        return;
    }
    if schema.list("anyOf").is_empty() {
        out.insert("anyOf".to_owned(), either);
    } else {
        let mut all = vec![json!({"anyOf": either})];
        all.extend(
            out.get("allOf")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .cloned(),
        );
        out.insert("allOf".to_owned(), all.into());
    }
}

/// An embedded resource has the metadata of every resource and needs its type.
fn embedded(schema: Node<'_>, out: &mut Map<String, Value>) {
    if !schema.flag("x-kubernetes-embedded-resource") {
        return;
    }
    add_meta(out, reference("ObjectMeta", METADATA));
    let mut required = schema.list("required").to_vec();
    for name in ["kind", "apiVersion"] {
        if !required.contains(&name.into()) {
            required.push(name.into());
        }
    }
    out.insert("required".to_owned(), required.into());
}
