//! The behaviour of custom resources in one version.

use std::sync::Arc;

use jiff::Timestamp;
use machinery::apply::{FieldSet, Schema as MergeSchema, TypeRef};
use machinery::cel::CompiledRules;
use machinery::field::{FieldError, Path};
use machinery::jsonpath::SimplePath;
use machinery::meta;
use machinery::names;
use machinery::patch::StrategicType;
use machinery::schema::{self, CompiledSchema};
use machinery::table::{Column, PrinterColumn};
use serde_json::{Map, Value};

use super::scale;
use crate::errors::Errors;
use crate::kind::{Decoded, Findings, Part, ScalePaths, Strategy, WriteContext};

/// One version of a CRD.
pub(crate) struct CustomStrategy {
    pub(crate) schema: CompiledSchema,
    pub(crate) rules: CompiledRules,
    pub(crate) merge: (Arc<MergeSchema>, TypeRef),
    pub(crate) columns: Vec<PrinterColumn>,
    pub(crate) selectable: Vec<String>,
    pub(crate) has_status: bool,
    /// Paths of the scale subresource, if the CRD has one.
    pub(crate) scale: Option<ScalePaths>,
    /// Whether unknown fields are preserved (`spec.preserveUnknownFields`).
    pub(crate) preserve_unknown: bool,
}

impl CustomStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>, part: Part<'_>) -> Findings {
        let root = Path::root();
        let mut errors = Errors::from(match (part, old) {
            (Part::Status, _) => match new.get("status") {
                Some(new_status) => {
                    let old = old.map(|old| old.get("status").unwrap_or(&Value::Null));
                    self.schema.validate_status(new_status, old)
                }
                None => Vec::new(),
            },
            (_, Some(old)) => self.schema.validate_update(new, old, &root),
            (_, None) => self.schema.validate(new, &root),
        });
        if let Some(paths) = &self.scale {
            errors += scale::check(paths, new, part);
        }
        let structural = self.schema.schema();
        errors += schema::check_embedded(new, structural, &root, false, &check_embedded_meta);
        errors += match old {
            Some(old) => schema::check_lists_update(new, old, structural, &root),
            None => schema::check_lists(new, structural, &root),
        };
        let mut warnings = Vec::new();
        if self.rules.has_rules() {
            // Rules are compiled for the types of the schema. On a value of another type they would
            // fail with errors of their own, which hide the cause.
            if let Some(blocked) = schema::rules_blocked(&errors) {
                errors.push(blocked);
            } else {
                let found = self.rules.validate(&root, new, old);
                errors += found.errors;
                warnings = found.warnings;
            }
        }
        Findings { errors, warnings }
    }
}

/// Metadata of embedded objects, whose names are just path segments.
pub(crate) fn check_embedded_meta(
    metadata: &Value,
    namespaced: bool,
    path: &Path,
) -> Vec<FieldError> {
    meta::validate_object_meta(
        metadata,
        namespaced,
        |name, _| names::is_path_segment_name(name),
        path,
    )
}

