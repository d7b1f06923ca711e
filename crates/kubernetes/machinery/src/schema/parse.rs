//! Reading the JSON of a CRD's schema.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::types::{IntOrStringForm, ListType, MapType, Schema, SchemaType, ValidationRule};
use crate::json::{go_type, is_deeper_than};

/// How deep the JSON of a schema may nest: less than the wire allows, so that everything that is done
/// with a schema fits the stack of a worker even in an unoptimised build.
pub(super) const MAX_JSON_DEPTH: usize = 160;

impl Schema {
    /// Parses the `openAPIV3Schema` of a CRD version.
    ///
    /// Only wrong JSON types and excessive nesting are errors here: the contents are checked by
    /// [`check_structural`](super::check_structural).
    pub fn parse(json: &Value) -> Result<Self, String> {
        if is_deeper_than(json, MAX_JSON_DEPTH) {
            return Err(format!("schema nests deeper than {MAX_JSON_DEPTH} levels"));
        }
        read(json)
    }
}

fn mismatch(value: &Value, key: &str, wanted: &str) -> String {
    let kind = go_type(value);
    let dot = if key.is_empty() { "" } else { "." };
    format!(
        "json: cannot unmarshal {kind} into Go struct field JSONSchemaProps{dot}{key} of type {wanted}"
    )
}

struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        // Go decodes null into the zero value, so `maxLength: null` is the same as no limit.
        self.0.get(key).filter(|v| !v.is_null())
    }

    fn read<T>(
        &self,
        key: &str,
        wanted: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        self.get(key)
            .map(|v| convert(v).ok_or_else(|| mismatch(v, key, wanted)))
            .transpose()
    }

    fn text(&self, key: &str) -> Result<String, String> {
        Ok(self
            .read(key, "string", |v| v.as_str().map(str::to_owned))?
            .unwrap_or_default())
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        Ok(self.read(key, "bool", Value::as_bool)?.unwrap_or_default())
    }

    fn number(&self, key: &str) -> Result<Option<f64>, String> {
        self.read(key, "float64", Value::as_f64)
    }

    /// Lengths and counts; a negative one bounds as zero does.
    fn count(&self, key: &str) -> Result<Option<u64>, String> {
        self.read(key, "int64", |v| {
            v.as_u64().or_else(|| v.as_i64().map(|_| 0))
        })
    }

    fn list(&self, key: &str) -> Result<&'a [Value], String> {
        let list = self.read(key, "[]", |v| v.as_array().map(Vec::as_slice))?;
        Ok(list.unwrap_or_default())
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        self.list(key)?
            .iter()
            .map(|v| {
                v.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| mismatch(v, key, "string"))
            })
            .collect()
    }

    fn schemas(&self, key: &str) -> Result<Vec<Schema>, String> {
        self.list(key)?.iter().map(read).collect()
    }

    fn schema(&self, key: &str) -> Result<Option<Box<Schema>>, String> {
        self.get(key).map(|v| read(v).map(Box::new)).transpose()
    }
}

