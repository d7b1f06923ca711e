//! Bounds for calls.

use super::{Bound, Coster, multiply, tenth};
use crate::cel::ast::{Expr, Kind, Literal};
use crate::cel::decl::Shape;
use crate::cel::formats::Format;
use crate::cel::types::{Opaque, Type};

/// Comparing everything with everything, into a new list.
pub(super) fn compare_all(count: u64, text: bool) -> u64 {
    let pairs = multiply(count, count);
    let extra = if text { pairs / 10 } else { 0 };
    multiply(pairs, 2).saturating_add(extra).saturating_add(11)
}

/// The number a literal argument says, else the default.
fn literal_int(expr: Option<&Expr>, default: u64) -> u64 {
    match expr.map(|e| &e.kind) {
        Some(Kind::Literal(Literal::Int(i))) => u64::try_from(*i).unwrap_or(0),
        _ => default,
    }
}

impl<'d> Coster<'d> {
    pub(super) fn call(
        &mut self,
        target: Option<&'d Expr>,
        name: &str,
        args: &'d [Expr],
    ) -> Bound<'d> {
        let bounds: Vec<Bound<'d>> = target
            .into_iter()
            .chain(args)
            .map(|e| self.expr(e))
            .collect();
        let spent = bounds.iter().map(|b| b.cost).fold(0, u64::saturating_add);
        if let ("_?_:_", [condition, yes, no]) = (name, bounds.as_slice()) {
            let cost = condition.cost.saturating_add(yes.cost.max(no.cost));
            let size = yes.known_size().max(no.known_size());
            let element = yes.element.zip(no.element).map(|(a, b)| a.max(b));
            return Bound {
                cost,
                size: Some(size),
                element,
                decl: None,
            };
        }
        if matches!(name, "_&&_" | "_||_") {
            return Bound::cost(spent);
        }
        if let ("_[_]" | "_[?_]", Some(operand)) = (name, bounds.first()) {
            return operand.element_of(false).plus(spent).plus(1);
        }
        let first = target.or_else(|| args.first());
        let kind = first.map_or(&Type::Dyn, |e| self.type_of(e));
        let (cost, size) = self.function(name, kind, &bounds, args, target.is_some());
        let mut bound = Bound::cost(cost.saturating_add(spent));
        bound.size = size;
        if name == "dyn" {
            let inner = bounds.into_iter().next().unwrap_or_default();
            return Bound {
                cost: bound.cost,
                ..inner
            };
        }
        if name == "_+_" {
            bound.element = element_size(bounds.first()).max(element_size(bounds.get(1)));
        }
        bound
    }

    /// Cost and size of the result, arguments aside.
    fn function(
        &self,
        name: &str,
        kind: &Type,
        bounds: &[Bound<'d>],
        args: &[Expr],
        member: bool,
    ) -> (u64, Option<u64>) {
        let size = |i: usize| bounds.get(i).map_or(u64::MAX, Bound::known_size);
        let textual = matches!(kind, Type::String | Type::Bytes);
        // Anything may turn out to be text.
        let maybe_text = textual || matches!(kind, Type::Dyn);
        match name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let Type::List(item) = kind else {
                    return (tenth(size(0)), None);
                };
                let each = match **item {
                    Type::String | Type::Bytes => {
                        let element = bounds.first().map(|b| b.element_of(false));
                        tenth(element.map_or(u64::MAX, |e| e.known_size())).saturating_add(1)
                    }
                    _ => 1,
                };
                (multiply(size(0), each), None)
            }
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                (tenth(size(0)), Some(size(0)))
            }
            "replace" => {
                let longest = multiply(size(0).saturating_add(1), size(2)).saturating_add(size(0));
                (tenth(multiply(size(0), 2)), Some(longest))
            }
            "split" => {
                let parts = literal_int(args.get(1), size(0));
                (tenth(multiply(size(0), 2)), Some(parts))
            }
            "join" => {
                let element = bounds.first().map(|b| b.element_of(false).known_size());
                let separators = if bounds.len() > 1 {
                    multiply(size(0).saturating_sub(1), size(1))
                } else {
                    0
                };
                let total = multiply(size(0), element.unwrap_or(u64::MAX));
                let total = total.saturating_add(separators);
                (tenth(total), Some(total))
            }
            "find" | "findAll" | "matches" => {
                let text = tenth(size(0).saturating_add(1));
                (multiply(text, size(1).div_ceil(4)), Some(size(0)))
            }
            "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                (tenth(size(0)), None)
            }
            "ip" if textual => (tenth(size(0)), None),
            "ip.isCanonical" => (tenth(multiply(size(0), 2)), None),
            "containsIP" | "containsCIDR" => {
                let extra = if name == "containsCIDR" { 3 } else { 0 };
                let text = args
                    .first()
                    .is_some_and(|a| matches!(self.type_of(a), Type::String));
                (4 + extra + if text { tenth(size(1)) } else { 0 }, None)
            }
            "validate" => (multiply(tenth(size(1)), 32), None),
            "_==_" | "_!=_" => match kind {
                Type::Opaque(Opaque::Url | Opaque::Format) => {
                    (tenth(Format::Uri.regex_size().min(64)), None)
                }
                Type::Opaque(_) => (1, None),
                _ => (tenth(size(0).min(size(1))), None),
            },
            "_<_" | "_<=_" | "_>_" | "_>=_" if maybe_text => {
                (tenth(size(0).min(size(1))).max(1), None)
            }
            "format" if member => (tenth(size(0)), None),
            "bytes" if maybe_text => (tenth(size(0)), Some(multiply(size(0), 4))),
            "string" if matches!(kind, Type::Bytes | Type::Dyn) => (tenth(size(0)), Some(size(0))),
            "strings.quote" => (tenth(size(0)), Some(multiply(size(0), 2).saturating_add(2))),
            "startsWith" | "endsWith" => (tenth(size(1)), None),
            "contains" => (multiply(tenth(size(0)), tenth(size(1))), None),
            "@in" => {
                let container = args.get(1).map(|a| self.type_of(a));
                match container {
                    Some(Type::Map(_)) => (1, None),
                    _ => (size(1), None),
                }
            }
            "_+_" => {
                let total = size(0).saturating_add(size(1));
                match kind {
                    Type::List(_) => (1, Some(total)),
                    _ if maybe_text => (tenth(total).max(1), Some(total)),
                    _ => (1, None),
                }
            }
            "slice" => {
                let start = literal_int(args.first(), 0);
                let end = literal_int(args.get(1), size(0));
                let count = end.saturating_sub(start);
                (count.saturating_add(11), Some(count))
            }
            "lists.range" => {
                let count = literal_int(args.first(), u64::MAX);
                (count.saturating_add(11), Some(count))
            }
            "reverse" => (size(0).saturating_add(11), Some(size(0))),
            "flatten" => {
                let depth = if args.is_empty() {
                    1
                } else {
                    literal_int(args.first(), u64::MAX)
                };
                (multiply(size(0), depth).saturating_add(11), Some(size(0)))
            }
            "sort" | "distinct" => {
                let text = name == "sort"
                    && matches!(kind, Type::List(t) if matches!(**t, Type::String | Type::Bytes));
                (compare_all(size(0), text), Some(multiply(size(0), size(0))))
            }
            "sets.contains" | "sets.intersects" => {
                (multiply(size(0), size(1)).saturating_add(1), None)
            }
            "sets.equivalent" => (
                multiply(multiply(size(0), size(1)), 2).saturating_add(1),
                None,
            ),
            _ => (1, None),
        }
    }
}

/// Bound on the size of the items of a list.
fn element_size(bound: Option<&Bound<'_>>) -> Option<u64> {
    let bound = bound?;
    match bound.decl.map(|d| &d.shape) {
        Some(Shape::List(_) | Shape::Map(_)) => bound.element_of(false).size,
        _ => bound.element,
    }
}