/// A copy of an object without one field, which may be large.
fn without(object: &Map<String, Value>, field: &str) -> Map<String, Value> {
    let kept = object.iter().filter(|(name, _)| *name != field);
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Normalizes metadata; returns the paths of dropped fields.
fn decode_metadata(object: &mut Value) -> Result<Vec<String>, String> {
    let Some(fields) = object.as_object_mut() else {
        return Ok(Vec::new());
    };
    let Some(metadata) = fields.remove("metadata") else {
        return Ok(Vec::new());
    };
    let (metadata, dropped) = meta::decode_object_meta(&metadata)?;
    fields.insert("metadata".into(), metadata);
    Ok(dropped)
}

impl Strategy for CustomStrategy {
    fn decode(&self, mut raw: Value) -> Result<Decoded, String> {
        let structural = self.schema.schema();
        let mut unknown = decode_metadata(&mut raw)?;
        if !self.preserve_unknown {
            unknown.extend(schema::prune(&mut raw, structural, true));
        }
        let embedded = schema::coerce(&mut raw, structural, &Path::root(), false, false)
            .map_err(|error| error.to_string())?;
        unknown.extend(embedded);
        schema::prune_nulls(&mut raw, structural);
        unknown.sort();
        Ok(Decoded {
            object: raw,
            unknown,
            warnings: Vec::new(),
        })
    }

    fn decode_applied(&self, mut merged: Value) -> Result<Value, String> {
        // Neither pruned nor cleared of nulls: the typed merge has already rejected unknown fields,
        // and an applied null has to fail validation instead of vanishing.
        decode_metadata(&mut merged)?;
        Ok(merged)
    }

    fn default(&self, object: &mut Value) {
        schema::default(object, self.schema.schema());
    }

    fn prepare_create(&self, object: &mut Value, _context: WriteContext<'_>) {
        // The status belongs to the controller. A client that creates an object from a copy must
        // not make it appear reconciled (`customresource/strategy.go`).
        if self.has_status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
    }

    fn prepare_update(
        &self,
        new: &mut Value,
        old: &Value,
        part: Part<'_>,
        _context: WriteContext<'_>,
    ) {
        if !self.has_status {
            return;
        }
        let (Some(fields), Some(old)) = (new.as_object_mut(), old.as_object()) else {
            return;
        };
        if part == Part::Status {
            // Only the status and its managed fields may change.
            let managed = fields
                .get_mut("metadata")
                .and_then(Value::as_object_mut)
                .and_then(|metadata| metadata.remove("managedFields"));
            let status = fields.remove("status");
            *fields = without(old, "status");
            if let Some(status) = status {
                fields.insert("status".into(), status);
            }
            if let Some(Value::Object(metadata)) = old.get("metadata") {
                let mut metadata = without(metadata, "managedFields");
                if let Some(managed) = managed {
                    metadata.insert("managedFields".into(), managed);
                }
                fields.insert("metadata".into(), Value::Object(metadata));
            }
        } else {
            match old.get("status") {
                Some(status) => fields.insert("status".into(), status.clone()),
                None => fields.remove("status"),
            };
        }
    }

    /// Any field outside metadata counts, and outside status where that is a subresource.
    fn new_generation(&self, new: &Value, old: &Value, _part: Part<'_>) -> bool {
        let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
            return false;
        };
        let counts = |name: &&String| match name.as_str() {
            "metadata" => false,
            "status" => !self.has_status,
            _ => true,
        };
        let mut names = new.keys().chain(old.keys()).filter(counts);
        names.any(|name| new.get(name) != old.get(name))
    }

    fn validate_create(&self, object: &Value) -> Findings {
        self.validate(object, None, Part::Main)
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part<'_>) -> Findings {
        self.validate(new, Some(old), part)
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::name_is_dns_subdomain(name, prefix)
    }

    fn merge_type(&self) -> (Arc<MergeSchema>, TypeRef) {
        self.merge.clone()
    }

    fn reset_fields(&self, part: Part<'_>) -> FieldSet {
        match part {
            Part::Main if self.has_status => FieldSet::of_fields(&["status"]),
            Part::Status => FieldSet::of_fields(&["metadata", "spec"]),
            _ => FieldSet::default(),
        }
    }

    fn strategic(&self) -> Option<&dyn StrategicType> {
        None
    }

    fn selectable(&self, object: &Value, field: &str) -> Option<String> {
        if !self.is_selectable(field) {
            return None;
        }
        let path = SimplePath::parse(&format!(".{field}")).ok()?;
        Some(match path.get(object) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        })
    }

    fn is_selectable(&self, field: &str) -> bool {
        self.selectable
            .iter()
            .any(|path| path.strip_prefix('.') == Some(field))
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::object_name()];
        columns.extend(self.columns.iter().map(|column| column.column().clone()));
        columns
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![Value::from(meta::name(object))];
        cells.extend(self.columns.iter().map(|column| column.cell(object, now)));
        cells
    }
}

/// The warning for a deprecated version.
pub(crate) fn deprecation(
    version: &Value,
    api_version: &str,
    kind: &str,
    newer: Option<&str>,
) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.to_owned());
    }
    Some(match newer {
        Some(newer) => format!("{api_version} {kind} is deprecated; use {newer} {kind}"),
        None => format!("{api_version} {kind} is deprecated"),
    })
}
