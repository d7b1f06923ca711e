//! Decodes `metadata` of custom resources like the Go type `ObjectMeta`: what the decoder accepts, its
//! errors, and the struct when encoded again
//! (`apiextensions-apiserver/pkg/apiserver/schema/objectmeta`).

use serde_json::{Map, Value};

use crate::json::{go_type, settle_numbers, to_string};
use crate::time::{format_time, is_zero, parse_time};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A string, with the name of its Go type; left out when empty.
    Text(&'static str),
    /// A string that is written even when empty.
    NeededText(&'static str),
    Int,
    /// An integer that is written even when zero.
    IntPointer,
    Bool,
    Time,
    TextMap,
    TextList,
    /// A list of structs: their Go type and fields.
    Structs(&'static str, Fields),
    /// Raw bytes to this type: they are validated where the set is decoded.
    FieldsV1,
}

type Fields = &'static [(&'static str, Kind)];

const OWNER_REFERENCE: Fields = &[
    ("apiVersion", Kind::NeededText("string")),
    ("kind", Kind::NeededText("string")),
    ("name", Kind::NeededText("string")),
    ("uid", Kind::NeededText("types.UID")),
    ("controller", Kind::Bool),
    ("blockOwnerDeletion", Kind::Bool),
];

const MANAGED_FIELDS: Fields = &[
    ("manager", Kind::Text("string")),
    ("operation", Kind::Text("v1.ManagedFieldsOperationType")),
    ("apiVersion", Kind::Text("string")),
    ("time", Kind::Time),
    ("fieldsType", Kind::Text("string")),
    ("fieldsV1", Kind::FieldsV1),
    ("subresource", Kind::Text("string")),
];

const OWNERS: Kind = Kind::Structs("OwnerReference", OWNER_REFERENCE);
const MANAGERS: Kind = Kind::Structs("ManagedFieldsEntry", MANAGED_FIELDS);

const OBJECT_META: Fields = &[
    ("name", Kind::Text("string")),
    ("generateName", Kind::Text("string")),
    ("namespace", Kind::Text("string")),
    ("selfLink", Kind::Text("string")),
    ("uid", Kind::Text("types.UID")),
    ("resourceVersion", Kind::Text("string")),
    ("generation", Kind::Int),
    ("creationTimestamp", Kind::Time),
    ("deletionTimestamp", Kind::Time),
    ("deletionGracePeriodSeconds", Kind::IntPointer),
    ("labels", Kind::TextMap),
    ("annotations", Kind::TextMap),
    ("ownerReferences", OWNERS),
    ("finalizers", Kind::TextList),
    ("managedFields", MANAGERS),
];

/// Decodes the value of a `metadata` field.
///
/// Gives the canonical form (unknown fields gone, empty ones left out, times in UTC) and the paths
/// of the unknown fields, which start with `metadata.`. The error is the text of the first type
/// mismatch in Go's words.
pub fn decode_object_meta(meta: &Value) -> Result<(Value, Vec<String>), String> {
    let (object, unknown) = decode_fields(meta, false)?;
    let unknown = unknown.iter().map(|path| format!("metadata.{path}"));
    Ok((Value::Object(object), unknown.collect()))
}

/// [`decode_object_meta`] with paths relative to the metadata. With `drop_invalid`, fields of the wrong
/// type are dropped.
pub(crate) fn decode_fields(
    meta: &Value,
    drop_invalid: bool,
) -> Result<(Map<String, Value>, Vec<String>), String> {
    let mut unknown = Vec::new();
    let place = Place {
        owner: "ObjectMeta",
        fields: "",
        shown: "",
    };
    let object = match meta {
        // Decoding null leaves the struct as it is: empty.
        Value::Null => Map::new(),
        Value::Object(map) => object(map, OBJECT_META, &place, drop_invalid, &mut unknown)?,
        other => {
            let found = go_type(other);
            return Err(format!(
                "json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
            ));
        }
    };
    Ok((object, unknown))
}

/// Where decoding is: the Go struct, the fields that lead to it, and the path with indexes.
struct Place<'a> {
    owner: &'a str,
    fields: &'a str,
    shown: &'a str,
}

