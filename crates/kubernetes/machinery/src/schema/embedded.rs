//! The object and type metadata of whole and embedded resources (`apiserver/schema/objectmeta`).

use serde_json::{Map, Value};

use super::correlate::field_schema;
use super::names::dns1035_label;
use super::types::Schema;
use crate::field::{ErrorList, FieldError, Path};
use crate::meta::decode_fields;

/// Brings the metadata of every embedded resource, and with `is_root` of the object itself, into the
/// form of `ObjectMeta`: undeclared and empty fields go. Returns the paths of undeclared fields.
///
/// A field of the wrong type is an error, unless `drop_invalid` asks to drop it.
pub fn coerce(
    value: &mut Value,
    schema: &Schema,
    path: &Path,
    is_root: bool,
    drop_invalid: bool,
) -> Result<Vec<String>, FieldError> {
    let mut coercer = Coercer {
        drop_invalid,
        unknown: Vec::new(),
    };
    coercer.coerce(value, schema, path, is_root)?;
    coercer.unknown.sort();
    Ok(coercer.unknown)
}

struct Coercer {
    drop_invalid: bool,
    unknown: Vec<String>,
}

impl Coercer {
    fn coerce(
        &mut self,
        value: &mut Value,
        schema: &Schema,
        path: &Path,
        is_root: bool,
    ) -> Result<(), FieldError> {
        if !schema.has_embedded && !is_root {
            return Ok(());
        }
        match value {
            Value::Object(map) => {
                if schema.embedded_resource || is_root {
                    self.resource(map, path)?;
                }
                for (name, value) in map.iter_mut() {
                    if !matches!(value, Value::Object(_) | Value::Array(_)) {
                        continue;
                    }
                    if let Some(declared) = schema.properties.get(name) {
                        self.coerce(value, declared, &path.child(name), false)?;
                    } else if let Some(extra) = field_schema(schema, name) {
                        self.coerce(value, extra, &path.key(name), false)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.items.as_deref() else {
                    return Ok(());
                };
                for (i, item) in items.iter_mut().enumerate() {
                    self.coerce(item, schema, &path.index(i), false)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn resource(&mut self, map: &mut Map<String, Value>, path: &Path) -> Result<(), FieldError> {
        for name in ["apiVersion", "kind"] {
            match map.get(name) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.drop_invalid => {
                    map.remove(name);
                }
                Some(other) => {
                    return Err(FieldError::invalid(
                        &path.child(name),
                        other.clone(),
                        "must be a string",
                    ));
                }
            }
        }
        let Some(metadata) = map.get("metadata") else {
            return Ok(());
        };
        let at = path.child("metadata");
        match decode_fields(metadata, self.drop_invalid) {
            Ok((decoded, unknown)) => {
                let prefixed = unknown.iter().map(|name| format!("{at}.{name}"));
                self.unknown.extend(prefixed);
                map.insert("metadata".to_owned(), Value::Object(decoded));
            }
            // Upstream passes it through as well: an object in storage stays readable, and validation reports its
            // metadata at the next write.
            Err(_) if self.drop_invalid => {}
            Err(error) => return Err(FieldError::invalid(&at, metadata.clone(), error)),
        }
        Ok(())
    }
}

/// Checks the metadata of every embedded resource, and with `is_root` of the object itself.
///
/// `check_meta` is `ValidateObjectMeta` for a metadata, whether it is of a namespaced object, and its
/// path; a resource without a name is given one first, as only the rest counts.
pub fn check_embedded(
    value: &Value,
    schema: &Schema,
    path: &Path,
    is_root: bool,
    check_meta: &dyn Fn(&Value, bool, &Path) -> Vec<FieldError>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(value, schema, path, is_root, check_meta, &mut errors);
    errors
}

fn check(
    value: &Value,
    schema: &Schema,
    path: &Path,
    is_root: bool,
    check_meta: &dyn Fn(&Value, bool, &Path) -> Vec<FieldError>,
    errors: &mut Vec<FieldError>,
) {
    if !schema.has_embedded && !is_root {
        return;
    }
    match value {
        Value::Object(map) => {
            if schema.embedded_resource || is_root {
                resource(map, path, check_meta, errors);
            }
            for (name, value) in map {
                if !matches!(value, Value::Object(_) | Value::Array(_)) {
                    continue;
                }
                if let Some(declared) = schema.properties.get(name) {
                    check(
                        value,
                        declared,
                        &path.child(name),
                        false,
                        check_meta,
                        errors,
                    );
                } else if let Some(extra) = field_schema(schema, name) {
                    check(value, extra, &path.key(name), false, check_meta, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items.as_deref() else {
                return;
            };
            for (i, item) in items.iter().enumerate() {
                check(item, schema, &path.index(i), false, check_meta, errors);
            }
        }
        _ => {}
    }
}

fn resource(
    map: &Map<String, Value>,
    path: &Path,
    check_meta: &dyn Fn(&Value, bool, &Path) -> Vec<FieldError>,
    errors: &mut Vec<FieldError>,
) {
    for name in ["apiVersion", "kind"] {
        let at = path.child(name);
        match map.get(name) {
            None => errors.required(&at, ""),
            Some(Value::String(text)) if text.is_empty() => {
                errors.invalid(&at, "", "must not be empty");
            }
            Some(Value::String(text)) => {
                let wrong = if name == "kind" {
                    let found = dns1035_label(&text.to_lowercase());
                    (!found.is_empty()).then(|| {
                        let found = found.join(",");
                        format!("may have mixed case, but should otherwise match: {found}")
                    })
                } else {
                    (text.matches('/').count() > 1)
                        .then(|| format!("unexpected GroupVersion string: {text}"))
                };
                if let Some(wrong) = wrong {
                    errors.invalid(&at, text.as_str(), wrong);
                }
            }
            Some(other) => errors.invalid(&at, other.clone(), "must be a string"),
        }
    }
    let Some(metadata) = map.get("metadata") else {
        return;
    };
    let at = path.child("metadata");
    match decode_fields(metadata, false) {
        Err(error) => errors.invalid(&at, metadata.clone(), error),
        Ok((mut metadata, _)) => {
            // Upstream's own placeholder: an embedded template needs no name, but `ValidateObjectMeta` requires one.
            metadata.entry("name").or_insert_with(|| "fakename".into());
            let namespaced = metadata.contains_key("namespace");
            errors.extend(check_meta(&Value::Object(metadata), namespaced, &at));
        }
    }
}
