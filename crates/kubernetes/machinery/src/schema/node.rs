//! Access to the JSON of one schema node, as `JSONSchemaProps` would hold it.
//!
//! The checks made when a CRD is created need every keyword, also those without effect later, so they
//! read the JSON itself. Values of the wrong type read as absent: decoding has rejected them.

use serde_json::{Map, Value};

/// One schema node in JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a>(&'a Map<String, Value>);

/// What `additionalProperties` is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Additional<'a> {
    /// A schema.
    Schema(Node<'a>),
    /// Just allowed or not.
    Allowed(bool),
}

impl<'a> Node<'a> {
    /// The node in `value`, if it is an object.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// The value of a keyword that is not null.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }

    /// A string keyword; empty when absent, as in Go.
    pub(super) fn text(self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// A boolean keyword.
    pub(super) fn flag(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A list keyword.
    pub(super) fn list(self, key: &str) -> &'a [Value] {
        self.get(key)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// A list of strings.
    pub(super) fn texts(self, key: &str) -> Vec<&'a str> {
        self.list(key).iter().filter_map(Value::as_str).collect()
    }

    /// Whether a map keyword is there and not empty.
    pub(super) fn has_entries(self, key: &str) -> bool {
        self.get(key)
            .and_then(Value::as_object)
            .is_some_and(|m| !m.is_empty())
    }

    /// A schema keyword.
    pub(super) fn child(self, key: &str) -> Option<Self> {
        self.get(key).and_then(Self::of)
    }

    /// A keyword holding a list of schemas.
    pub(super) fn children(self, key: &str) -> impl Iterator<Item = Self> + use<'a> {
        self.list(key).iter().filter_map(Self::of)
    }

    /// A keyword holding schemas by name.
    pub(super) fn named(self, key: &str) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let map = self.get(key).and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k.as_str(), Self::of(v)?)))
    }

    /// One declared property.
    pub(super) fn property(self, name: &str) -> Option<Self> {
        self.child("properties").and_then(|p| p.child(name))
    }

    /// The item schema.
    pub(super) fn items(self) -> Option<Self> {
        self.child("items")
    }

    /// What undeclared properties may be.
    pub(super) fn additional(self) -> Option<Additional<'a>> {
        match self.get("additionalProperties")? {
            Value::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            other => Self::of(other).map(Additional::Schema),
        }
    }

    /// The schema of undeclared properties.
    pub(super) fn additional_schema(self) -> Option<Self> {
        match self.additional()? {
            Additional::Schema(schema) => Some(schema),
            Additional::Allowed(_) => None,
        }
    }

    /// Calls `visit` on this node and every one below, in the order of upstream's `SchemaHas`.
    pub(super) fn walk(self, visit: &mut dyn FnMut(Self)) {
        visit(self);
        if let Some(items) = self.items() {
            items.walk(visit);
        }
        for item in self.children("items") {
            item.walk(visit);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for child in self.children(key) {
                child.walk(visit);
            }
        }
        if let Some(not) = self.child("not") {
            not.walk(visit);
        }
        for (_, child) in self.named("properties") {
            child.walk(visit);
        }
        if let Some(child) = self.additional_schema() {
            child.walk(visit);
        }
    }

    /// Whether `found` holds for this node or any below.
    pub(super) fn any(self, found: &dyn Fn(Self) -> bool) -> bool {
        let mut hit = false;
        self.walk(&mut |node| hit = hit || found(node));
        hit
    }
}
