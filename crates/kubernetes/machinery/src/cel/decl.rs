//! What rules see of a schema (`apiserver/pkg/cel/common/schemas.go`): the typed view through which
//! JSON is read, and the sizes that cost estimates start from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::escape;
use crate::schema::{ListType, Schema, SchemaType};

/// Largest request upstream reckons with.
// `MaxRequestSizeBytes` of `apiserver/pkg/apis/cel/config.go`: a list without
// `maxItems` is taken to fill a whole request.
pub(crate) const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// Typed view of a schema node.
#[derive(Debug, Clone)]
pub(crate) struct Decl {
    /// Shape.
    pub(crate) shape: Shape,
    /// Whether null is a value.
    pub(crate) nullable: bool,
    /// Most elements, entries or bytes a value can have; zero for what has no size.
    pub(crate) max_elements: u64,
    /// Fewest bytes of a serialized value.
    pub(crate) min_size: u64,
}

/// Shapes of values.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// Whatever the JSON is.
    Dyn,
    /// `x-kubernetes-int-or-string`
    IntOrString,
    /// `boolean`
    Bool,
    /// `integer`
    Int,
    /// `number`
    Double,
    /// `string`
    String,
    /// `string` of format `byte`
    Bytes,
    /// `string` of format `date`
    Date,
    /// `string` of format `date-time`
    DateTime,
    /// `string` of format `duration`
    Duration,
    /// `array`
    List(ListDecl),
    /// `object` with additional properties
    Map(Arc<Decl>),
    /// `object` with properties
    Object(Arc<ObjectDecl>),
}

/// A list and how its items are identified.
#[derive(Debug, Clone)]
pub(crate) struct ListDecl {
    /// Items.
    pub(crate) items: Arc<Decl>,
    /// `x-kubernetes-list-type`
    pub(crate) list_type: ListType,
    /// `x-kubernetes-list-map-keys`
    pub(crate) keys: Arc<[String]>,
}

/// An object with declared fields.
#[derive(Debug)]
pub(crate) struct ObjectDecl {
    /// Name in messages.
    pub(crate) type_name: String,
    /// Fields by their name in expressions.
    pub(crate) fields: BTreeMap<String, FieldDecl>,
    /// Names in expressions by property.
    pub(crate) escaped: BTreeMap<String, String>,
}

/// A field of an object.
#[derive(Debug, Clone)]
pub(crate) struct FieldDecl {
    /// Name of the property.
    pub(crate) property: String,
    /// Its type.
    pub(crate) decl: Arc<Decl>,
}

impl Decl {
    /// A node without further structure.
    pub(crate) fn simple(shape: Shape, min_size: u64, max_elements: u64) -> Self {
        Self {
            shape,
            nullable: false,
            max_elements,
            min_size,
        }
    }

    /// The view of a value without a schema.
    pub(crate) fn dynamic() -> Self {
        Self {
            nullable: true,
            ..Self::simple(Shape::Dyn, 1, MAX_REQUEST - 2)
        }
    }

    /// The view of `schema`; `None` if rules cannot access such values. `root` adds the fields of every
    /// resource.
    pub(crate) fn of(schema: &Schema, root: bool, name: &str) -> Option<Self> {
        let mut decl = Self::shape_of(schema, root, name)?;
        decl.nullable = schema.nullable;
        Some(decl)
    }

    fn shape_of(schema: &Schema, root: bool, name: &str) -> Option<Self> {
        if schema.int_or_string.is_some() {
            let max = schema
                .max_length
                .map_or(MAX_REQUEST - 2, |max| max.saturating_mul(4));
            return Some(Self::simple(Shape::IntOrString, 1, max));
        }
        let schema_type = match (root, schema.schema_type) {
            (true, None) => SchemaType::Object,
            (_, found) => found?,
        };
        Some(match schema_type {
            SchemaType::Boolean => Self::simple(Shape::Bool, 4, 0),
            SchemaType::Integer => Self::simple(Shape::Int, 1, 0),
            SchemaType::Number => Self::simple(Shape::Double, 1, 0),
            SchemaType::String => Self::string(schema),
            SchemaType::Array => Self::list(schema, name)?,
            SchemaType::Object => match &schema.additional_properties {
                Some(values) if !root && schema.properties.is_empty() => {
                    Self::map(schema, values, name)?
                }
                _ => Self::object(schema, root, name),
            },
        })
    }

