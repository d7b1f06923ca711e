//! The parsed form of an OpenAPI v3 schema in a CRD.

use std::collections::BTreeMap;

use serde_json::Value;

/// `type` of a schema node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaType {
    /// `object`
    Object,
    /// `array`
    Array,
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
}

impl SchemaType {
    /// The type with this name in a schema.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// How the type is written in a schema and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// `x-kubernetes-list-type`; absent means atomic for custom resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Scalars that occur once.
    Set,
    /// Items found by their keys.
    Map,
}

/// `x-kubernetes-map-type`; absent means granular.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MapType {
    /// Every entry is its own field.
    #[default]
    Granular,
    /// Replaced as a whole.
    Atomic,
}

/// How `x-kubernetes-int-or-string` was written; only error texts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IntOrStringForm {
    /// Just the extension.
    Bare,
    /// With an `anyOf` of integer and string.
    AnyOf,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValidationRule {
    /// The CEL expression.
    pub rule: String,
    /// Fixed message.
    pub message: String,
    /// Expression that makes the message.
    pub message_expression: String,
    /// Cause reason; empty means `FieldValueInvalid`.
    pub reason: String,
    /// Relative path the error is reported at.
    pub field_path: String,
    /// Run also when there is no old value.
    pub optional_old_self: Option<bool>,
}

/// A schema node: every keyword of a CRD that changes behaviour. The published OpenAPI document is
/// generated from the CRD's JSON itself, so nothing is lost by this form.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the keywords are booleans")]
pub struct Schema {
    /// Declared type, `None` for int-or-string and preserve-unknown nodes.
    pub schema_type: Option<SchemaType>,
    /// Human text.
    pub description: String,
    /// `format`.
    pub format: String,
    /// `null` is a value.
    pub nullable: bool,
    /// Value that an absent field gets.
    pub default: Option<Value>,
    /// Whether anything in here has a default, itself included.
    pub has_defaults: bool,
    /// Whether anything in here is an object of its own, itself included.
    pub has_embedded: bool,
    /// Declared fields.
    pub properties: BTreeMap<String, Self>,
    /// Schema of undeclared map entries.
    pub additional_properties: Option<Box<Self>>,
    /// `additionalProperties` given as a bare boolean instead of a schema.
    pub additional_properties_bool: Option<bool>,
    /// Item schema of arrays.
    pub items: Option<Box<Self>>,
    /// Names that have to be present.
    pub required: Vec<String>,
    /// Accepted values.
    pub enum_values: Vec<Value>,
    /// `minimum`.
    pub minimum: Option<f64>,
    /// `minimum` itself is not accepted.
    pub exclusive_minimum: bool,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `maximum` itself is not accepted.
    pub exclusive_maximum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`, in code points.
    pub min_length: Option<u64>,
    /// `maxLength`, in code points.
    pub max_length: Option<u64>,
    /// Regular expression that a string has to contain.
    pub pattern: String,
    /// `minItems`.
    pub min_items: Option<u64>,
    /// `maxItems`.
    pub max_items: Option<u64>,
    /// `minProperties`.
    pub min_properties: Option<u64>,
    /// `maxProperties`.
    pub max_properties: Option<u64>,
    /// `allOf`; value validation only.
    pub all_of: Vec<Self>,
    /// `anyOf`; value validation only.
    pub any_of: Vec<Self>,
    /// `oneOf`; value validation only.
    pub one_of: Vec<Self>,
    /// `not`; value validation only.
    pub not: Option<Box<Self>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: Option<IntOrStringForm>,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type`.
    pub map_type: Option<MapType>,
    /// `x-kubernetes-validations`.
    pub validations: Vec<ValidationRule>,
}
