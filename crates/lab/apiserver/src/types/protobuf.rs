//! Decoding request bodies in `application/vnd.kubernetes.protobuf`.
//!
//! The message is converted to JSON by the table's field numbers and then handled like a JSON body,
//! so both end in the same canonical form.

mod wire;

use base64::Engine as _;
use jiff::Timestamp;
use machinery::gvk::GroupVersionKind;
use serde_json::{Map, Number, Value};

use self::wire::{Reader, Wire};
use super::json::decode_json;
use super::scalars;
use super::table::{Scalar, Shape, Struct, TypeId, table};

/// Prefix of every body.
pub(crate) const PREFIX: &[u8; 4] = b"k8s\0";
/// Levels of messages before decoding gives up.
// Messages nest on the stack here; a body of 3 MiB could otherwise hold a million levels.
const MAX_DEPTH: usize = 200;

/// Decodes a body: the prefix and a `runtime.Unknown` around the object. A missing kind is taken
/// from `default`. The result has apiVersion and kind.
pub(crate) fn decode_protobuf(
    body: &[u8],
    default: Option<&GroupVersionKind>,
) -> Result<Value, String> {
    let message = match body.strip_prefix(PREFIX) {
        None if body.is_empty() => return Err("empty data".to_owned()),
        None => {
            return Err(
                "provided data does not appear to be a protobuf message, expected prefix \
                        [107 56 115 0]"
                    .to_owned(),
            );
        }
        Some([]) => return Err("empty body".to_owned()),
        Some(message) => message,
    };
    let envelope = Envelope::read(message)?;
    let kind = envelope.kind(default)?;
    let id = table()
        .kind(&kind.group, &kind.version, &kind.kind)
        .ok_or_else(|| {
            format!(
                "no kind {:?} is registered for version {:?}",
                kind.kind,
                kind.api_version()
            )
        })?;
    let mut object = Map::new();
    message_into(id, envelope.raw, &mut object, 0)?;
    object.insert("apiVersion".to_owned(), Value::String(kind.api_version()));
    object.insert("kind".to_owned(), Value::String(kind.kind));
    Ok(decode_json(id, Value::Object(object))?.object)
}

/// The kind of a well-formed body, when it is not in the table.
pub(crate) fn unknown_protobuf_kind(
    body: &[u8],
    default: &GroupVersionKind,
) -> Option<GroupVersionKind> {
    let envelope = Envelope::read(body.strip_prefix(PREFIX)?).ok()?;
    let kind = envelope.kind(Some(default)).ok()?;
    let known = table().kind(&kind.group, &kind.version, &kind.kind);
    known.is_none().then_some(kind)
}

/// The used parts of a `runtime.Unknown`.
#[derive(Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(message: &'a [u8]) -> Result<Self, String> {
        let mut envelope = Self::default();
        let mut reader = Reader::new(message);
        while let Some((number, wire)) = reader.next()? {
            match (number, wire) {
                (1, Wire::Bytes(meta)) => {
                    let mut reader = Reader::new(meta);
                    while let Some((number, wire)) = reader.next()? {
                        match number {
                            1 => envelope.api_version = text(wire, "APIVersion")?,
                            2 => envelope.kind = text(wire, "Kind")?,
                            _ => {}
                        }
                    }
                }
                (2, Wire::Bytes(raw)) => envelope.raw = raw,
                (1 | 2, wire) => return Err(wrong_wire(wire, "Unknown")),
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn kind(&self, default: Option<&GroupVersionKind>) -> Result<GroupVersionKind, String> {
        let mut kind = GroupVersionKind::from_api_version(&self.api_version, &self.kind)
            .ok_or_else(|| format!("unexpected GroupVersion string: {}", self.api_version))?;
        if let Some(default) = default {
            if kind.kind.is_empty() {
                kind.kind.clone_from(&default.kind);
            }
            // As `gvkWithDefaults` of upstream's JSON decoder. Its protobuf decoder
            // (`copyKindDefaults`) also replaces a group that was sent without a version.
            if kind.version.is_empty() && kind.group.is_empty() {
                kind.group.clone_from(&default.group);
            }
            if kind.version.is_empty() && kind.group == default.group {
                kind.version.clone_from(&default.version);
            }
        }
        let shown = format!(
            "runtime.TypeMeta{{APIVersion:{}, Kind:{}}}",
            machinery::json::go_quote(&self.api_version),
            machinery::json::go_quote(&self.kind)
        );
        if kind.kind.is_empty() {
            return Err(format!("Object 'Kind' is missing in '{shown}'"));
        }
        if kind.version.is_empty() {
            return Err(format!("Object 'apiVersion' is missing in '{shown}'"));
        }
        Ok(kind)
    }
}

fn wrong_wire(wire: Wire<'_>, field: &str) -> String {
    format!("proto: wrong wireType = {} for field {field}", wire.kind())
}

/// Go strings need not be UTF-8; JSON then has the replacement character.
fn text(wire: Wire<'_>, field: &str) -> Result<String, String> {
    bytes(wire, field).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn bytes<'a>(wire: Wire<'a>, field: &str) -> Result<&'a [u8], String> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        other => Err(wrong_wire(other, field)),
    }
}

