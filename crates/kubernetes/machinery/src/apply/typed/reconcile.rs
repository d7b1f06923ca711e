//! Field sets under a changed schema, and the structs a set implies.

use super::Typed;
use crate::apply::path::PathElement;
use crate::apply::schema::{Form, ListRelation, TypeRef};
use crate::apply::set::FieldSet;

impl Typed<'_> {
    /// Re-expresses a set that was written when the type was another one: where a container is
    /// atomic now, having owned something in it becomes owning it. The way back is left alone, as
    /// upstream does. Whether anything changed.
    pub fn reconcile(&self, set: &mut FieldSet) -> bool {
        self.reconcile_at(self.root, set)
    }

    fn reconcile_at(&self, reference: &TypeRef, set: &mut FieldSet) -> bool {
        let form = self
            .schema
            .resolve(reference)
            .and_then(|definition| definition.form(definition.forms(None)));
        let mut changed = false;
        match form {
            Some(Form::Map(map)) if !map.is_deduced() => set.change_nodes(|node| {
                let entry = match &node.element {
                    PathElement::Field(name) => map.entry(name),
                    _ => map.element.as_ref(),
                };
                if let Some(entry) = entry {
                    changed |= self.reconcile_node(entry, &mut node.member, &mut node.children);
                }
            }),
            Some(Form::List(list)) => set.change_nodes(|node| {
                changed |= self.reconcile_node(&list.element, &mut node.member, &mut node.children);
            }),
            _ => {}
        }
        changed
    }

    fn reconcile_node(
        &self,
        reference: &TypeRef,
        member: &mut bool,
        children: &mut FieldSet,
    ) -> bool {
        if children.is_empty() {
            return false;
        }
        let form = self
            .schema
            .resolve(reference)
            .and_then(|definition| definition.form(definition.forms(None)));
        let atomic = match form {
            Some(Form::Map(map)) => map.atomic && !map.is_deduced(),
            Some(Form::List(list)) => list.relation == ListRelation::Atomic,
            _ => false,
        };
        if atomic {
            *member = true;
            *children = FieldSet::default();
            return true;
        }
        self.reconcile_at(reference, children)
    }

    /// The set with the declared fields on the paths to its members. Sets omit structs; they are needed
    /// to decide whether a struct is still owned.
    pub(in crate::apply) fn with_structs(&self, set: &FieldSet) -> FieldSet {
        self.with_structs_at(Some(self.root), set)
    }

    fn with_structs_at(&self, reference: Option<&TypeRef>, set: &FieldSet) -> FieldSet {
        let definition = reference.and_then(|reference| self.schema.resolve(reference));
        let map = definition.and_then(|definition| definition.map.as_ref());
        let list = definition.and_then(|definition| definition.list.as_ref());
        let mut out = FieldSet::default();
        for node in set.nodes() {
            let (declared, below) = match &node.element {
                PathElement::Field(name) => (
                    map.is_some_and(|map| map.fields.contains_key(name)),
                    map.and_then(|map| map.entry(name)),
                ),
                PathElement::Key(_) => (false, list.map(|list| &list.element)),
                _ => (false, None),
            };
            let member = node.member || (declared && !node.children.is_empty());
            let children = self.with_structs_at(below, &node.children);
            out.push(node.element.clone(), member, children);
        }
        out
    }
}
