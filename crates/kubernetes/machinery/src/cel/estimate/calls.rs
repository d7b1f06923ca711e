//! Bounds for calls.

use super::{Coster, EntrySize, Route, Size, ValuePart};
use crate::cel::ast::{Expr, Kind, Literal};
use crate::cel::meter::tenths;
use crate::cel::signatures::Overload;
use crate::cel::types::{Opaque, Type};

/// Longest format that is reckoned with (`MaxFormatSize`).
const FORMAT_SIZE: u64 = 64;
/// A quarter of the longest pattern of a format (`MaxNameFormatRegexSize`).
const FORMAT_PATTERN: u64 = 128 / 4;
/// Bytes of the longest address.
const ADDRESS: u64 = 16;

/// A receiver or an argument.
struct Operand<'d> {
    expr: &'d Expr,
    t: &'d Type,
    route: Route<'d>,
    size: Option<Size>,
}

impl Operand<'_> {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// Cost of a call without its arguments, and the size of its result.
type Estimate = (u64, Option<Size>);

/// Walking a string.
fn walk(size: Size) -> u64 {
    tenths(size.max, 1)
}

/// Running a pattern over a string.
fn search(text: Size, pattern: Size) -> u64 {
    tenths(text.max.saturating_add(1), 1).saturating_mul(pattern.max.div_ceil(4))
}

/// A call that makes a list of this size.
fn allocation(size: Size, factor: u64) -> Estimate {
    let cost = size.max.saturating_mul(factor).saturating_add(11);
    (cost, Some(size))
}

/// Comparing everything with everything, into a new list.
pub(super) fn sort_cost(size: Size, text: bool) -> u64 {
    let pairs = size.max.saturating_mul(size.max);
    tenths(pairs, if text { 21 } else { 20 }).saturating_add(11)
}

fn literal_int(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        Kind::Literal(Literal::Int(i)) => Some(*i),
        _ => None,
    }
}

/// The number in a literal argument of the list library, else the default.
fn count(operand: &Operand<'_>, default: u64) -> u64 {
    literal_int(operand.expr).map_or(default, |i| u64::try_from(i).unwrap_or(0))
}

