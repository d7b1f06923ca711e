//! Decodes `metadata` of custom resources like the Go type `ObjectMeta`: what the decoder accepts, its
//! errors, and the struct when encoded again
//! (`apiextensions-apiserver/pkg/apiserver/schema/objectmeta`).

use serde_json::{Map, Value};

use crate::json::{go_type, settle_numbers, to_string};
use crate::time::{format_time, is_zero, parse_time};

/// Decodes the value of a `metadata` field.
///
/// Gives the canonical form (unknown fields gone, empty ones left out, times in UTC) and the paths
/// of the unknown fields, which start with `metadata.`. The error is the text of the first type
/// mismatch in Go's words.
pub fn decode_object_meta(meta: &Value) -> Result<(Value, Vec<String>), String> {
    let mut decoder = Decoder::default();
    let object = match meta {
        // Decoding null leaves the struct as it is: empty.
        Value::Null => Map::new(),
        Value::Object(fields) => decoder.object_meta(fields),
        other => {
            let found = go_type(other);
            return Err(format!(
                "json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
            ));
        }
    };
    match decoder.error {
        Some(error) => Err(error),
        None => Ok((Value::Object(object), decoder.unknown)),
    }
}

#[derive(Default)]
struct Decoder {
    /// The first mismatch; Go decodes on to the end and reports it.
    error: Option<String>,
    unknown: Vec<String>,
}

/// The Go struct and field that is being filled, for errors.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Name of the innermost struct.
    owner: &'a str,
    /// Field path from the outermost struct.
    field: &'a str,
}

impl Decoder {
    fn mismatch(&mut self, value: &str, place: Place<'_>, go: &str) {
        let Place { owner, field } = place;
        self.error.get_or_insert_with(|| {
            format!(
                "json: cannot unmarshal {value} into Go struct field {owner}.{field} of type {go}"
            )
        });
    }

