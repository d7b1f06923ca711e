//! Which value an old value belongs to, and whether anything changed
//! (`apiserver/pkg/cel/common/equality.go`).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::{Schema, field_schema, unchanged};

/// A value and what it was, with their schema.
#[derive(Debug, Clone, Copy)]
struct Pair<'v> {
    new: &'v Value,
    old: &'v Value,
    schema: &'v Schema,
}

/// What an error at a node is held against: its own old value, or that of the nearest ancestor
/// which has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratchet<'v> {
    current: Option<Pair<'v>>,
    parent: Option<Pair<'v>>,
}

impl<'v> Ratchet<'v> {
    /// Of the whole object.
    pub(super) fn root(new: &'v Value, old: Option<&'v Value>, schema: &'v Schema) -> Self {
        Self {
            current: old.map(|old| Pair { new, old, schema }),
            parent: None,
        }
    }

    /// For rules within `allOf`, which only consider the ancestor.
    pub(super) fn without_current(&self) -> Self {
        Self {
            current: None,
            parent: self.parent,
        }
    }

    /// Of a property or map value.
    pub(super) fn key(&self, name: &str, new: &'v Value, old: Option<&'v Value>) -> Self {
        let Some(current) = self.current else {
            return *self;
        };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            // Both sides were converted to the same version.
            return Self {
                current: None,
                parent: None,
            };
        }
        let schema = field_schema(current.schema, name);
        let pair = old
            .zip(schema)
            .map(|(old, schema)| Pair { new, old, schema });
        Self {
            current: pair,
            parent: Some(current),
        }
    }

    /// Of a list item.
    pub(super) fn item(&self, new: &'v Value, old: Option<&'v Value>, schema: &'v Schema) -> Self {
        let Some(current) = self.current else {
            return *self;
        };
        Self {
            current: old.map(|old| Pair { new, old, schema }),
            parent: Some(current),
        }
    }

    /// Whether an error here was there before.
    pub(super) fn unchanged(&self, equality: &mut Equality) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|pair| equality.check(pair))
    }
}

/// Comparisons made so far, so that many failing items do not compare their list again and again.
#[derive(Debug, Default)]
pub(super) struct Equality {
    known: BTreeMap<(usize, usize), bool>,
}

impl Equality {
    fn check(&mut self, pair: Pair<'_>) -> bool {
        let key = (
            std::ptr::from_ref(pair.new).addr(),
            std::ptr::from_ref(pair.old).addr(),
        );
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let equal = unchanged(pair.schema, pair.new, pair.old);
        self.known.insert(key, equal);
        equal
    }
}