fn varint(wire: Wire<'_>, field: &str) -> Result<u64, String> {
    match wire {
        Wire::Varint(value) => Ok(value),
        other => Err(wrong_wire(other, field)),
    }
}

/// Decodes a message into an object; a message in parts is merged, as in protobuf.
fn message_into(
    id: TypeId,
    message: &[u8],
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let Some(structure) = table().structure(id) else {
        return Ok(());
    };
    if depth > MAX_DEPTH {
        return Err("exceeded max depth".to_owned());
    }
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.next()? {
        field_into(structure, number, wire, out, depth)?;
    }
    Ok(())
}

fn field_into(
    structure: &Struct,
    number: u64,
    wire: Wire<'_>,
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let Ok(number) = u16::try_from(number) else {
        return Ok(());
    };
    if let Some((_, id)) = structure
        .embedded
        .iter()
        .find(|(n, _)| *n == number && number != 0)
    {
        return message_into(*id, bytes(wire, table().get(*id).name)?, out, depth + 1);
    }
    let Some(field) = structure
        .fields
        .iter()
        .find(|field| field.number() == Some(number))
    else {
        // Fields of newer versions are skipped.
        return Ok(());
    };
    let ty = table().get(field.ty);
    match &ty.shape {
        Shape::List(item) if !ty.message => {
            let slot = out
                .entry(field.name)
                .or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(items) = slot else {
                return Ok(());
            };
            // proto2 does not pack lists by default, but decoders have to accept both forms.
            match (packable(*item), wire) {
                (true, Wire::Bytes(packed)) => {
                    let mut reader = Reader::new(packed);
                    while !reader.is_empty() {
                        let wire = Wire::Varint(reader.varint()?);
                        items.push(single(*item, wire, field.name, depth)?);
                    }
                }
                _ => items.push(single(*item, wire, field.name, depth)?),
            }
        }
        Shape::Map(_, item) => {
            let (key, value) = entry(*item, bytes(wire, field.name)?, field.name, depth)?;
            let slot = out
                .entry(field.name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(entries) = slot {
                entries.insert(key, value);
            }
        }
        Shape::Struct(_) => {
            let message = bytes(wire, field.name)?;
            let slot = out
                .entry(field.name)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = slot {
                message_into(field.ty, message, inner, depth + 1)?;
            }
        }
        _ => {
            out.insert(
                field.name.to_owned(),
                single(field.ty, wire, field.name, depth)?,
            );
        }
    }
    Ok(())
}

fn packable(id: TypeId) -> bool {
    matches!(
        table().get(id).shape,
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Bool)
    )
}