fn object(
    map: &Map<String, Value>,
    fields: Fields,
    place: &Place<'_>,
    drop_invalid: bool,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    for (name, kind) in fields {
        if let Kind::NeededText(_) = kind {
            // Go's struct has no `omitempty` on these fields, so a decoded and
            // encoded owner reference always has them.
            out.insert((*name).to_owned(), "".into());
        }
    }
    for (name, value) in map {
        match fields.iter().find(|(field, _)| field == name) {
            None => unknown.push(format!("{}{name}", place.shown)),
            // Null leaves a Go field as it is.
            Some(_) if value.is_null() => {}
            Some((_, kind)) => match field(name, value, *kind, place, unknown) {
                Ok(Some(value)) => {
                    out.insert(name.clone(), value);
                }
                Ok(None) => {}
                // For objects in storage: a field that was stored with a wrong type by an older server must not make
                // the object unreadable and undeletable.
                Err(_) if drop_invalid => {}
                Err(error) => return Err(error),
            },
        }
    }
    Ok(out)
}

/// The value of a field as it is encoded again; `None` if it is left out.
fn field(
    name: &str,
    value: &Value,
    kind: Kind,
    place: &Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<Option<Value>, String> {
    let cannot = |found: &str, wanted: &str| {
        let (owner, fields) = (place.owner, place.fields);
        format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{fields}{name} of type {wanted}"
        )
    };
    let wrong = |value: &Value, wanted: &str| cannot(go_type(value), wanted);
    let text = |value: &Value| match value {
        // A null entry is an entry with the zero value.
        Value::Null => Ok("".into()),
        Value::String(_) => Ok(value.clone()),
        other => Err(wrong(other, "string")),
    };
    Ok(match (kind, value) {
        (Kind::FieldsV1, _)
        | (Kind::Bool, Value::Bool(_))
        | (Kind::NeededText(_), Value::String(_)) => Some(value.clone()),
        (Kind::Bool, _) => return Err(wrong(value, "bool")),
        (Kind::Text(_), Value::String(text)) => (!text.is_empty()).then(|| value.clone()),
        (Kind::Text(wanted) | Kind::NeededText(wanted), _) => return Err(wrong(value, wanted)),
        (Kind::Int | Kind::IntPointer, Value::Number(_)) => {
            let mut settled = value.clone();
            settle_numbers(&mut settled);
            if !settled.is_i64() {
                return Err(cannot(&format!("number {}", to_string(value)), "int64"));
            }
            (kind == Kind::IntPointer || settled != 0).then_some(settled)
        }
        (Kind::Int | Kind::IntPointer, _) => return Err(wrong(value, "int64")),
        (Kind::Time, Value::String(text)) => {
            // Times decode themselves, so an error in the text names no field.
            let time = parse_time(text).map_err(|error| error.to_string())?;
            (!is_zero(time)).then(|| format_time(time).into())
        }
        (Kind::Time, _) => return Err(wrong(value, "string")),
        (Kind::TextMap, Value::Object(map)) => {
            let entries = map
                .iter()
                .map(|(key, value)| Ok((key.clone(), text(value)?)));
            let entries = entries.collect::<Result<Map<_, _>, String>>()?;
            (!entries.is_empty()).then_some(Value::Object(entries))
        }
        (Kind::TextMap, _) => return Err(wrong(value, "map[string]string")),
        (Kind::TextList, Value::Array(items)) => {
            let items = items.iter().map(text).collect::<Result<Vec<_>, _>>()?;
            (!items.is_empty()).then_some(Value::Array(items))
        }
        (Kind::TextList, _) => return Err(wrong(value, "[]string")),
        (Kind::Structs(owner, fields), Value::Array(items)) => {
            let mut out = Vec::with_capacity(items.len());
            let nothing = Map::new();
            for (i, item) in items.iter().enumerate() {
                let map = match item {
                    Value::Object(map) => map,
                    Value::Null => &nothing,
                    other => return Err(wrong(other, &format!("v1.{owner}"))),
                };
                let (stack, shown) = (format!("{name}."), format!("{}{name}[{i}].", place.shown));
                let place = Place {
                    owner,
                    fields: &stack,
                    shown: &shown,
                };
                out.push(Value::Object(object(map, fields, &place, false, unknown)?));
            }
            (!out.is_empty()).then_some(Value::Array(out))
        }
        (Kind::Structs(owner, _), _) => return Err(wrong(value, &format!("[]v1.{owner}"))),
    })
}
