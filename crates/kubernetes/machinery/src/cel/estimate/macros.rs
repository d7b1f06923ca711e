//! Bounds for macros: those of the folds that upstream expands them to.

use super::calls::sort_cost;
use super::{Coster, EntrySize, Local, Route, Size, ValuePart, scalar_size};
use crate::cel::ast::{Expr, Macro, MacroKind};
use crate::cel::types::Type;

impl<'d> Coster<'d> {
    /// Binds the variables of a macro to what iterating over `range` gives.
    fn bind(&mut self, node: &'d Macro, range: &Type, route: &Route<'d>, entry: Option<EntrySize>) {
        let list = entry.map_or(matches!(range, Type::List(_)), |e| e.list);
        let key = Local {
            route: Route::default(),
            size: entry.map(|e| e.key),
        };
        let value = Local {
            route: Route::default(),
            size: entry.map(|e| e.value),
        };
        let at = |local: Local<'d>, step| Local {
            route: route.then(step),
            ..local
        };
        match &node.var2 {
            Some(second) => {
                let step = if list {
                    ValuePart::Indices
                } else {
                    ValuePart::Keys
                };
                self.locals.push((&node.var, at(key, step)));
                let step = if list {
                    ValuePart::Items
                } else {
                    ValuePart::Values
                };
                self.locals.push((second, at(value, step)));
            }
            None if list => self.locals.push((&node.var, at(value, ValuePart::Items))),
            None => self.locals.push((&node.var, at(key, ValuePart::Keys))),
        }
    }

    /// The size of a variable where the expansion mentions it.
    fn variable_size(&self, name: &str, t: &Type) -> Size {
        let local = self.local(name).cloned().unwrap_or_default();
        let found = local.route.size(self.root).or_else(|| scalar_size(t));
        found
            .or(local.size)
            .or_else(|| self.largest())
            .unwrap_or(Size::UNKNOWN)
    }

    /// `all`, `exists`, `map`, `filter` and their like.
    pub(super) fn fold(&mut self, expr: &'d Expr, node: &'d Macro) -> u64 {
        let range = self.cost(&node.range);
        let range_type = self.type_of(&node.range);
        let (route, entry) = (self.route(&node.range), self.entry(&node.range));
        let scope = self.locals.len();
        self.bind(node, range_type, &route, entry);
        let filter = node.filter.as_ref().map_or(0, |f| self.cost(f));
        let body = self.cost(&node.body);
        let produced = match node.kind {
            MacroKind::Map => Some(self.size_or_unknown(&node.body)),
            MacroKind::Filter => Some(self.variable_size(&node.var, item_type(range_type))),
            _ => None,
        };
        self.locals.truncate(scope);
        // What the expansion costs besides: at the start, in every round, and for the result.
        // Derived from the expansion of each macro (cel-go `parser/macro.go`) and the cost of its nodes. Upstream
        // estimates the expanded tree; the macro stays one node here, so the sums are written down.
        let (start, step, end) = match node.kind {
            MacroKind::All => (0, 3, 1),
            MacroKind::Exists => (0, 4, 1),
            MacroKind::ExistsOne => (0, 2, 2),
            MacroKind::Filter => (10, 13, 1),
            MacroKind::TransformMap => (30, 3, 1),
            MacroKind::TransformMapEntry => (30, 2, 1),
            _ => (10, 12, 1),
        };
        let round = body.saturating_add(filter).saturating_add(step);
        let count = self.size_or_unknown(&node.range);
        let size = match node.kind {
            MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne => Size::fixed(1),
            _ => count,
        };
        self.set_size(expr, Some(size));
        let entry = produced.map(|value| EntrySize {
            list: true,
            key: Size::fixed(1),
            // A filter may drop every item, so the lower bound is nothing.
            value: value.union(Size::fixed(0)),
        });
        self.set_entry(expr, entry);
        range
            .saturating_add(start + end)
            .saturating_add(count.max.saturating_mul(round))
    }

    /// `optMap` and `optFlatMap`, which mention the optional twice.
    pub(super) fn optional_macro(&mut self, expr: &'d Expr, node: &'d Macro) -> u64 {
        let target = self.cost(&node.range);
        let inner = match self.type_of(&node.range) {
            Type::Optional(inner) => scalar_size(inner),
            _ => None,
        };
        let scope = self.locals.len();
        let local = Local {
            route: Route::default(),
            size: inner,
        };
        self.locals.push((&node.var, local));
        let body = self.cost(&node.body);
        let produced = self.size(&node.body);
        self.locals.truncate(scope);
        let otherwise = scalar_size(self.type_of(expr)).unwrap_or(Size::UNKNOWN);
        let (wrap, size) = match node.kind {
            MacroKind::OptMap => (1, otherwise),
            _ => (0, produced.unwrap_or(otherwise).union(otherwise)),
        };
        self.set_size(expr, Some(size));
        target
            .saturating_mul(2)
            .saturating_add(body)
            .saturating_add(12 + wrap)
    }

    /// `sortBy`: a list of keys is made, by which the list is then sorted.
    pub(super) fn sort_by(&mut self, expr: &'d Expr, node: &'d Macro) -> u64 {
        let target = self.cost(&node.range);
        let (route, entry) = (self.route(&node.range), self.entry(&node.range));
        let own = self.size(&node.range);
        let scope = self.locals.len();
        self.bind(node, self.type_of(&node.range), &route, entry);
        let body = self.cost(&node.body);
        self.locals.truncate(scope);
        let count = route
            .size(self.root)
            .or(own)
            .or_else(|| self.largest())
            .unwrap_or(Size::UNKNOWN);
        let text = matches!(
            self.type_of(&node.body),
            Type::String | Type::Bytes | Type::Dyn
        );
        self.set_size(expr, Some(count.times(count)));
        target
            .saturating_add(23)
            .saturating_add(count.max.saturating_mul(body.saturating_add(12)))
            .saturating_add(sort_cost(count, text))
    }
}

/// The type of the single variable of a macro over `range`.
fn item_type(range: &Type) -> &Type {
    match range {
        Type::List(item) => item,
        Type::Map(kv) => &kv.0,
        _ => &Type::Dyn,
    }
}
