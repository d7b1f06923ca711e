//! Models: one schema a type, in the shapes `kube-openapi` gives them.

use serde_json::{Map, Value, json};

use super::SCHEMAS;
use super::descriptions::Descriptions;
use crate::types::merge::{default, zero};
use crate::types::table::{Field, ListType, Scalar, Shape, Struct, TypeId, table};

/// Models under construction.
pub(super) struct Models<'a> {
    group: &'a str,
    version: &'a str,
    descriptions: Descriptions,
    schemas: Map<String, Value>,
}

impl<'a> Models<'a> {
    pub(super) fn new(group: &'a str, version: &'a str, descriptions: Descriptions) -> Self {
        Self {
            group,
            version,
            descriptions,
            schemas: Map::new(),
        }
    }

    pub(super) fn finish(self) -> Map<String, Value> {
        self.schemas
    }

    /// Models common to all documents, referenced by their paths.
    pub(super) fn add_common(&mut self) {
        for name in ["ObjectMeta", "ListMeta", "DeleteOptions", "Status"] {
            if let Some(id) = table().find(&format!("meta/v1.{name}")) {
                self.add(id);
            }
        }
        self.schemas.insert(
            "io.k8s.apimachinery.pkg.apis.meta.v1.Patch".to_owned(),
            json!({
                "description": "A change to an object, in the form its content type names.",
                "type": "object",
            }),
        );
    }

    /// Adds a type and all types it references.
    pub(super) fn add(&mut self, root: TypeId) {
        let mut queue = vec![root];
        while let Some(id) = queue.pop() {
            let name = table().model_name(id);
            let Some(structure) = table().structure(id) else {
                continue;
            };
            if self.schemas.contains_key(&name) {
                continue;
            }
            let schema = self.model(id, &name, structure, &mut queue);
            self.schemas.insert(name, schema);
        }
    }

    fn model(
        &mut self,
        id: TypeId,
        name: &str,
        structure: &Struct,
        queue: &mut Vec<TypeId>,
    ) -> Value {
        let mut schema = Map::new();
        if let Some(text) = self.descriptions.of_model(name) {
            schema.insert("description".to_owned(), text.into());
        }
        schema.insert("type".to_owned(), "object".into());
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in &structure.fields {
            if field.required {
                required.push(Value::from(field.name));
            }
            let description = self.descriptions.of_field(name, field.name);
            properties.insert(
                field.name.to_owned(),
                self.property(field, description, queue),
            );
        }
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        if !required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(required));
        }
        if structure.atomic {
            schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        if structure.kind {
            let kind = table().get(id).name;
            let package = table().get(id).package;
            let (group, version) = table().group_version(package);
            let mut kinds = vec![json!({"group": group, "kind": kind, "version": version})];
            // Options are registered in core and in the group they are used in.
            if kind.ends_with("Options") && (group, version) != (self.group, self.version) {
                kinds.push(json!({"group": self.group, "kind": kind, "version": self.version}));
            }
            schema.insert(
                "x-kubernetes-group-version-kind".to_owned(),
                Value::Array(kinds),
            );
        }
        Value::Object(schema)
    }

    fn property(
        &mut self,
        field: &Field,
        description: Option<String>,
        queue: &mut Vec<TypeId>,
    ) -> Value {
        let mut schema = self.value(field.ty, default(table(), field), description, queue);
        let Value::Object(map) = &mut schema else {
            return schema;
        };
        match field.list_type() {
            None => {}
            Some(ListType::Atomic) => {
                map.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
            }
            Some(ListType::Set) => {
                map.insert("x-kubernetes-list-type".to_owned(), "set".into());
            }
            Some(ListType::Map(keys)) => {
                let keys: Vec<&str> = keys.split(',').collect();
                map.insert("x-kubernetes-list-type".to_owned(), "map".into());
                map.insert("x-kubernetes-list-map-keys".to_owned(), keys.into());
            }
        }
        if let Some(atomic) = field.atomic() {
            let word = if atomic { "atomic" } else { "granular" };
            map.insert("x-kubernetes-map-type".to_owned(), word.into());
        }
        if let Some(patch) = field.patch() {
            map.insert(
                "x-kubernetes-patch-strategy".to_owned(),
                patch.strategy.into(),
            );
            if let Some(key) = patch.merge_key {
                map.insert("x-kubernetes-patch-merge-key".to_owned(), key.into());
            }
        }
        schema
    }

    /// The schema of a value; items of lists and maps have defaults of their own.
    fn value(
        &mut self,
        id: TypeId,
        default: Option<Value>,
        description: Option<String>,
        queue: &mut Vec<TypeId>,
    ) -> Value {
        let ty = table().get(id);
        let mut schema = match &ty.shape {
            Shape::Struct(_) => {
                queue.push(id);
                return reference(&table().model_name(id), default, description);
            }
            Shape::List(item) => {
                json!({"type": "array", "items": self.value(*item, item_default(*item), None, queue)})
            }
            Shape::Map(_, item) => json!({
                "type": "object",
                "additionalProperties": self.value(*item, item_default(*item), None, queue),
            }),
            Shape::Scalar(scalar) => {
                let Some((kind, format)) = plain(*scalar) else {
                    let name = self.special(*scalar);
                    return reference(name, default, description);
                };
                let mut schema = json!({"type": kind});
                if let Some(format) = format {
                    schema["format"] = format.into();
                }
                if !ty.accepted.is_empty() {
                    schema["enum"] = ty.accepted.split(',').collect();
                }
                schema
            }
        };
        if let Some(default) = default {
            schema["default"] = default;
        }
        if let Some(description) = description {
            schema["description"] = description.into();
        }
        schema
    }

    /// The model of a type with its own JSON form.
    fn special(&mut self, scalar: Scalar) -> &'static str {
        let (name, schema) = special_model(scalar);
        if !self.schemas.contains_key(name) {
            let mut schema = schema;
            if let Some(text) = self.descriptions.of_model(name) {
                schema["description"] = text.into();
            }
            self.schemas.insert(name.to_owned(), schema);
        }
        name
    }
}

