//! Values at run time. JSON is borrowed and read lazily through its declaration, so a rule never copies
//! the object it validates.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::decl::{Decl, ListDecl, ObjectDecl, Shape};
use super::formats::Format;
use super::meter::Fail;
use super::net::Cidr;
use super::time;
use super::types::Opaque;
use super::urls::Url;
use crate::json::{compare_with_float, go_dynamic_type};
use crate::quantity::Quantity;
use crate::time::parse_openapi_duration;

/// A string, of the object or made by the expression.
#[derive(Debug, Clone)]
pub(crate) enum Text<'a> {
    /// Part of the object.
    Borrowed(&'a str),
    /// Made.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Val<'a> {
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `uint`
    Uint(u64),
    /// `double`
    Double(f64),
    /// `string`
    Str(Text<'a>),
    /// `bytes`
    Bytes(Arc<[u8]>),
    /// Nanoseconds since 1970.
    Timestamp(i128),
    /// Nanoseconds.
    Duration(i64),
    /// `list`
    List(List<'a>),
    /// `map`, also objects.
    Map(Map<'a>),
    /// `optional_type`
    Optional(Option<Arc<Self>>),
    /// `type`
    Type(Arc<str>),
    /// `kubernetes.URL`
    Url(Arc<Url>),
    /// `kubernetes.Quantity`
    Quantity(Arc<Quantity>),
    /// `net.IP`
    Ip(IpAddr),
    /// `net.CIDR`
    Cidr(Cidr),
    /// `kubernetes.Semver`
    Semver(Arc<semver::Version>),
    /// `kubernetes.NamedFormat`
    Format(Format),
}

/// A list.
#[derive(Debug, Clone)]
pub(crate) struct List<'a> {
    items: Items<'a>,
    /// How items are identified, for lists of the object.
    pub(crate) decl: Option<&'a ListDecl>,
}

#[derive(Debug, Clone)]
enum Items<'a> {
    /// Of the object, with the declaration of the items.
    Json(&'a [Value], &'a Decl),
    /// Made.
    Owned(Arc<Vec<Val<'a>>>),
}

/// A map or an object.
#[derive(Debug, Clone)]
pub(crate) enum Map<'a> {
    /// A map of the object, with the declaration of the values.
    Json(&'a serde_json::Map<String, Value>, &'a Decl),
    /// An object with declared fields.
    Object(&'a serde_json::Map<String, Value>, &'a ObjectDecl),
    /// Made: key, value.
    Owned(Arc<OwnedMap<'a>>),
}

/// A map that an expression made.
// Ordered, so that a comprehension visits the entries in the same order each time, where the order of Go's maps is
// random.
pub(crate) type OwnedMap<'a> = BTreeMap<Key, (Val<'a>, Val<'a>)>;

/// A key, numbers of both kinds in one order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// `bool`
    Bool(bool),
    /// `int` and `uint`
    Number(i128),
    /// `string`
    Text(Arc<str>),
}

/// Declaration of what has none.
static DYNAMIC: std::sync::LazyLock<Decl> = std::sync::LazyLock::new(Decl::dynamic);

/// Reads JSON through its declaration (`common.UnstructuredToVal`).
pub(crate) fn view<'a>(json: &'a Value, decl: &'a Decl) -> Result<Val<'a>, Fail> {
    if json.is_null() {
        return if decl.nullable {
            Ok(Val::Null)
        } else {
            Err(Fail::error(
                "invalid data, got null for schema with nullable=false",
            ))
        };
    }
    let expected = |what: &str| {
        Fail::error(format!(
            "invalid data, expected {what}, got {}",
            go_dynamic_type(json)
        ))
    };
    match &decl.shape {
        Shape::Dyn => Ok(dynamic(json)),
        Shape::IntOrString => match json {
            Value::String(text) => Ok(Val::text(text)),
            Value::Number(number) if number.is_i64() => Ok(dynamic(json)),
            _ => Err(Fail::error(
                "invalid data, expected XIntOrString value to be either a string or integer",
            )),
        },
        Shape::Bool => json
            .as_bool()
            .map(Val::Bool)
            .ok_or_else(|| expected("bool")),
        Shape::Int => json.as_i64().map(Val::Int).ok_or_else(|| expected("int")),
        Shape::Double => json
            .as_f64()
            .map(Val::Double)
            .ok_or_else(|| expected("float")),
        Shape::String => json
            .as_str()
            .map(Val::text)
            .ok_or_else(|| expected("string")),
        Shape::Bytes | Shape::Date | Shape::DateTime | Shape::Duration => {
            let text = json.as_str().ok_or_else(|| expected("string"))?;
            formatted(text, &decl.shape)
        }
        Shape::List(list) => match json {
            Value::Array(items) => Ok(Val::List(List {
                items: Items::Json(items, &list.items),
                decl: Some(list),
            })),
            _ => Err(Fail::error(
                "invalid data, expected an array for the provided schema with type=array",
            )),
        },
        Shape::Map(_) | Shape::Object(_) => {
            let Value::Object(map) = json else {
                return Err(Fail::error(
                    "invalid data, expected a map for the provided schema with type=object",
                ));
            };
            Ok(Val::Map(match &decl.shape {
                Shape::Map(values) => Map::Json(map, values),
                Shape::Object(object) => Map::Object(map, object),
                _ => Map::Json(map, &DYNAMIC),
            }))
        }
    }
}

fn formatted<'a>(text: &str, shape: &Shape) -> Result<Val<'a>, Fail> {
    let (found, what) = match shape {
        Shape::Bytes => (
            STANDARD.decode(text).ok().map(|b| Val::Bytes(b.into())),
            "byte formatted string",
        ),
        Shape::Date => (
            time::parse_date(text).map(Val::Timestamp),
            "date formatted string",
        ),
        Shape::DateTime => (
            time::parse_openapi_timestamp(text).map(Val::Timestamp),
            "date-time formatted string",
        ),
        _ => (parse_openapi_duration(text).map(Val::Duration), "duration"),
    };
    found.ok_or_else(|| Fail::error(format!("Invalid {what} {text}")))
}

/// JSON without a schema.
pub(crate) fn dynamic(json: &Value) -> Val<'_> {
    match json {
        Value::Null => Val::Null,
        Value::Bool(b) => Val::Bool(*b),
        Value::Number(n) => match n.as_i64() {
            Some(i) => Val::Int(i),
            // Kubernetes decodes every number that is not an int64 as a float64, so
            // no `uint` ever comes from an object.
            None => Val::Double(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Val::text(text),
        Value::Array(items) => Val::List(List {
            items: Items::Json(items, &DYNAMIC),
            decl: None,
        }),
        Value::Object(map) => Val::Map(Map::Json(map, &DYNAMIC)),
    }
}

impl<'a> Val<'a> {
    /// A borrowed string.
    pub(crate) fn text(text: &'a str) -> Self {
        Self::Str(Text::Borrowed(text))
    }

    /// A made string.
    pub(crate) fn string(text: impl Into<Arc<str>>) -> Self {
        Self::Str(Text::Shared(text.into()))
    }

    /// A made list.
    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List {
            items: Items::Owned(Arc::new(items)),
            decl: None,
        })
    }

    /// An optional with a value.
    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// An optional with or without a value.
    pub(crate) fn optional(value: Option<Self>) -> Self {
        Self::Optional(value.map(Arc::new))
    }

    /// Name of the type, as `type()` gives it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Str(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Url(_) => Opaque::Url.name(),
            Self::Quantity(_) => Opaque::Quantity.name(),
            Self::Ip(_) => Opaque::Ip.name(),
            Self::Cidr(_) => Opaque::Cidr.name(),
            Self::Semver(_) => Opaque::Semver.name(),
            Self::Format(_) => Opaque::Format.name(),
        }
    }

    /// Size as upstream's cost model sees it.
    pub(crate) fn size(&self) -> u64 {
        match self {
            // In characters and not in bytes, as cel-go's `String.Size` counts: costs and `size()` depend on it.
            Self::Str(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(value)) => value.size(),
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => u64::from(cidr.prefix.div_ceil(8)),
            Self::Url(url) => url.source.len() as u64,
            Self::Format(format) => format.name().len() as u64,
            _ => 1,
        }
    }

    /// A key of maps, if this can be one. Whole doubles find the integer.
    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(b) => Key::Bool(*b),
            Self::Int(i) => Key::Number((*i).into()),
            Self::Uint(u) => Key::Number((*u).into()),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "whole and small, checked before"
            )]
            // Maps of cel-go are looked up across numeric types: `{1: 'a'}[1.0]` finds the entry.
            Self::Double(d) if d.fract() == 0.0 && d.abs() < 1e18 => Key::Number(*d as i128),
            Self::Str(text) => Key::Text(Arc::from(&**text)),
            _ => return None,
        })
    }

    /// Order of two values of comparable types.
    pub(crate) fn compare(&self, other: &Self) -> Result<Ordering, Fail> {
        let nan = || Fail::error("NaN values cannot be ordered");
        Ok(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Str(a), Self::Str(b)) => (**a).cmp(&**b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Timestamp(a), Self::Timestamp(b)) => a.cmp(b),
            (Self::Duration(a), Self::Duration(b)) => a.cmp(b),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b).ok_or_else(nan)?,
            (Self::Double(a), b) => {
                let b = b.whole().ok_or_else(Fail::no_overload)?;
                compare_with_float(b, *a).ok_or_else(nan)?.reverse()
            }
            (a, Self::Double(b)) => {
                let a = a.whole().ok_or_else(Fail::no_overload)?;
                compare_with_float(a, *b).ok_or_else(nan)?
            }
            (a, b) => match (a.whole(), b.whole()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => return Err(Fail::no_overload()),
            },
        })
    }

    fn whole(&self) -> Option<i128> {
        match self {
            Self::Int(i) => Some((*i).into()),
            Self::Uint(u) => Some((*u).into()),
            _ => None,
        }
    }

    /// Whether `optional.ofNonZeroValue` drops this value.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Optional(None) => true,
            Self::Bool(b) => !b,
            Self::Int(i) => *i == 0,
            Self::Uint(u) => *u == 0,
            Self::Double(d) => *d == 0.0,
            Self::Duration(d) => *d == 0,
            // Go's zero time is the first instant of year 1, which is also the lowest timestamp that CEL permits.
            Self::Timestamp(t) => time::in_range(t - 1).is_none(),
            Self::Str(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.len() == 0,
            Self::Map(map) => map.len() == 0,
            _ => false,
        }
    }
}

