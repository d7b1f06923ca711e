//! Decoding JSON into a built-in type as Go does: wrong types are errors with Go's text, unknown
//! fields are dropped and reported, and the result is what Go would serialize.
//!
//! Follows `sigs.k8s.io/json` (case-sensitive, strict errors collected) and the `UnmarshalJSON`
//! methods of the special types.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use super::scalars;
use super::table::{Field, Scalar, Shape, Table, TypeId, table};

/// Levels of nesting before decoding gives up.
// A second line of defence: the parser has limited the body before, and no built-in type but the
// JSON schema of CRDs nests without bound.
const MAX_DEPTH: usize = 512;
/// Maximum number of reported unknown fields; the rest is only dropped, as upstream.
// `sigs.k8s.io/json` stops collecting strict errors at 100.
const MAX_UNKNOWN: usize = 100;

/// A decoded object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecodedJson {
    /// The object in canonical form.
    pub(crate) object: Value,
    /// Paths of fields the type does not have, such as `spec.containers[0].imag`.
    pub(crate) unknown: Vec<String>,
}

/// Decodes `raw` into the type. The error is the text of Go's decoder.
///
/// Fields are visited by name, since that is the order the parsed object has; of several type
/// errors the first in that order is reported.
pub(crate) fn decode_json(root: TypeId, raw: Value) -> Result<DecodedJson, String> {
    let mut decoder = Decoder::new(table());
    let object = decoder.value(root, raw)?;
    match decoder.saved {
        Some(error) => Err(error),
        None => Ok(DecodedJson {
            object,
            unknown: decoder.unknown,
        }),
    }
}

struct Decoder {
    table: &'static Table,
    unknown: Vec<String>,
    /// First type error; decoding continues after it, because a fatal error further on takes
    /// precedence.
    saved: Option<String>,
    /// Path of the current value as strict errors print it.
    path: String,
    /// Path of the current value as type errors print it: no indexes, no map keys.
    stack: String,
    /// The struct the current field is in.
    structure: Option<&'static str>,
    depth: usize,
    /// Inside a type with its own decoder, where unknown fields are not reported.
    lenient: bool,
}

/// Go's name for the kind of a JSON value.
fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The integer a JSON number is; `None` when it has a fraction or an exponent.
fn integer(number: &Number) -> Option<i64> {
    number.as_i64()
}

/// Go writes a float without a fraction as an integer.
fn float(number: &Number) -> Number {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
            #[expect(clippy::cast_possible_truncation, reason = "integral and below 1e15")]
            let whole = float as i64;
            Number::from(whole)
        }
        _ => number.clone(),
    }
}

impl Decoder {
    fn new(table: &'static Table) -> Self {
        Self {
            table,
            unknown: Vec::new(),
            saved: None,
            path: String::new(),
            stack: String::new(),
            structure: None,
            depth: 0,
            lenient: false,
        }
    }

    /// The text of a type error at the current path.
    fn mismatch(&self, value: &str, go_type: &str) -> String {
        match self.structure {
            Some(structure) => format!(
                "json: cannot unmarshal {value} into Go struct field {structure}.{} of type {go_type}",
                self.stack
            ),
            None => format!("json: cannot unmarshal {value} into Go value of type {go_type}"),
        }
    }

    fn save(&mut self, error: String) {
        // Go's decoder keeps the first type error and decodes on. An error of a type's own decoder,
        // such as a malformed time, ends it and is reported instead.
        self.saved.get_or_insert(error);
    }

    /// Records a type error and continues with the zero value.
    fn wrong(&mut self, id: TypeId, value: &Value) -> Value {
        if self.saved.is_none() {
            let error = self.mismatch(describe(value), &self.table.go_name(id));
            self.save(error);
        }
        self.zero(id)
    }