/// A reference has no siblings, so one with a default or a description goes through `allOf`.
fn reference(name: &str, default: Option<Value>, description: Option<String>) -> Value {
    let target = json!({"$ref": format!("{SCHEMAS}{name}")});
    if default.is_none() && description.is_none() {
        return target;
    }
    let mut schema = json!({"allOf": [target]});
    if let Some(default) = default {
        schema["default"] = default;
    }
    if let Some(description) = description {
        schema["description"] = description.into();
    }
    schema
}

fn item_default(item: TypeId) -> Option<Value> {
    match &table().get(item).shape {
        Shape::Struct(_) => Some(json!({})),
        Shape::Scalar(scalar) => zero(*scalar),
        _ => None,
    }
}

/// Type and format of scalars that are written out in place.
fn plain(scalar: Scalar) -> Option<(&'static str, Option<&'static str>)> {
    Some(match scalar {
        Scalar::String => ("string", None),
        Scalar::Bool => ("boolean", None),
        Scalar::Int32 => ("integer", Some("int32")),
        Scalar::Int64 => ("integer", Some("int64")),
        Scalar::Float64 => ("number", Some("double")),
        Scalar::Bytes => ("string", Some("byte")),
        _ => return None,
    })
}

fn special_model(scalar: Scalar) -> (&'static str, Value) {
    let time = json!({"type": "string", "format": "date-time"});
    let object = json!({"type": "object"});
    match scalar {
        Scalar::Time => ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", time),
        Scalar::MicroTime => ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", time),
        Scalar::Quantity => (
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ),
        Scalar::IntOrString => (
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
        ),
        Scalar::FieldsV1 => ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", object),
        Scalar::SchemaOrBool => (
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
            json!({}),
        ),
        Scalar::SchemaOrArray => (
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
            json!({}),
        ),
        Scalar::SchemaOrStrings => (
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
            json!({}),
        ),
        Scalar::Json => (
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
            json!({}),
        ),
        _ => ("io.k8s.apimachinery.pkg.runtime.RawExtension", object),
    }
}