impl<'d> Coster<'d> {
    pub(super) fn call(
        &mut self,
        expr: &'d Expr,
        target: Option<&'d Expr>,
        name: &str,
        args: &'d [Expr],
    ) -> u64 {
        if let ("dyn", [inner]) = (name, args) {
            let cost = self.cost(inner);
            let size = self.size(inner);
            self.set_size(expr, size);
            self.set_entry(expr, self.entry(inner));
            return cost.saturating_add(1);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut operands = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            operands.push(self.operand(arg));
        }
        let receiver = target.map(|t| (self.cost(t), self.operand(t)));
        let spent = costs.iter().copied().fold(0, u64::saturating_add);
        if let ("_?_:_", [condition, yes, no]) = (name, costs.as_slice()) {
            self.conditional(expr, &operands);
            return condition.saturating_add(*yes.max(no));
        }
        if matches!(name, "_&&_" | "_||_") {
            return spent;
        }
        let checked = self.checked;
        let overloads = checked.overloads.get(&expr.id).map_or(&[][..], |o| o);
        let (mut cost, mut size) = (0, None);
        for overload in overloads {
            let on = receiver.as_ref().map(|(_, operand)| operand);
            let (own, result) = self.function(expr, name, overload, on, &operands);
            // Which overload runs is known only at run time; the bound is the worst of those that type-check.
            cost = own.max(cost);
            size = match (size, result) {
                (Some(a), Some(b)) => Some(Size::union(a, b)),
                (a, b) => a.or(b),
            };
            if name == "_[_]" {
                size = self.index(expr, overload, args, size);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        self.set_size(expr, size);
        let before = receiver.map_or(0, |(cost, _)| cost);
        cost.saturating_add(spent).saturating_add(before)
    }

    fn operand(&mut self, expr: &'d Expr) -> Operand<'d> {
        Operand {
            expr,
            t: self.type_of(expr),
            route: self.route(expr),
            size: self.size(expr),
        }
    }

    fn conditional(&mut self, expr: &'d Expr, operands: &[Operand<'d>]) {
        let [_, yes, no] = operands else { return };
        self.set_size(expr, Some(yes.size().union(no.size())));
        let entries = self.entry(yes.expr).zip(self.entry(no.expr));
        self.set_entry(expr, entries.map(|(a, b)| a.union(b)));
    }

    /// The element of an index operation, and the size its operand implies.
    fn index(
        &mut self,
        expr: &'d Expr,
        overload: &Overload,
        args: &'d [Expr],
        size: Option<Size>,
    ) -> Option<Size> {
        let step = match overload.args.first() {
            Some(Type::List(_)) => ValuePart::Items,
            Some(Type::Map(_)) => ValuePart::Values,
            _ => return size,
        };
        let operand = args.first()?;
        self.set_route(expr, self.route(operand).then(step));
        self.entry(operand).map(|e| e.value)
    }

    /// The size of the items of a list, as far as its type has parameters.
    fn item(&self, list: &Operand<'d>) -> Option<(&'d Type, Size)> {
        let item: &Type = match list.t {
            Type::List(item) | Type::Optional(item) | Type::Meta(item) => item,
            Type::Map(kv) => &kv.0,
            _ => return None,
        };
        let size = if list.route.is_empty() {
            None
        } else {
            // A copy, so that this route does not change others.
            list.route.copy().then(ValuePart::Items).size(self.root)
        };
        Some((
            item,
            size.or_else(|| self.largest()).unwrap_or(Size::UNKNOWN),
        ))
    }

    fn function(
        &mut self,
        expr: &'d Expr,
        name: &str,
        overload: &Overload,
        target: Option<&Operand<'d>>,
        args: &[Operand<'d>],
    ) -> Estimate {
        let found = match (target, args) {
            (Some(target), _) => self.member(name, overload, target, args),
            (None, [one]) => unary(name, overload, one),
            (None, [left, right]) => self.binary(expr, name, overload, left, right),
            _ => None,
        };
        found.unwrap_or((1, None))
    }

    fn member(
        &self,
        name: &str,
        overload: &Overload,
        target: &Operand<'d>,
        args: &[Operand<'d>],
    ) -> Option<Estimate> {
        let size = target.size();
        Some(match (name, args) {
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", _) => {
                let Some((item, each)) = self.item(target) else {
                    return Some((walk(size), None));
                };
                let each = match item {
                    Type::String | Type::Bytes => walk(each).saturating_add(1),
                    _ => 1,
                };
                (size.max.saturating_mul(each), None)
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", _) => (walk(size), Some(size)),
            ("replace", [from, to, ..]) => {
                let longest = replaced(size, from.size(), to.size());
                (tenths(size.max, 2), Some(longest))
            }
            ("split", _) => {
                let limit = args.get(1).and_then(|a| literal_int(a.expr));
                let parts = limit.map_or(size.max, i64::cast_unsigned);
                (tenths(size.max, 2), Some(Size::up_to(parts)))
            }
            ("join", _) => {
                let items = self.item(target);
                let mut total = items.map_or(Size::fixed(0), |(_, each)| size.times(each));
                if let Some(separator) = args.first() {
                    let gaps = Size {
                        min: size.min.saturating_sub(1),
                        max: size.max.saturating_sub(1),
                    };
                    total = total.plus(separator.size().times(gaps));
                }
                (walk(total), Some(total))
            }
            ("find" | "findAll", [pattern, ..]) => {
                let cost = search(size, pattern.size());
                (cost, Some(Size::up_to(size.max)))
            }
            ("matches", [pattern]) => (search(size, pattern.size()), None),
            ("contains", [part]) => (walk(size).saturating_mul(walk(part.size())), None),
            ("startsWith" | "endsWith", [part]) => (walk(part.size()), None),
            ("format", [_]) => (walk(size), None),
            ("containsIP" | "containsCIDR", [other]) => {
                let mut cost = tenths(ADDRESS, 2);
                if name == "containsCIDR" {
                    cost += tenths(ADDRESS, 1) + 1;
                }
                // Text is parsed first.
                if matches!(overload.args.get(1), Some(Type::String)) {
                    cost = cost.saturating_add(walk(other.size()));
                }
                (cost, None)
            }
            ("validate", [text]) => (walk(text.size()).saturating_mul(FORMAT_PATTERN), None),
            ("slice", [start, end]) => {
                let parts = count(end, size.max).wrapping_sub(count(start, 0));
                allocation(Size::fixed(parts), 1)
            }
            ("reverse" | "flatten", []) => allocation(size, 1),
            ("flatten", [depth]) => allocation(size, count(depth, u64::MAX)),
            ("sort" | "distinct", []) => {
                let text = name == "sort"
                    && matches!(
                        overload.args.first(),
                        Some(Type::List(t)) if matches!(**t, Type::String | Type::Bytes)
                    );
                (sort_cost(size, text), Some(size.times(size)))
            }
            _ => return None,
        })
    }

    fn binary(
        &mut self,
        expr: &'d Expr,
        name: &str,
        overload: &Overload,
        left: &Operand<'d>,
        right: &Operand<'d>,
    ) -> Option<Estimate> {
        let (a, b) = (left.size(), right.size());
        let shorter = tenths(a.max.min(b.max), 1);
        Some(match (name, overload.args.first()?) {
            ("semver" | "isSemver", _) => (walk(a), None),
            ("_==_", _) => (equality(left, right).unwrap_or(shorter), None),
            ("_!=_", _) | ("_<_" | "_<=_" | "_>_" | "_>=_", Type::String | Type::Bytes) => {
                (shorter, None)
            }
            ("@in", _) if matches!(overload.args.get(1), Some(Type::List(_))) => (b.max, None),
            ("_+_", kind @ (Type::String | Type::Bytes | Type::List(_))) => {
                let total = a.plus(b);
                let entries = self.entry(left.expr).zip(self.entry(right.expr));
                self.set_entry(expr, entries.map(|(a, b): (EntrySize, _)| a.union(b)));
                match kind {
                    Type::List(_) => (1, Some(total)),
                    _ => (walk(total), Some(total)),
                }
            }
            ("sets.contains" | "sets.intersects", _) => {
                (a.max.saturating_mul(b.max).saturating_add(1), None)
            }
            ("sets.equivalent", _) => {
                let pairs = a.max.saturating_mul(b.max);
                (pairs.saturating_mul(2).saturating_add(1), None)
            }
            _ => return None,
        })
    }
}

fn unary(name: &str, overload: &Overload, operand: &Operand<'_>) -> Option<Estimate> {
    let size = operand.size();
    Some(match (name, overload.args.first()?) {
        ("url", _) => (walk(size), Some(size)),
        (
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
            _,
        ) => (walk(size), None),
        ("ip.isCanonical", _) => (tenths(size.max, 2), None),
        ("bytes", Type::String) => {
            // Every character may take four bytes.
            // Wrapping, because Go's unsigned arithmetic wraps here: an estimate that saturates would reject CRDs
            // that the genuine server accepts.
            let max = size.max.wrapping_mul(4);
            (walk(size), Some(Size { min: size.min, max }))
        }
        ("string", Type::Bytes) => {
            let min = size.min / 4;
            (walk(size), Some(Size { min, max: size.max }))
        }
        ("strings.quote", _) => {
            // Every character may be escaped.
            let quoted = Size {
                min: size.min.wrapping_add(2),
                max: size.max.wrapping_mul(2).wrapping_add(2),
            };
            (walk(size), Some(quoted))
        }
        ("lists.range", _) => allocation(Size::fixed(count(operand, u64::MAX)), 1),
        _ => return None,
    })
}

/// Cost of comparing two values of the Kubernetes libraries.
fn equality(left: &Operand<'_>, right: &Operand<'_>) -> Option<u64> {
    match (left.t, right.t) {
        (Type::Opaque(a), Type::Opaque(b)) if a == b => Some(match a {
            Opaque::Url => right.size.map_or(1, walk),
            Opaque::Format => tenths(FORMAT_SIZE, 1),
            Opaque::Ip | Opaque::Cidr | Opaque::Quantity | Opaque::Semver => 1,
        }),
        _ => None,
    }
}

/// Bounds of a string in which something is replaced: the longest comes from replacing the
/// shortest parts.
fn replaced(text: Size, from: Size, to: Size) -> Size {
    let (times, kept) = if from.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if to.max <= from.min {
        (0, text.max)
    } else {
        (text.max.div_ceil(from.min), 0)
    };
    let max = times.saturating_mul(to.max).saturating_add(kept);
    let (times, kept) = if from.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if from.max <= to.min {
        (0, text.min)
    } else {
        (text.min.div_ceil(from.max), 0)
    };
    let min = times.saturating_mul(to.min).saturating_add(kept);
    Size { min, max }
}
