//! Merge types: which parts of an object are merged, and which are replaced as a whole.
//!
//! The model is that of `structured-merge-diff/schema`: a type allows any of a scalar, a list and
//! a map; a map may declare fields ("struct") and may have a type for all others.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use serde_json::Value;

/// Named types that refer to each other; recursive types need a name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    types: HashMap<String, Type>,
}

/// A reference to a type.
#[derive(Debug, Clone, PartialEq)]
pub enum TypeRef {
    /// A type of the schema, found by its name.
    Named(String),
    /// A type given in place.
    Inline(Arc<Type>),
    /// Whatever the value is: maps are merged, lists replaced, scalars of any kind.
    Deduced,
    /// Whatever the value is, replaced as a whole.
    Atomic,
    /// A list that is excluded from comparisons and merges. `metadata.managedFields` is one: it is
    /// written last and never by a merge.
    Opaque,
}

/// What a value may be. A type that allows nothing accepts no value but `null`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Type {
    /// Scalars that are allowed.
    pub scalar: Option<Scalar>,
    /// Lists that are allowed.
    pub list: Option<ListType>,
    /// Maps that are allowed.
    pub map: Option<MapType>,
    /// Whether its contents are excluded from comparisons and merges.
    pub(super) opaque: bool,
}

/// Kinds of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// Integers and floats.
    Numeric,
    /// Strings.
    String,
    /// Booleans.
    Boolean,
    /// Any of them.
    Untyped,
}

/// A list and how its items relate.
#[derive(Debug, Clone, PartialEq)]
pub struct ListType {
    /// Type of the items.
    pub element: TypeRef,
    /// How items are identified.
    pub relation: ListRelation,
}

/// How the items of a list are identified.
#[derive(Debug, Clone, PartialEq)]
pub enum ListRelation {
    /// They are not: the list is replaced as a whole.
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Map(Vec<ListKey>),
}

/// A field that identifies list items.
#[derive(Debug, Clone, PartialEq)]
pub struct ListKey {
    /// Name of the field.
    pub name: Arc<str>,
    /// The value that an absent field stands for.
    pub default: Option<Value>,
}

/// A map, with or without declared fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapType {
    /// Declared fields.
    pub fields: BTreeMap<Arc<str>, TypeRef>,
    /// Type of all other entries; without it they are errors.
    pub element: Option<TypeRef>,
    /// Replaced as a whole.
    pub atomic: bool,
}

/// The one form of a type that a value takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    Scalar(Scalar),
    List(&'a ListType),
    Map(&'a MapType),
}

const SCALAR: u8 = 1;
const LIST: u8 = 2;
const MAP: u8 = 4;

static DEDUCED: LazyLock<Type> = LazyLock::new(|| any_of(TypeRef::Deduced, false));
static ATOMIC: LazyLock<Type> = LazyLock::new(|| any_of(TypeRef::Atomic, true));
static OPAQUE: LazyLock<Type> = LazyLock::new(|| Type {
    opaque: true,
    ..any_of(TypeRef::Atomic, true)
});

fn any_of(entries: TypeRef, atomic: bool) -> Type {
    Type {
        scalar: Some(Scalar::Untyped),
        list: Some(ListType {
            element: TypeRef::Atomic,
            relation: ListRelation::Atomic,
        }),
        map: Some(MapType {
            fields: BTreeMap::new(),
            element: Some(entries),
            atomic,
        }),
        opaque: false,
    }
}

impl Schema {
    /// Adds a named type, replacing one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, definition: Type) {
        self.types.insert(name.into(), definition);
    }

    /// The type that is referred to; `None` when there is none of that name.
    pub fn resolve<'a>(&'a self, reference: &'a TypeRef) -> Option<&'a Type> {
        match reference {
            TypeRef::Named(name) => self.types.get(name),
            TypeRef::Inline(definition) => Some(definition),
            TypeRef::Deduced => Some(&DEDUCED),
            TypeRef::Atomic => Some(&ATOMIC),
            TypeRef::Opaque => Some(&OPAQUE),
        }
    }
}

