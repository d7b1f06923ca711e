//! The merge type of a custom resource, made from its structural schema
//! (`kube-openapi/pkg/schemaconv`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object_meta::object_meta_type;
use super::schema::{ListKey, ListRelation, ListType, MapType, Scalar, Schema, Type, TypeRef};
use crate::schema as structural;
use crate::schema::SchemaType;

/// The merge type of objects with this structural schema. `preserve_unknown_root` is the CRD's
/// own `preserveUnknownFields`, which opens every object in the schema.
pub fn crd_schema(
    structural: &structural::Schema,
    preserve_unknown_root: bool,
) -> (Arc<Schema>, TypeRef) {
    let open = preserve_unknown_root || structural.preserve_unknown_fields;
    let mut root = convert_map(structural, open);
    add_object_fields(&mut root);
    (Arc::new(Schema::default()), TypeRef::from(root))
}

/// `apiVersion`, `kind` and `metadata`, independent of the schema.
fn add_object_fields(map: &mut MapType) {
    map.fields
        .insert("apiVersion".into(), TypeRef::scalar(Scalar::String));
    map.fields
        .insert("kind".into(), TypeRef::scalar(Scalar::String));
    map.fields.insert("metadata".into(), object_meta_type());
}

fn convert(schema: &structural::Schema, open: bool) -> TypeRef {
    // Preserving unknown fields opens this object and all below it.
    let open = open || schema.preserve_unknown_fields;
    let mut out = Type::default();
    match schema.schema_type {
        None => {
            out.scalar = Some(Scalar::Untyped);
            out.list = Some(convert_list(schema, open));
            out.map = Some(convert_map(schema, open));
        }
        Some(SchemaType::Object) => out.map = Some(convert_map(schema, open)),
        Some(SchemaType::Array) => out.list = Some(convert_list(schema, open)),
        Some(SchemaType::Integer | SchemaType::Number) => out.scalar = Some(Scalar::Numeric),
        Some(SchemaType::Boolean) => out.scalar = Some(Scalar::Boolean),
        Some(SchemaType::String) => {
            // `byte` is a string on the wire; every other format may be written in other ways.
            let plain = matches!(schema.format.as_str(), "" | "byte");
            out.scalar = Some(if plain {
                Scalar::String
            } else {
                Scalar::Untyped
            });
        }
    }
    if schema.embedded_resource
        && let Some(map) = &mut out.map
    {
        add_object_fields(map);
    }
    TypeRef::from(out)
}

fn convert_map(schema: &structural::Schema, open: bool) -> MapType {
    let fields: BTreeMap<Arc<str>, TypeRef> = schema
        .properties
        .iter()
        .map(|(name, field)| (name.as_str().into(), convert(field, open)))
        .collect();
    // An embedded resource has declared fields even when the schema names none.
    // `type: object` without properties accepts anything, so its content is deduced; a
    // closed map would reject every apply of it.
    let free_form = fields.is_empty() && !schema.embedded_resource;
    let element = match &schema.additional_properties {
        Some(entries) => Some(convert(entries, open)),
        None if open || free_form => Some(TypeRef::Deduced),
        None => None,
    };
    let atomic = schema.map_type == Some(structural::MapType::Atomic);
    MapType {
        fields,
        element,
        atomic,
    }
}

fn convert_list(schema: &structural::Schema, open: bool) -> ListType {
    let Some(items) = &schema.items else {
        return ListType {
            element: TypeRef::Atomic,
            relation: ListRelation::Atomic,
        };
    };
    let relation = match schema.list_type.unwrap_or_default() {
        structural::ListType::Atomic => ListRelation::Atomic,
        structural::ListType::Set => ListRelation::Set,
        structural::ListType::Map => {
            let key = |name: &String| ListKey {
                name: name.as_str().into(),
                default: items
                    .properties
                    .get(name)
                    // Defaults of key fields are part of the identity of an item: `{port: 80}` and `{port: 80, proto:
                    // TCP}` are one item if `proto` defaults to TCP.
                    .and_then(|field| field.default.clone()),
            };
            ListRelation::Map(schema.list_map_keys.iter().map(key).collect())
        }
    };
    ListType {
        element: convert(items, open),
        relation,
    }
}
