//! What changed between two objects.

use serde_json::Value;

use super::{Typed, item};
use crate::apply::path::{PathElement, values_equal};
use crate::apply::schema::{Form, ListRelation, ListType, MapType, Type, TypeRef};
use crate::apply::set::FieldSet;

/// The difference between two objects. Added and removed containers are in it themselves, besides their
/// contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// In the second object only.
    pub added: FieldSet,
    /// In both, with different values.
    pub modified: FieldSet,
    /// In the first object only.
    pub removed: FieldSet,
}

impl Comparison {
    /// Whether nothing changed; the order of items in associative lists is no change.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Forgets about `fields` and all that is below them.
    pub fn exclude(&mut self, fields: &FieldSet) {
        self.added.subtract_recursive(fields);
        self.modified.subtract_recursive(fields);
        self.removed.subtract_recursive(fields);
    }
}

/// The difference at one place: whether the place itself differs, and what differs below.
#[derive(Default)]
struct Change {
    added: bool,
    modified: bool,
    removed: bool,
    below: Comparison,
}

impl Change {
    fn push(&mut self, element: PathElement, change: Self) {
        let Self {
            added,
            modified,
            removed,
            below,
        } = change;
        if modified || !below.modified.is_empty() {
            self.below
                .modified
                .push(element.clone(), modified, below.modified);
        }
        if removed || !below.removed.is_empty() {
            self.below
                .removed
                .push(element.clone(), removed, below.removed);
        }
        if added || !below.added.is_empty() {
            self.below.added.push(element, added, below.added);
        }
    }
}

impl Typed<'_> {
    /// Compares two objects.
    pub fn compare(&self, old: &Value, new: &Value) -> Comparison {
        let mut change = Change::default();
        self.compare_at(self.root, Some(old), Some(new), &mut change);
        change.below
    }

    fn compare_at(
        &self,
        reference: &TypeRef,
        old: Option<&Value>,
        new: Option<&Value>,
        change: &mut Change,
    ) {
        let Some(definition) = self.schema.resolve(reference) else {
            return;
        };
        if definition.opaque {
            return;
        }
        let (old_forms, new_forms) = (definition.forms(old), definition.forms(new));
        let leaf = match (old, new) {
            (_, None) => self.compare_as(definition, old_forms, old, new, change),
            (None, _) => self.compare_as(definition, new_forms, old, new, change),
            _ => {
                // A value that changes its form is compared in both: the old contents are removed, the
                // new ones added.
                if old_forms != new_forms {
                    self.compare_as(definition, old_forms, old, new, change);
                }
                self.compare_as(definition, new_forms, old, new, change)
            }
        };
        if !leaf {
            change.added |= old.is_none();
            change.removed |= old.is_some() && new.is_none();
        }
    }

    /// Compares as one form; whether it was a leaf.
    fn compare_as(
        &self,
        definition: &Type,
        forms: u8,
        old: Option<&Value>,
        new: Option<&Value>,
        change: &mut Change,
    ) -> bool {
        match definition.form(forms) {
            Some(Form::List(list)) => {
                let (before, after) = (items(old), items(new));
                if list.relation == ListRelation::Atomic || (before.is_empty() && after.is_empty())
                {
                    compare_leaf(old, new, change);
                    return true;
                }
                // Most lists of most writes are as they were; this spares making their keys.
                if before != after {
                    self.compare_items(list, before, after, change);
                }
                false
            }
            Some(Form::Map(map)) => {
                let before = old.and_then(Value::as_object);
                let after = new.and_then(Value::as_object);
                let nothing = before.is_none_or(serde_json::Map::is_empty)
                    && after.is_none_or(serde_json::Map::is_empty);
                if map.atomic || nothing {
                    compare_leaf(old, new, change);
                    return true;
                }
                self.compare_entries(map, before, after, change);
                false
            }
            Some(Form::Scalar(_)) => {
                compare_leaf(old, new, change);
                true
            }
            None => false,
        }
    }

    fn compare_entries(
        &self,
        map: &MapType,
        before: Option<&serde_json::Map<String, Value>>,
        after: Option<&serde_json::Map<String, Value>>,
        change: &mut Change,
    ) {
        let mut visit = |name: &str, old: Option<&Value>, new: Option<&Value>| {
            let declared = map.fields.get_key_value(name);
            let Some(reference) = declared
                .map(|(_, reference)| reference)
                .or(map.element.as_ref())
            else {
                return;
            };
            let mut below = Change::default();
            self.compare_at(reference, old, new, &mut below);
            if below.added || below.modified || below.removed || !below.below.is_same() {
                let name = declared.map_or_else(|| name.into(), |(name, _)| name.clone());
                change.push(PathElement::Field(name), below);
            }
        };
        let mut after = after.into_iter().flatten().peekable();
        for (name, old) in before.into_iter().flatten() {
            while let Some((added, new)) = after.next_if(|(next, _)| *next < name) {
                visit(added, None, Some(new));
            }
            visit(
                name,
                Some(old),
                after.next_if(|(next, _)| *next == name).map(|(_, new)| new),
            );
        }
        for (added, new) in after {
            visit(added, None, Some(new));
        }
    }

    fn compare_items(&self, list: &ListType, before: &[Value], after: &[Value], out: &mut Change) {
        let mut all: Vec<(PathElement, bool, &Value)> =
            Vec::with_capacity(before.len() + after.len());
        for (side, items) in [(false, before), (true, after)] {
            for child in items {
                if let Ok(element) = item::element(list, child) {
                    all.push((element, side, child));
                }
            }
        }
        // Stable: within one element the old items stay before the new ones, in their order.
        all.sort_by(|a, b| a.0.cmp(&b.0));
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let (old, new) = same.split_at(same.partition_point(|(_, side, _)| !side));
            let Some((element, _, _)) = same.first() else {
                continue;
            };
            let mut change = Change::default();
            let one = old.first().map(|(_, _, value)| *value);
            let other = new.first().map(|(_, _, value)| *value);
            match (old.len(), new.len()) {
                (0 | 1, 0 | 1) => self.compare_at(&list.element, one, other, &mut change),
                (0 | 1, _) => {
                    // It is a duplicate now: owned as a whole, and its contents are not compared.
                    if one.is_some() {
                        self.compare_at(&list.element, one, None, &mut change);
                    }
                    change.added = true;
                }
                (_, 0 | 1) => {
                    if other.is_some() {
                        self.compare_at(&list.element, None, other, &mut change);
                    }
                    change.removed = true;
                }
                _ => {
                    change.modified = old.len() != new.len()
                        || old.iter().zip(new).any(|(a, b)| !values_equal(a.2, b.2));
                }
            }
            out.push(element.clone(), change);
        }
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn compare_leaf(old: Option<&Value>, new: Option<&Value>, change: &mut Change) {
    match (old, new) {
        (None, _) => change.added = true,
        (_, None) => change.removed = true,
        (Some(old), Some(new)) => change.modified |= !values_equal(old, new),
    }
}