/// A map entry: key and value are fields 1 and 2, and an absent one is zero.
fn entry(
    item: TypeId,
    message: &[u8],
    field: &str,
    depth: usize,
) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), Value::Null);
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => key = text(wire, field)?,
            2 => value = single(item, wire, field, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// One value of a type.
fn single(id: TypeId, wire: Wire<'_>, field: &str, depth: usize) -> Result<Value, String> {
    match &table().get(id).shape {
        Shape::Scalar(scalar) => self::scalar(*scalar, wire, field, depth),
        Shape::Struct(_) => {
            let mut out = Map::new();
            message_into(id, bytes(wire, field)?, &mut out, depth + 1)?;
            Ok(Value::Object(out))
        }
        // A named list is a message with its items in field 1.
        Shape::List(item) => {
            let mut items = Vec::new();
            let mut reader = Reader::new(bytes(wire, field)?);
            while let Some((number, wire)) = reader.next()? {
                if number == 1 {
                    items.push(single(*item, wire, field, depth + 1)?);
                }
            }
            Ok(Value::Array(items))
        }
        Shape::Map(..) => Err(format!("proto: {field}: a map cannot be an item")),
    }
}

fn scalar(scalar: Scalar, wire: Wire<'_>, field: &str, depth: usize) -> Result<Value, String> {
    Ok(match scalar {
        Scalar::String => Value::String(text(wire, field)?),
        Scalar::Bool => Value::Bool(varint(wire, field)? != 0),
        Scalar::Int32 => Value::from(truncate(varint(wire, field)?)),
        Scalar::Int64 => Value::from(varint(wire, field)?.cast_signed()),
        Scalar::Float64 => match wire {
            Wire::Fixed64(bits) => {
                Number::from_f64(f64::from_le_bytes(bits)).map_or(Value::Null, Value::Number)
            }
            other => return Err(wrong_wire(other, field)),
        },
        Scalar::Bytes => {
            let bytes = bytes(wire, field)?;
            Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        Scalar::Time | Scalar::MicroTime => time(bytes(wire, field)?, scalar == Scalar::MicroTime)?,
        Scalar::Quantity => {
            let mut quantity = Value::Null;
            for_each(bytes(wire, field)?, |number, wire| {
                if number == 1 {
                    quantity = Value::String(text(wire, field)?);
                }
                Ok(())
            })?;
            quantity
        }
        Scalar::IntOrString => int_or_string(bytes(wire, field)?, field)?,
        Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json => {
            let mut value = Value::Null;
            for_each(bytes(wire, field)?, |number, wire| {
                if number == 1 {
                    value = raw(bytes(wire, field)?, field)?;
                }
                Ok(())
            })?;
            value
        }
        Scalar::SchemaOrBool | Scalar::SchemaOrArray | Scalar::SchemaOrStrings => {
            schema_or(scalar, bytes(wire, field)?, field, depth)?
        }
    })
}

fn for_each<'a>(
    message: &'a [u8],
    mut field: impl FnMut(u64, Wire<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.next()? {
        field(number, wire)?;
    }
    Ok(())
}

/// The low 32 bits, as in generated Go code.
fn truncate(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// A timestamp; an empty message is Go's zero time.
fn time(message: &[u8], micros: bool) -> Result<Value, String> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    for_each(message, |number, wire| {
        match number {
            1 => seconds = varint(wire, "Seconds")?.cast_signed(),
            2 => nanos = truncate(varint(wire, "Nanos")?),
            _ => {}
        }
        Ok(())
    })?;
    let time = Timestamp::new(seconds, if micros { nanos } else { 0 })
        .map_err(|_| format!("timestamp {seconds} is out of range"))?;
    Ok(scalars::format_time(time, micros).map_or(Value::Null, Value::String))
}

fn int_or_string(message: &[u8], field: &str) -> Result<Value, String> {
    let (mut kind, mut integer, mut string) = (0, 0, String::new());
    for_each(message, |number, wire| {
        match number {
            1 => kind = varint(wire, field)?,
            2 => integer = truncate(varint(wire, field)?),
            3 => string = text(wire, field)?,
            _ => {}
        }
        Ok(())
    })?;
    match kind {
        0 => Ok(Value::from(integer)),
        1 => Ok(Value::String(string)),
        _ => Err("impossible IntOrString.Type".to_owned()),
    }
}

/// JSON inside a message.
fn raw(bytes: &[u8], field: &str) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(bytes).map_err(|error| format!("{field}: not JSON: {error}"))
}

fn schema_or(scalar: Scalar, message: &[u8], field: &str, depth: usize) -> Result<Value, String> {
    let Some(props) = table().find("apiextensions/v1.JSONSchemaProps") else {
        return Ok(Value::Null);
    };
    let (mut schema, mut items, mut allows) = (None, Vec::new(), false);
    for_each(message, |number, wire| {
        match (scalar, number) {
            (Scalar::SchemaOrBool, 1) => allows = varint(wire, field)? != 0,
            (Scalar::SchemaOrBool, 2) | (_, 1) => {
                schema = Some(single(props, wire, field, depth + 1)?);
            }
            (Scalar::SchemaOrArray, 2) => items.push(single(props, wire, field, depth + 1)?),
            (Scalar::SchemaOrStrings, 2) => items.push(Value::String(text(wire, field)?)),
            _ => {}
        }
        Ok(())
    })?;
    Ok(match (scalar, schema) {
        (Scalar::SchemaOrBool, None) => Value::Bool(allows),
        (Scalar::SchemaOrBool, Some(schema)) => schema,
        _ if !items.is_empty() => Value::Array(items),
        (_, schema) => schema.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