fn read(json: &Value) -> Result<Schema, String> {
    let fields = match json {
        Value::Object(map) => Fields(map),
        // `properties: {a: null}` is an empty schema for Go's decoder, which structural validation then rejects.
        Value::Null => return Ok(Schema::default()),
        other => return Err(mismatch(other, "", "v1.JSONSchemaProps")),
    };
    let any_of = fields.schemas("anyOf")?;
    let all_of = fields.schemas("allOf")?;
    let (additional_properties, additional_properties_bool) =
        match fields.get("additionalProperties") {
            Some(Value::Bool(allowed)) => (None, Some(*allowed)),
            Some(other) => (Some(Box::new(read(other)?)), None),
            None => (None, None),
        };
    let items = match fields.get("items") {
        // A list of item schemas is refused when the CRD is created.
        Some(Value::Array(_)) | None => None,
        Some(other) => Some(Box::new(read(other)?)),
    };
    let properties = fields
        .read(
            "properties",
            "map[string]v1.JSONSchemaProps",
            Value::as_object,
        )?
        .into_iter()
        .flatten()
        .map(|(name, value)| Ok((name.clone(), read(value)?)))
        .collect::<Result<BTreeMap<_, _>, String>>()?;
    let explicit = int_or_string_pattern(&any_of)
        || all_of
            .first()
            .is_some_and(|first| int_or_string_pattern(&first.any_of));
    let int_or_string = fields
        .flag("x-kubernetes-int-or-string")?
        .then_some(if explicit {
            IntOrStringForm::AnyOf
        } else {
            IntOrStringForm::Bare
        });
    let default = fields.get("default").cloned();
    let embedded_resource = fields.flag("x-kubernetes-embedded-resource")?;
    let any_below = |holds: fn(&Schema) -> bool| {
        let further = items.iter().chain(&additional_properties);
        properties
            .values()
            .chain(further.map(|below| &**below))
            .any(holds)
    };
    let has_defaults = default.is_some() || any_below(|below| below.has_defaults);
    let has_embedded = embedded_resource || any_below(|below| below.has_embedded);
    Ok(Schema {
        schema_type: SchemaType::from_name(&fields.text("type")?),
        description: fields.text("description")?,
        format: fields.text("format")?,
        nullable: fields.flag("nullable")?,
        default,
        has_defaults,
        has_embedded,
        properties,
        additional_properties,
        additional_properties_bool,
        items,
        required: fields.texts("required")?,
        enum_values: fields.list("enum")?.to_vec(),
        minimum: fields.number("minimum")?,
        exclusive_minimum: fields.flag("exclusiveMinimum")?,
        maximum: fields.number("maximum")?,
        exclusive_maximum: fields.flag("exclusiveMaximum")?,
        multiple_of: fields.number("multipleOf")?,
        min_length: fields.count("minLength")?,
        max_length: fields.count("maxLength")?,
        pattern: fields.text("pattern")?,
        min_items: fields.count("minItems")?,
        max_items: fields.count("maxItems")?,
        min_properties: fields.count("minProperties")?,
        max_properties: fields.count("maxProperties")?,
        all_of,
        any_of,
        one_of: fields.schemas("oneOf")?,
        not: fields.schema("not")?,
        preserve_unknown_fields: fields.flag("x-kubernetes-preserve-unknown-fields")?,
        embedded_resource,
        int_or_string,
        list_type: match fields.text("x-kubernetes-list-type")?.as_str() {
            "atomic" => Some(ListType::Atomic),
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map),
            _ => None,
        },
        list_map_keys: fields.texts("x-kubernetes-list-map-keys")?,
        map_type: match fields.text("x-kubernetes-map-type")?.as_str() {
            "granular" => Some(MapType::Granular),
            "atomic" => Some(MapType::Atomic),
            _ => None,
        },
        validations: fields
            .list("x-kubernetes-validations")?
            .iter()
            .map(rule)
            .collect::<Result<_, _>>()?,
    })
}

fn int_or_string_pattern(any_of: &[Schema]) -> bool {
    let bare = |schema_type| Schema {
        schema_type: Some(schema_type),
        ..Schema::default()
    };
    matches!(any_of, [first, second]
        if *first == bare(SchemaType::Integer) && *second == bare(SchemaType::String))
}

/// Reads an entry of `x-kubernetes-validations`.
pub(super) fn rule(json: &Value) -> Result<ValidationRule, String> {
    let fields = json
        .as_object()
        .map(Fields)
        .ok_or_else(|| mismatch(json, "x-kubernetes-validations", "v1.ValidationRule"))?;
    Ok(ValidationRule {
        rule: fields.text("rule")?,
        message: fields.text("message")?,
        message_expression: fields.text("messageExpression")?,
        reason: fields.text("reason")?,
        field_path: fields.text("fieldPath")?,
        optional_old_self: fields.read("optionalOldSelf", "bool", Value::as_bool)?,
    })
}