    fn object_meta(&mut self, fields: &Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, value) in fields {
            let place = Place {
                owner: "ObjectMeta",
                field: key,
            };
            let decoded = match key.as_str() {
                "name" | "generateName" | "namespace" | "selfLink" | "resourceVersion" => {
                    self.text(value, place, "string").filter(not_empty)
                }
                "uid" => self.text(value, place, "types.UID").filter(not_empty),
                "generation" => self.integer(value, place).filter(|n| n.as_i64() != Some(0)),
                "deletionGracePeriodSeconds" => self.integer(value, place),
                "creationTimestamp" | "deletionTimestamp" => self.time(value, place),
                "labels" | "annotations" => self.text_map(value, place),
                "finalizers" => self.items(value, place, "[]string", |decoder, item| {
                    Some(
                        decoder
                            .text(item, place, "string")
                            .unwrap_or_else(|| Value::from("")),
                    )
                }),
                "ownerReferences" => self.list_of_structs(value, key, OWNER, Self::owner),
                "managedFields" => self.list_of_structs(value, key, MANAGED, Self::managed),
                _ => {
                    self.unknown.push(format!("metadata.{key}"));
                    None
                }
            };
            if let Some(decoded) = decoded {
                out.insert(key.clone(), decoded);
            }
        }
        out
    }

    fn owner(&mut self, fields: &Map<String, Value>, path: &str) -> Map<String, Value> {
        // These four are written even when empty.
        let always = ["apiVersion", "kind", "name", "uid"];
        let mut out: Map<String, Value> = always
            .iter()
            .map(|f| ((*f).to_owned(), Value::from("")))
            .collect();
        for (key, value) in fields {
            let field = format!("ownerReferences.{key}");
            let place = Place {
                owner: "OwnerReference",
                field: &field,
            };
            let decoded = match key.as_str() {
                "apiVersion" | "kind" | "name" => self.text(value, place, "string"),
                "uid" => self.text(value, place, "types.UID"),
                "controller" | "blockOwnerDeletion" => self.boolean(value, place),
                _ => {
                    self.unknown.push(format!("{path}.{key}"));
                    None
                }
            };
            if let Some(decoded) = decoded {
                out.insert(key.clone(), decoded);
            }
        }
        out
    }

    fn managed(&mut self, fields: &Map<String, Value>, path: &str) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, value) in fields {
            let field = format!("managedFields.{key}");
            let place = Place {
                owner: "ManagedFieldsEntry",
                field: &field,
            };
            let decoded = match key.as_str() {
                "manager" | "apiVersion" | "fieldsType" | "subresource" => {
                    self.text(value, place, "string").filter(not_empty)
                }
                "operation" => {
                    let go = "v1.ManagedFieldsOperationType";
                    self.text(value, place, go).filter(not_empty)
                }
                "time" => self.time(value, place),
                // Raw bytes to this type: they are validated where the set is decoded.
                "fieldsV1" => Some(value.clone()).filter(|v| !v.is_null()),
                _ => {
                    self.unknown.push(format!("{path}.{key}"));
                    None
                }
            };
            if let Some(decoded) = decoded {
                out.insert(key.clone(), decoded);
            }
        }
        out
    }

    /// `None` for null, which leaves a Go field as it is.
    fn text(&mut self, value: &Value, place: Place<'_>, go: &str) -> Option<Value> {
        match value {
            Value::Null => None,
            Value::String(_) => Some(value.clone()),
            other => {
                self.mismatch(go_type(other), place, go);
                None
            }
        }
    }

    fn boolean(&mut self, value: &Value, place: Place<'_>) -> Option<Value> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(value.clone()),
            other => {
                self.mismatch(go_type(other), place, "bool");
                None
            }
        }
    }

    fn integer(&mut self, value: &Value, place: Place<'_>) -> Option<Value> {
        let mut settled = value.clone();
        if settled.is_number() {
            settle_numbers(&mut settled);
        }
        match &settled {
            Value::Null => None,
            Value::Number(n) if n.is_i64() => Some(settled),
            Value::Number(_) => {
                self.mismatch(&format!("number {}", to_string(value)), place, "int64");
                None
            }
            other => {
                self.mismatch(go_type(other), place, "int64");
                None
            }
        }
    }

    /// Times decode themselves, so an error in the text names no field.
    fn time(&mut self, value: &Value, place: Place<'_>) -> Option<Value> {
        match self.text(value, place, "string")? {
            Value::String(text) => match parse_time(&text) {
                Ok(time) if is_zero(time) => None,
                Ok(time) => Some(Value::from(format_time(time))),
                Err(error) => {
                    self.error.get_or_insert_with(|| error.to_string());
                    None
                }
            },
            _ => None,
        }
    }

    fn text_map(&mut self, value: &Value, place: Place<'_>) -> Option<Value> {
        let Value::Object(entries) = value else {
            if !value.is_null() {
                self.mismatch(go_type(value), place, "map[string]string");
            }
            return None;
        };
        let mut out = Map::new();
        for (key, value) in entries {
            // A null entry is an entry with the zero value.
            let text = self
                .text(value, place, "string")
                .unwrap_or_else(|| Value::from(""));
            out.insert(key.clone(), text);
        }
        (!out.is_empty()).then_some(Value::Object(out))
    }

    fn items(
        &mut self,
        value: &Value,
        place: Place<'_>,
        go: &str,
        mut item: impl FnMut(&mut Self, &Value) -> Option<Value>,
    ) -> Option<Value> {
        let Value::Array(items) = value else {
            if !value.is_null() {
                self.mismatch(go_type(value), place, go);
            }
            return None;
        };
        let items: Vec<Value> = items.iter().filter_map(|i| item(self, i)).collect();
        (!items.is_empty()).then_some(Value::Array(items))
    }

    fn list_of_structs(
        &mut self,
        value: &Value,
        field: &str,
        go: &str,
        decode: impl Fn(&mut Self, &Map<String, Value>, &str) -> Map<String, Value>,
    ) -> Option<Value> {
        let place = Place {
            owner: "ObjectMeta",
            field,
        };
        let mut index = 0;
        self.items(value, place, &format!("[]{go}"), |decoder, item| {
            let path = format!("metadata.{field}[{index}]");
            index += 1;
            let fields = match item {
                Value::Object(fields) => decode(decoder, fields, &path),
                Value::Null => decode(decoder, &Map::new(), &path),
                other => {
                    decoder.mismatch(go_type(other), place, go);
                    return None;
                }
            };
            Some(Value::Object(fields))
        })
    }
}

const OWNER: &str = "v1.OwnerReference";
const MANAGED: &str = "v1.ManagedFieldsEntry";

fn not_empty(value: &Value) -> bool {
    value.as_str() != Some("")
}
