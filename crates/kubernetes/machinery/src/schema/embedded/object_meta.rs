//! `ObjectMeta` as Go decodes it: declared fields of the right type, nothing empty.

use serde_json::{Map, Value};

use super::super::formats;

/// Metadata as it is written back, and what was not declared.
pub(super) struct Decoded {
    pub(super) metadata: Map<String, Value>,
    pub(super) unknown: Vec<String>,
}

#[derive(Clone, Copy)]
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
    Anything,
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
    ("fieldsV1", Kind::Anything),
    ("subresource", Kind::Text("string")),
];

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
    (
        "ownerReferences",
        Kind::Structs("OwnerReference", OWNER_REFERENCE),
    ),
    ("finalizers", Kind::TextList),
    (
        "managedFields",
        Kind::Structs("ManagedFieldsEntry", MANAGED_FIELDS),
    ),
];

/// Reads metadata; the error is in Go's words. With `drop_invalid` wrong fields of an object are
/// dropped instead.
pub(super) fn decode(metadata: &Value, drop_invalid: bool) -> Result<Decoded, String> {
    let map = match metadata {
        Value::Object(map) => map,
        Value::Null => {
            return Ok(Decoded {
                metadata: Map::new(),
                unknown: Vec::new(),
            });
        }
        other => {
            let kind = kind_of(other);
            return Err(format!(
                "json: cannot unmarshal {kind} into Go value of type v1.ObjectMeta"
            ));
        }
    };
    let mut unknown = Vec::new();
    let place = Place {
        owner: "ObjectMeta",
        fields: "",
        shown: "",
    };
    let metadata = object(map, OBJECT_META, &place, drop_invalid, &mut unknown)?;
    Ok(Decoded { metadata, unknown })
}

/// Where decoding is: the Go struct, the fields that lead to it, and the path with indexes.
struct Place<'a> {
    owner: &'a str,
    fields: &'a str,
    shown: &'a str,
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) if number.is_f64() => format!("number {number}"),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
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
            out.insert((*name).to_owned(), "".into());
        }
    }
    for (name, value) in map {
        match fields.iter().find(|(field, _)| field == name) {
            None => unknown.push(format!("{}{name}", place.shown)),
            Some(_) if value.is_null() => {}
            Some((_, kind)) => match field(name, value, *kind, place, unknown) {
                Ok(Some(value)) => {
                    out.insert(name.clone(), value);
                }
                Ok(None) => {}
                Err(_) if drop_invalid => {}
                Err(error) => return Err(error),
            },
        }
    }
    Ok(out)
}

fn field(
    name: &str,
    value: &Value,
    kind: Kind,
    place: &Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<Option<Value>, String> {
    let wrong = |value: &Value, wanted: &str| {
        let kind = match (value, wanted) {
            (Value::Number(_), "int64") => kind_of(value),
            (Value::Number(_), _) => "number".to_owned(),
            _ => kind_of(value),
        };
        let (owner, fields) = (place.owner, place.fields);
        Err(format!(
            "json: cannot unmarshal {kind} into Go struct field {owner}.{fields}{name} of type {wanted}"
        ))
    };
    Ok(match (kind, value) {
        (Kind::Anything, _)
        | (Kind::Bool, Value::Bool(_))
        | (Kind::NeededText(_), Value::String(_)) => Some(value.clone()),
        (Kind::IntPointer, Value::Number(n)) if n.is_i64() => Some(value.clone()),
        (Kind::Text(_), Value::String(text)) => (!text.is_empty()).then(|| value.clone()),
        (Kind::Text(wanted) | Kind::NeededText(wanted), _) => return wrong(value, wanted),
        (Kind::Int, Value::Number(n)) if n.is_i64() => {
            (n.as_i64() != Some(0)).then(|| value.clone())
        }
        (Kind::Int | Kind::IntPointer, _) => return wrong(value, "int64"),
        (Kind::Bool, _) => return wrong(value, "bool"),
        (Kind::Time, Value::String(text)) => {
            let time = text.parse::<jiff::Timestamp>().ok();
            if let Some(time) = time.filter(|_| formats::matches("date-time", text) == Some(true)) {
                // Times are kept in UTC, to the second.
                Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into())
            } else {
                let quoted = crate::json::go_quote(text);
                return Err(format!(
                    "parsing time {quoted} as \"2006-01-02T15:04:05Z07:00\": cannot parse {quoted} as \"2006\""
                ));
            }
        }
        (Kind::Time, _) => {
            let kind = kind_of(value);
            return Err(format!(
                "json: cannot unmarshal {kind} into Go value of type string"
            ));
        }
        (Kind::TextMap, Value::Object(map)) => {
            for entry in map.values() {
                if !entry.is_string() && !entry.is_null() {
                    return wrong(entry, "string");
                }
            }
            let texts = map
                .iter()
                .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().into()));
            (!map.is_empty()).then(|| Value::Object(texts.collect()))
        }
        (Kind::TextMap, _) => return wrong(value, "map[string]string"),
        (Kind::TextList, Value::Array(items)) => {
            for item in items {
                if !item.is_string() {
                    return wrong(item, "string");
                }
            }
            (!items.is_empty()).then(|| value.clone())
        }
        (Kind::TextList, _) => return wrong(value, "[]string"),
        (Kind::Structs(owner, fields), Value::Array(items)) => {
            let mut out = Vec::with_capacity(items.len());
            for (i, item) in items.iter().enumerate() {
                let Value::Object(map) = item else {
                    return wrong(item, &format!("v1.{owner}"));
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
        (Kind::Structs(owner, _), _) => return wrong(value, &format!("[]v1.{owner}")),
    })
}