    fn string(schema: &Schema) -> Self {
        match schema.format.as_str() {
            "byte" => Self::simple(
                Shape::Bytes,
                2,
                schema.max_length.unwrap_or(MAX_REQUEST - 2),
            ),
            "duration" => Self::simple(Shape::Duration, 3, 32),
            "date" => Self::simple(Shape::Date, 12, 12),
            "date-time" => Self::simple(Shape::DateTime, 21, 32),
            _ => {
                let longest = schema
                    .enum_values
                    .iter()
                    .filter_map(|v| v.as_str())
                    .map(str::len);
                let max = match schema.max_length {
                    // A code point takes up to four bytes.
                    Some(max) => max.saturating_mul(4),
                    None if !schema.enum_values.is_empty() => longest.max().unwrap_or(0) as u64,
                    None => MAX_REQUEST - 2,
                };
                Self::simple(Shape::String, 2, max)
            }
        }
    }

    fn list(schema: &Schema, name: &str) -> Option<Self> {
        let items = schema.items.as_deref()?;
        let items = Self::of(items, items.embedded_resource, &format!("{name}.@idx"))?;
        let max = schema
            .max_items
            // Two bytes for the brackets, one for each comma. The numbers decide which CRDs
            // are accepted, so they have to be upstream's.
            .unwrap_or((MAX_REQUEST - 2) / (items.min_size + 1));
        let list = ListDecl {
            items: Arc::new(items),
            list_type: schema.list_type.unwrap_or_default(),
            keys: schema.list_map_keys.clone().into(),
        };
        Some(Self::simple(Shape::List(list), 2, max))
    }

    fn map(schema: &Schema, values: &Schema, name: &str) -> Option<Self> {
        let values = Self::of(values, values.embedded_resource, &format!("{name}.@elem"))?;
        let max = schema
            .max_properties
            // Six bytes for the key, its quotes and the punctuation, as upstream estimates a map entry.
            .unwrap_or((MAX_REQUEST - 2) / (values.min_size + 6));
        Some(Self::simple(Shape::Map(Arc::new(values)), 2, max))
    }

    fn object(schema: &Schema, root: bool, name: &str) -> Self {
        let mut fields = BTreeMap::new();
        let mut escaped_names = BTreeMap::new();
        let mut min_size = 2;
        let mut add = |property: &str, decl: Self| {
            if let Some(escaped) = escape(property) {
                escaped_names.insert(property.to_owned(), escaped.clone());
                let field = FieldDecl {
                    property: property.to_owned(),
                    decl: Arc::new(decl),
                };
                fields.insert(escaped, field);
            }
        };
        for (property, sub) in &schema.properties {
            let sub_name = format!("{name}.{property}");
            // A property without a type (`x-kubernetes-preserve-unknown-fields`) is invisible to
            // rules; the others of the object stay usable.
            let Some(decl) = Self::of(sub, sub.embedded_resource, &sub_name) else {
                continue;
            };
            if schema.required.contains(property) && sub.default.is_none() {
                min_size += property.len() as u64 + decl.min_size + 4;
            }
            add(property, decl);
        }
        if root {
            let text = || Self::simple(Shape::String, 2, MAX_REQUEST - 2);
            add("apiVersion", text());
            add("kind", text());
            add("metadata", Self::metadata(schema, name));
        }
        let object = ObjectDecl {
            type_name: name.to_owned(),
            fields,
            escaped: escaped_names,
        };
        Self::simple(Shape::Object(Arc::new(object)), min_size, 0)
    }

    /// Of metadata only the names are visible, unless the schema itself declares both of them.
    fn metadata(schema: &Schema, name: &str) -> Self {
        let string =
            |s: Option<&Schema>| s.is_some_and(|s| s.schema_type == Some(SchemaType::String));
        let name = format!("{name}.metadata");
        if let Some(metadata) = schema.properties.get("metadata")
            && string(metadata.properties.get("name"))
            && string(metadata.properties.get("generateName"))
        {
            return Self::object(metadata, false, &name);
        }
        let text = Schema {
            schema_type: Some(SchemaType::String),
            ..Schema::default()
        };
        let properties = ["name", "generateName"].map(|n| (n.to_owned(), text.clone()));
        let metadata = Schema {
            properties: properties.into(),
            ..Schema::default()
        };
        Self::object(&metadata, false, &name)
    }

    /// How many values of this type fit into one request, at most.
    pub(crate) fn max_cardinality(&self) -> u64 {
        MAX_REQUEST / (self.min_size + 1)
    }
}
