//! Merge types of the built-in kinds, for server-side apply.
//!
//! Upstream derives them from the OpenAPI document (`kube-openapi/pkg/schemaconv`); the table has
//! the same information.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use machinery::apply::{self, ListKey, ListRelation, MapType, Schema, TypeRef, object_meta_type};
use serde_json::Value;

use super::table::{Field, ListType, Scalar, Shape, Struct, Table, TypeId, table};

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(build(table())));

/// The merge types of all built-in types, under their OpenAPI names; built on first use.
pub(crate) fn merge_schema() -> Arc<Schema> {
    SCHEMA.clone()
}

/// The reference to a type within [`merge_schema`].
pub(crate) fn merge_type(id: TypeId) -> TypeRef {
    TypeRef::Named(table().model_name(id))
}

/// Scalars are everywhere, so they share one definition each.
struct Scalars {
    string: TypeRef,
    numeric: TypeRef,
    boolean: TypeRef,
    untyped: TypeRef,
}

fn build(table: &Table) -> Schema {
    let scalars = Scalars {
        string: TypeRef::scalar(apply::Scalar::String),
        numeric: TypeRef::scalar(apply::Scalar::Numeric),
        boolean: TypeRef::scalar(apply::Scalar::Boolean),
        untyped: TypeRef::scalar(apply::Scalar::Untyped),
    };
    let mut schema = Schema::default();
    for (id, structure) in table.structures() {
        let mut ty = apply::Type::default();
        ty.map = Some(struct_type(table, &scalars, structure));
        schema.insert(table.model_name(id), ty);
    }
    if let (Some(id), TypeRef::Inline(meta)) =
        (table.find("meta/v1.ObjectMeta"), object_meta_type())
    {
        schema.insert(table.model_name(id), (*meta).clone());
    }
    schema
}

fn struct_type(table: &Table, scalars: &Scalars, structure: &Struct) -> MapType {
    let fields: BTreeMap<Arc<str>, TypeRef> = structure
        .fields
        .iter()
        .map(|field| (Arc::from(field.name), field_type(table, scalars, field)))
        .collect();
    // An object without properties is free in form.
    let element = fields.is_empty().then_some(TypeRef::Deduced);
    MapType {
        fields,
        element,
        atomic: structure.atomic,
    }
}

fn field_type(table: &Table, scalars: &Scalars, field: &Field) -> TypeRef {
    match &table.get(field.ty).shape {
        Shape::List(item) => TypeRef::from(apply::ListType {
            element: item_type(table, scalars, *item),
            relation: relation(table, field, *item),
        }),
        Shape::Map(_, value) => TypeRef::from(MapType {
            fields: BTreeMap::new(),
            element: Some(item_type(table, scalars, *value)),
            atomic: field.atomic() == Some(true),
        }),
        // The field takes precedence, so its type is a variant of the named one.
        Shape::Struct(structure) if field.atomic().is_some() => {
            let atomic = field.atomic() == Some(true);
            TypeRef::from(MapType {
                atomic,
                ..struct_type(table, scalars, structure)
            })
        }
        _ => item_type(table, scalars, field.ty),
    }
}

/// The type of a value without further information from a field.
fn item_type(table: &Table, scalars: &Scalars, id: TypeId) -> TypeRef {
    match &table.get(id).shape {
        Shape::Struct(_) => TypeRef::Named(table.model_name(id)),
        Shape::List(item) => TypeRef::list_of(item_type(table, scalars, *item)),
        Shape::Map(_, value) => TypeRef::map_of(item_type(table, scalars, *value)),
        Shape::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Bytes => scalars.string.clone(),
            Scalar::Bool => scalars.boolean.clone(),
            Scalar::Int32 | Scalar::Int64 | Scalar::Float64 => scalars.numeric.clone(),
            // A string with a format, and types that upstream declares so by hand.
            Scalar::Time | Scalar::MicroTime | Scalar::Quantity => scalars.untyped.clone(),
            Scalar::RawExtension => TypeRef::Atomic,
            // No type in the document, or an object without properties: any value.
            Scalar::IntOrString
            | Scalar::FieldsV1
            | Scalar::Json
            | Scalar::SchemaOrBool
            | Scalar::SchemaOrArray
            | Scalar::SchemaOrStrings => TypeRef::Deduced,
        },
    }
}

/// The list type takes precedence; then the strategic merge strategy; without both the list is
/// atomic.
fn relation(table: &Table, field: &Field, item: TypeId) -> ListRelation {
    let keys = |names: &str| {
        ListRelation::Map(
            names
                .split(',')
                .map(|name| list_key(table, item, name))
                .collect(),
        )
    };
    match (field.list_type(), field.patch()) {
        (Some(ListType::Set), _) => ListRelation::Set,
        (Some(ListType::Map(names)), _) => keys(names),
        (None, Some(patch)) if patch.strategy.starts_with("merge") => {
            patch.merge_key.map_or(ListRelation::Set, keys)
        }
        (Some(ListType::Atomic) | None, _) => ListRelation::Atomic,
    }
}

/// A key and its value when an item omits it: the documented default, or the zero value of a
/// required scalar, which the document has as its default as well.
fn list_key(table: &Table, item: TypeId, name: &str) -> ListKey {
    let field = table
        .structure(item)
        .and_then(|structure| structure.field(name));
    match field.and_then(|field| default(table, field)) {
        Some(default) => ListKey::with_default(name, default),
        None => ListKey::new(name),
    }
}

/// The default of a field in the OpenAPI document.
pub(super) fn default(table: &Table, field: &Field) -> Option<Value> {
    if let Some(text) = field.default() {
        return serde_json::from_str(text).ok();
    }
    if field.pointer {
        return None;
    }
    match &table.get(field.ty).shape {
        Shape::Struct(_) => Some(Value::Object(serde_json::Map::new())),
        Shape::Scalar(_) if !field.always => None,
        Shape::Scalar(scalar) => zero(*scalar),
        Shape::List(_) | Shape::Map(..) => None,
    }
}

/// The default that a plain scalar has.
pub(super) fn zero(scalar: Scalar) -> Option<Value> {
    match scalar {
        Scalar::String => Some(Value::from("")),
        Scalar::Bool => Some(Value::from(false)),
        Scalar::Int32 | Scalar::Int64 | Scalar::Float64 => Some(Value::from(0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