impl<'a> List<'a> {
    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Json(items, _) => items.len(),
            Items::Owned(items) => items.len(),
        }
    }

    /// An item, if there are so many.
    pub(crate) fn get(&self, index: usize) -> Option<Result<Val<'a>, Fail>> {
        match &self.items {
            Items::Json(items, decl) => items.get(index).map(|item| view(item, decl)),
            Items::Owned(items) => items.get(index).cloned().map(Ok),
        }
    }

    /// All items in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Result<Val<'a>, Fail>> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// A computed list that keeps how items are identified.
    pub(crate) fn made(items: Vec<Val<'a>>, decl: Option<&'a ListDecl>) -> Self {
        Self {
            items: Items::Owned(Arc::new(items)),
            decl,
        }
    }
}

impl<'a> Map<'a> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(map, _) | Self::Object(map, _) => map.len(),
            Self::Owned(map) => map.len(),
        }
    }

    /// The value of a key. Fields that are null count as absent.
    pub(crate) fn find(&self, key: &Val<'_>) -> Result<Option<Val<'a>>, Fail> {
        match (self, key) {
            (Self::Owned(map), key) => {
                let key = key.key().ok_or_else(Fail::no_overload)?;
                Ok(map.get(&key).map(|(_, value)| value.clone()))
            }
            (_, Val::Str(name)) => self.find_name(name),
            _ => Err(Fail::no_overload()),
        }
    }

    /// The value of a key that is a string.
    pub(crate) fn find_name(&self, name: &str) -> Result<Option<Val<'a>>, Fail> {
        match self {
            Self::Json(map, decl) => map.get(name).map(|v| view(v, decl)).transpose(),
            Self::Object(map, object) => {
                let Some(field) = object.fields.get(name) else {
                    return Ok(None);
                };
                match map.get(&field.property) {
                    // As `unstructuredMap.Find` of `apiserver/pkg/cel/common/values.go`: a null in a
                    // declared nullable field is an absent field, so that `has(self.x)` guards both.
                    // In a map with free keys, null is a value.
                    None | Some(Value::Null) => Ok(None),
                    Some(value) => view(value, &field.decl).map(Some),
                }
            }
            Self::Owned(map) => Ok(map
                .get(&Key::Text(Arc::from(name)))
                .map(|(_, value)| value.clone())),
        }
    }

    /// The property that a key stands for: names that are no identifiers are escaped in expressions.
    pub(crate) fn property(&self, key: &Val<'_>) -> String {
        let name = super::functions::display(key);
        match self {
            Self::Object(_, object) => match object.fields.get(&name) {
                Some(field) => field.property.clone(),
                None => name,
            },
            Self::Json(..) | Self::Owned(_) => name,
        }
    }

    /// Keys in order; of objects those of declared fields.
    pub(crate) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Json(map, _) => map.keys().map(|k| Val::text(k)).collect(),
            Self::Object(map, object) => map
                .keys()
                .filter_map(|k| object.escaped.get(k))
                .map(|escaped| Val::text(escaped))
                .collect(),
            Self::Owned(map) => map.values().map(|(key, _)| key.clone()).collect(),
        }
    }
}