    fn value(&mut self, id: TypeId, value: Value) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        let result = match &self.table.get(id).shape {
            Shape::Scalar(scalar) => self.scalar(id, *scalar, value),
            Shape::List(item) => match value {
                Value::Array(items) => self.list(*item, items),
                Value::Null => Ok(Value::Null),
                other => Ok(self.wrong(id, &other)),
            },
            Shape::Map(_, item) => match value {
                Value::Object(entries) => self.map(*item, entries),
                Value::Null => Ok(Value::Null),
                other => Ok(self.wrong(id, &other)),
            },
            Shape::Struct(structure) => match value {
                Value::Object(entries) => {
                    self.fields(self.table.get(id).name, &structure.fields, entries)
                }
                // A null leaves a Go struct at its zero value, whose fields without `omitempty` are
                // then written.
                Value::Null => Ok(self.zero(id)),
                other => Ok(self.wrong(id, &other)),
            },
        };
        self.depth -= 1;
        result
    }

    fn list(&mut self, item: TypeId, items: Vec<Value>) -> Result<Value, String> {
        let length = self.path.len();
        let mut out = Vec::with_capacity(items.len());
        for (index, value) in items.into_iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(self.path, "[{index}]");
            out.push(self.value(item, value)?);
            self.path.truncate(length);
        }
        Ok(Value::Array(out))
    }

    fn map(&mut self, item: TypeId, entries: Map<String, Value>) -> Result<Value, String> {
        let length = self.path.len();
        let mut out = Map::new();
        for (key, value) in entries {
            self.push_path(&key);
            let value = self.value(item, value)?;
            self.path.truncate(length);
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }

    fn push_path(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    /// Both sides are sorted by name, so one walk finds known, unknown and missing fields.
    fn fields(
        &mut self,
        name: &'static str,
        fields: &'static [Field],
        entries: Map<String, Value>,
    ) -> Result<Value, String> {
        let mut out = Map::new();
        let mut fields = fields.iter().peekable();
        for (key, value) in entries {
            while let Some(missing) = fields.next_if(|field| field.name < key.as_str()) {
                self.missing(missing, &mut out);
            }
            match fields.next_if(|field| field.name == key) {
                Some(field) => self.field(name, field, value, &mut out)?,
                None => self.report_unknown(&key),
            }
        }
        for missing in fields {
            self.missing(missing, &mut out);
        }
        Ok(Value::Object(out))
    }

    fn report_unknown(&mut self, key: &str) {
        if self.lenient || self.unknown.len() >= MAX_UNKNOWN {
            return;
        }
        let path = if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        };
        self.unknown.push(path);
    }

    fn field(
        &mut self,
        name: &'static str,
        field: &'static Field,
        value: Value,
        out: &mut Map<String, Value>,
    ) -> Result<(), String> {
        if field.pointer && value.is_null() {
            self.missing(field, out);
            return Ok(());
        }
        let (path, stack) = (self.path.len(), self.stack.len());
        let structure = self.structure.replace(name);
        self.push_path(field.name);
        if stack > 0 {
            self.stack.push('.');
        }
        self.stack.push_str(&field.embedded_in);
        self.stack.push_str(field.name);
        let value = self.value(field.ty, value)?;
        self.path.truncate(path);
        self.stack.truncate(stack);
        self.structure = structure;
        if field.pointer || !self.is_omitted(field, &value) {
            out.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    fn missing(&self, field: &Field, out: &mut Map<String, Value>) {
        let value = if field.pointer {
            Value::Null
        } else {
            self.zero(field.ty)
        };
        if !self.is_omitted(field, &value) {
            out.insert(field.name.to_owned(), value);
        }
    }

    /// Go's `omitempty` and `omitzero`: a struct is never empty, but a nil pointer is.
    fn is_omitted(&self, field: &Field, value: &Value) -> bool {
        if field.always {
            return false;
        }
        if field.pointer {
            return value.is_null();
        }
        if field.omit_zero {
            return value.is_null();
        }
        match &self.table.get(field.ty).shape {
            Shape::Struct(_) => false,
            Shape::List(_) => value.as_array().is_none_or(Vec::is_empty),
            Shape::Map(..) => value.as_object().is_none_or(Map::is_empty),
            Shape::Scalar(scalar) => match scalar {
                Scalar::String | Scalar::Bytes => value.as_str().is_none_or(str::is_empty),
                Scalar::Bool => value == &Value::Bool(false),
                Scalar::Int32 | Scalar::Int64 | Scalar::Float64 => value.as_f64() == Some(0.0),
                _ => false,
            },
        }
    }

    /// The serialized zero value of a type in Go.
    fn zero(&self, id: TypeId) -> Value {
        match &self.table.get(id).shape {
            Shape::List(_) | Shape::Map(..) => Value::Null,
            Shape::Struct(structure) => {
                let mut out = Map::new();
                for field in &structure.fields {
                    self.missing(field, &mut out);
                }
                Value::Object(out)
            }
            Shape::Scalar(scalar) => match scalar {
                Scalar::String => Value::String(String::new()),
                Scalar::Bool | Scalar::SchemaOrBool => Value::Bool(false),
                Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::IntOrString => {
                    Value::from(0)
                }
                Scalar::Quantity => Value::String("0".to_owned()),
                Scalar::Bytes
                | Scalar::Time
                | Scalar::MicroTime
                | Scalar::RawExtension
                | Scalar::FieldsV1
                | Scalar::Json
                | Scalar::SchemaOrArray
                | Scalar::SchemaOrStrings => Value::Null,
            },
        }
    }

    fn scalar(&mut self, id: TypeId, scalar: Scalar, value: Value) -> Result<Value, String> {
        match (scalar, value) {
            // Types with their own `UnmarshalJSON`, whose errors end the decoding.
            (Scalar::Time, value) => self.time(value, scalars::time),
            (Scalar::MicroTime, value) => self.time(value, scalars::micro_time),
            (Scalar::Quantity, value) => Self::quantity(&value),
            (Scalar::IntOrString, value) => self.int_or_string(value),
            (Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json, value) => Ok(value),
            (Scalar::SchemaOrBool, value) => match value {
                Value::Bool(_) => Ok(value),
                Value::Object(_) => self.nested("apiextensions/v1.JSONSchemaProps", value),
                _ => Err("boolean or JSON schema expected".to_owned()),
            },
            (Scalar::SchemaOrArray, value) => match value {
                Value::Object(_) => self.nested("apiextensions/v1.JSONSchemaProps", value),
                Value::Array(items) => {
                    let mut out = Vec::with_capacity(items.len());
                    for item in items {
                        out.push(self.nested("apiextensions/v1.JSONSchemaProps", item)?);
                    }
                    Ok(if out.is_empty() {
                        Value::Null
                    } else {
                        Value::Array(out)
                    })
                }
                _ => Ok(Value::Null),
            },
            (Scalar::SchemaOrStrings, value) => match value {
                Value::Object(_) => self.nested("apiextensions/v1.JSONSchemaProps", value),
                Value::Array(items) => self.strings(items),
                _ => Ok(Value::Null),
            },
            // Plain literals; a null leaves the zero value.
            (_, Value::Null) => Ok(self.zero(id)),
            (Scalar::String, Value::String(text)) => Ok(Value::String(text)),
            (Scalar::Bool, Value::Bool(flag)) => Ok(Value::Bool(flag)),
            (Scalar::Int32 | Scalar::Int64, Value::Number(number)) => {
                let fits = integer(&number)
                    .filter(|i| scalar == Scalar::Int64 || i32::try_from(*i).is_ok());
                Ok(if let Some(integer) = fits {
                    Value::from(integer)
                } else {
                    let go_name = self.table.go_name(id);
                    let error = self.mismatch(&format!("number {number}"), &go_name);
                    self.save(error);
                    Value::from(0)
                })
            }
            (Scalar::Float64, Value::Number(number)) => Ok(Value::Number(float(&number))),
            (Scalar::Bytes, Value::String(text)) => Ok(self.bytes(&text)),
            (Scalar::Bytes, Value::Array(items)) => Ok(self.byte_list(&items)),
            (_, other) => Ok(self.wrong(id, &other)),
        }
    }

    fn time(
        &self,
        value: Value,
        parse: fn(&str) -> Result<Option<String>, String>,
    ) -> Result<Value, String> {
        match value {
            Value::Null => Ok(Value::Null),
            Value::String(text) => Ok(parse(&text)?.map_or(Value::Null, Value::String)),
            other => Err(self.mismatch(describe(&other), "string")),
        }
    }

    fn quantity(value: &Value) -> Result<Value, String> {
        match value {
            Value::Null => Ok(Value::String("0".to_owned())),
            other => scalars::quantity(other).map(Value::String),
        }
    }

    fn int_or_string(&self, value: Value) -> Result<Value, String> {
        match value {
            Value::String(text) => Ok(Value::String(text)),
            Value::Null => Ok(Value::from(0)),
            Value::Number(number) => integer(&number)
                .filter(|i| i32::try_from(*i).is_ok())
                .map(Value::from)
                .ok_or_else(|| self.mismatch(&format!("number {number}"), "int32")),
            other => Err(self.mismatch(describe(&other), "int32")),
        }
    }

    fn bytes(&mut self, text: &str) -> Value {
        use base64::Engine as _;
        match scalars::base64(text) {
            Ok(bytes) => Value::String(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Err(error) => {
                self.save(error);
                Value::Null
            }
        }
    }

    /// Go also takes bytes as a list of numbers.
    fn byte_list(&mut self, items: &[Value]) -> Value {
        use base64::Engine as _;
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            let byte = match item {
                Value::Null => Some(0),
                Value::Number(number) => integer(number).and_then(|i| u8::try_from(i).ok()),
                _ => None,
            };
            if byte.is_none() {
                let what = match item {
                    Value::Number(number) => format!("number {number}"),
                    other => describe(other).to_owned(),
                };
                let error = self.mismatch(&what, "uint8");
                self.save(error);
            }
            bytes.push(byte.unwrap_or(0));
        }
        Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    fn strings(&self, items: Vec<Value>) -> Result<Value, String> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Value::String(_) => out.push(item),
                Value::Null => out.push(Value::String(String::new())),
                other => return Err(self.mismatch(describe(&other), "string")),
            }
        }
        Ok(if out.is_empty() {
            Value::Null
        } else {
            Value::Array(out)
        })
    }

    /// A value decoded by its own decoder: not strict, and its first error ends the decoding.
    fn nested(&mut self, name: &str, value: Value) -> Result<Value, String> {
        let Some(id) = self.table.find(name) else {
            return Ok(value);
        };
        let outer = self.saved.take();
        let lenient = std::mem::replace(&mut self.lenient, true);
        let value = self.value(id, value)?;
        self.lenient = lenient;
        if let Some(error) = std::mem::replace(&mut self.saved, outer) {
            return Err(error);
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