impl TypeRef {
    /// A scalar.
    pub fn scalar(scalar: Scalar) -> Self {
        Self::from(Type {
            scalar: Some(scalar),
            ..Type::default()
        })
    }

    /// A struct that accepts no other fields.
    pub fn closed<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, Self)>) -> Self {
        Self::from(MapType {
            fields: fields
                .into_iter()
                .map(|(name, field)| (name.into(), field))
                .collect(),
            ..MapType::default()
        })
    }

    /// A map that is merged by entry.
    pub fn map_of(element: Self) -> Self {
        Self::from(MapType {
            element: Some(element),
            ..MapType::default()
        })
    }

    /// A list that is replaced as a whole.
    pub fn list_of(element: Self) -> Self {
        Self::from(ListType {
            element,
            relation: ListRelation::Atomic,
        })
    }

    /// A list of scalars that occur once.
    pub fn set_of(element: Self) -> Self {
        Self::from(ListType {
            element,
            relation: ListRelation::Set,
        })
    }

    /// A list whose items are identified by keys.
    pub fn list_map(element: Self, keys: impl IntoIterator<Item = ListKey>) -> Self {
        let relation = ListRelation::Map(keys.into_iter().collect());
        Self::from(ListType { element, relation })
    }
}

impl From<Type> for TypeRef {
    fn from(definition: Type) -> Self {
        Self::Inline(Arc::new(definition))
    }
}

impl From<MapType> for TypeRef {
    fn from(map: MapType) -> Self {
        Self::from(Type {
            map: Some(map),
            ..Type::default()
        })
    }
}

impl From<ListType> for TypeRef {
    fn from(list: ListType) -> Self {
        Self::from(Type {
            list: Some(list),
            ..Type::default()
        })
    }
}

impl ListKey {
    /// A key without a default.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            default: None,
        }
    }

    /// A key that may be left out.
    pub fn with_default(name: &str, default: impl Into<Value>) -> Self {
        Self {
            name: name.into(),
            default: Some(default.into()),
        }
    }
}

impl Type {
    /// The forms that are left once the value is known. A value that fits none, and `null`, leave
    /// all of them: the first form then reports the error or treats `null` as empty.
    pub(super) fn forms(&self, value: Option<&Value>) -> u8 {
        let all = u8::from(self.scalar.is_some()) * SCALAR
            + u8::from(self.list.is_some()) * LIST
            + u8::from(self.map.is_some()) * MAP;
        let wanted = match value {
            None | Some(Value::Null) => return all,
            Some(Value::Array(_)) => LIST,
            Some(Value::Object(_)) => MAP,
            Some(_) => SCALAR,
        };
        if all & wanted == 0 { all } else { wanted }
    }

    /// The form to use out of several: maps come before scalars, scalars before lists.
    pub(super) fn form(&self, forms: u8) -> Option<Form<'_>> {
        // The order decides for `null` and for values that fit nothing; it is that of `deduceAtom` and `handleAtom`
        // in structured-merge-diff.
        if forms & MAP != 0 {
            return self.map.as_ref().map(Form::Map);
        }
        if forms & SCALAR != 0 {
            return self.scalar.map(Form::Scalar);
        }
        self.list
            .as_ref()
            .filter(|_| forms & LIST != 0)
            .map(Form::List)
    }
}

impl MapType {
    /// The type of an entry; `None` when there may be no such entry.
    pub fn entry(&self, name: &str) -> Option<&TypeRef> {
        self.fields.get(name).or(self.element.as_ref())
    }

    /// Whether nothing is known about this map: its schema cannot have changed in a way that
    /// matters (`isUntypedDeducedMap` upstream).
    pub(super) fn is_deduced(&self) -> bool {
        if !self.fields.is_empty() {
            return false;
        }
        match &self.element {
            Some(TypeRef::Deduced) => true,
            Some(TypeRef::Inline(element)) => element.scalar == Some(Scalar::Untyped),
            _ => false,
        }
    }
}
