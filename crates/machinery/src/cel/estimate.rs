//! What a rule may cost at worst (cel-go `checker/cost.go`, `apiserver/pkg/cel/library/cost.go`).
//! Only upper bounds are kept: nothing here depends on the lower ones.

mod calls;

use super::ast::{Expr, Kind, Literal, Macro, MacroKind};
use super::compile::{OLD_SELF, SELF};
use super::decl::{Decl, Shape};
use super::program::Program;
use super::types::Type;
use crate::field::{FieldError, Path};

/// Largest estimate for all rules of a schema together.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// Rules below this share of the limit are not named.
const NAMED: u64 = SCHEMA_LIMIT / 100;

/// The product, at most the largest number there is.
pub(crate) fn multiply(a: u64, b: u64) -> u64 {
    a.saturating_mul(b)
}

/// Text for an estimate beyond its limit.
pub(crate) fn cost_error(what: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "only shown")]
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// The sum over a schema.
#[derive(Debug, Default)]
pub(crate) struct TotalCost {
    total: u64,
    expensive: Vec<(Path, u64)>,
}

impl TotalCost {
    /// Adds an expression.
    pub(crate) fn observe(&mut self, path: &Path, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < NAMED {
            return;
        }
        self.expensive.push((path.clone(), cost));
        self.expensive
            .sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.expensive.truncate(4);
    }

    /// Errors if it is too much, the most expensive rules first.
    pub(crate) fn errors(&self, schema: &Path) -> Vec<FieldError> {
        if self.total <= SCHEMA_LIMIT {
            return Vec::new();
        }
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire \
                      OpenAPIv3 schema";
        let mut errors: Vec<FieldError> = self
            .expensive
            .iter()
            .map(|(path, _)| FieldError::forbidden(path, detail))
            .collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(
            schema,
            cost_error(what, self.total, SCHEMA_LIMIT),
        ));
        errors
    }
}

/// Most that an evaluation on a value of `decl` can cost.
pub(crate) fn estimate(program: &Program, decl: &Decl) -> u64 {
    let mut coster = Coster {
        root: decl,
        types: &program.checked.types,
        locals: Vec::new(),
    };
    coster.expr(&program.expr).cost
}

/// Bounds for a node.
#[derive(Debug, Clone, Default)]
struct Bound<'d> {
    /// Cost of evaluating it.
    cost: u64,
    /// Size of its value, if something bounds it.
    size: Option<u64>,
    /// Size of elements or values.
    element: Option<u64>,
    /// Where in the object the value is from.
    decl: Option<&'d Decl>,
}

impl<'d> Bound<'d> {
    fn cost(cost: u64) -> Self {
        Self {
            cost,
            ..Self::default()
        }
    }

    fn known_size(&self) -> u64 {
        self.size.unwrap_or(u64::MAX)
    }

    fn plus(mut self, cost: u64) -> Self {
        self.cost = self.cost.saturating_add(cost);
        self
    }

    fn at(decl: &'d Decl, cost: u64) -> Self {
        Self {
            cost,
            size: Some(decl.max_elements),
            element: None,
            decl: Some(decl),
        }
    }

    /// What iterating over it or indexing into it gives.
    fn element_of(&self, key: bool) -> Self {
        match self.decl.map(|d| &d.shape) {
            // Keys have no bound of their own upstream.
            Some(Shape::Map(_)) if key => Self {
                size: Some(0),
                ..Self::default()
            },
            Some(Shape::Map(values)) => Self::at(values, 0),
            Some(Shape::List(list)) => Self::at(&list.items, 0),
            _ => Self {
                size: self.element,
                ..Self::default()
            },
        }
    }
}

/// Share of a size that costs a unit: a tenth.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

struct Coster<'d> {
    root: &'d Decl,
    types: &'d [Type],
    locals: Vec<(&'d str, Bound<'d>)>,
}

impl<'d> Coster<'d> {
    fn type_of(&self, expr: &Expr) -> &'d Type {
        self.types.get(expr.id).unwrap_or(&Type::Dyn)
    }

    /// Bounds of a node; a scalar has size one if nothing else is known.
    fn expr(&mut self, expr: &'d Expr) -> Bound<'d> {
        let mut bound = self.kind(expr);
        let scalar = matches!(
            self.type_of(expr),
            Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Timestamp | Type::Duration
        );
        if bound.size.is_none() && scalar {
            bound.size = Some(1);
        }
        bound
    }

    fn kind(&mut self, expr: &'d Expr) -> Bound<'d> {
        match &expr.kind {
            Kind::Literal(literal) => {
                let size = match literal {
                    Literal::String(text) => Some(text.chars().count() as u64),
                    Literal::Bytes(bytes) => Some(bytes.len() as u64),
                    _ => None,
                };
                Bound {
                    size,
                    ..Bound::default()
                }
            }
            Kind::Ident(name) => {
                if let Some((_, local)) = self.locals.iter().rev().find(|(n, _)| n == name) {
                    return Bound {
                        cost: 1,
                        ..local.clone()
                    };
                }
                match name.as_str() {
                    SELF | OLD_SELF => Bound::at(self.root, 1),
                    _ => Bound::cost(1),
                }
            }
            Kind::Select {
                operand,
                test: true,
                ..
            } => Bound::cost(self.expr(operand).cost),
            Kind::Select { operand, field, .. } | Kind::OptSelect { operand, field } => {
                let bound = self.expr(operand);
                let selects = matches!(
                    self.type_of(operand),
                    Type::Map(_) | Type::Object(_) | Type::Var(_)
                ) || matches!(expr.kind, Kind::OptSelect { .. });
                let cost = bound.cost.saturating_add(u64::from(selects));
                match bound.decl.map(|d| &d.shape) {
                    Some(Shape::Object(object)) => match object.fields.get(field) {
                        Some(found) => Bound::at(&found.decl, cost),
                        None => Bound::cost(cost),
                    },
                    Some(Shape::Map(values)) => Bound::at(values, cost),
                    _ => Bound::cost(cost),
                }
            }
            Kind::Call { target, name, args } => self.call(target.as_deref(), name, args),
            Kind::List(items) => {
                let mut bound = Bound::cost(10);
                for item in items {
                    let found = self.expr(&item.value);
                    bound = bound.plus(found.cost);
                    bound.element = Some(bound.element.unwrap_or(0).max(found.known_size()));
                }
                bound.size = Some(items.len() as u64);
                bound
            }
            Kind::Map(entries) => {
                let mut bound = Bound::cost(30);
                for entry in entries {
                    let value = self.expr(&entry.value);
                    bound = bound.plus(self.expr(&entry.key).cost).plus(value.cost);
                    bound.element = Some(bound.element.unwrap_or(0).max(value.known_size()));
                }
                bound.size = Some(entries.len() as u64);
                bound
            }
            Kind::Struct { fields, .. } => {
                let costs = fields.iter().map(|f| self.expr(&f.value).cost);
                Bound::cost(costs.fold(40, u64::saturating_add))
            }
            Kind::Macro(node) => self.comprehension(node),
        }
    }

    /// The fold a macro expands to; see the evaluator for the constants.
    fn comprehension(&mut self, node: &'d Macro) -> Bound<'d> {
        let range = self.expr(&node.range);
        let scope = self.locals.len();
        if matches!(node.kind, MacroKind::OptMap | MacroKind::OptFlatMap) {
            self.locals.push((
                &node.var,
                Bound {
                    cost: 0,
                    ..range.clone()
                },
            ));
            let body = self.expr(&node.body);
            self.locals.truncate(scope);
            let wrap = u64::from(node.kind == MacroKind::OptMap);
            let found = range
                .cost
                .saturating_add(body.cost)
                .saturating_add(11 + wrap);
            return Bound { cost: 0, ..body }
                .plus(range.cost)
                .plus(1)
                .plus(found.max(1));
        }
        let is_map = matches!(self.type_of(&node.range), Type::Map(_));
        match &node.var2 {
            Some(second) => {
                let first = if is_map {
                    range.element_of(true)
                } else {
                    Bound::default()
                };
                self.locals.push((&node.var, first));
                self.locals.push((second, range.element_of(false)));
            }
            None => self.locals.push((&node.var, range.element_of(is_map))),
        }
        let filter = node.filter.as_ref().map_or(0, |f| self.expr(f).cost);
        let body = self.expr(&node.body);
        self.locals.truncate(scope);
        let (start, step, end) = match node.kind {
            MacroKind::All => (0, 3, 1),
            MacroKind::Exists => (0, 4, 1),
            MacroKind::ExistsOne => (0, 2, 2),
            MacroKind::Filter => (10, 13, 1),
            MacroKind::TransformMap => (30, 3, 1),
            MacroKind::TransformMapEntry => (30, 2, 1),
            MacroKind::SortBy => (30, 12, 3),
            _ => (10, 12, 1),
        };
        let round = body.cost.saturating_add(filter).saturating_add(step);
        let count = range.known_size();
        let mut result = Bound::cost(range.cost.saturating_add(start + end));
        result = result.plus(multiply(count, round));
        match node.kind {
            MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne => result.size = Some(1),
            MacroKind::Filter | MacroKind::SortBy => {
                result.size = Some(count);
                result.element = range.element_of(is_map).size;
            }
            _ => {
                result.size = Some(count);
                result.element = body.size;
            }
        }
        if node.kind == MacroKind::SortBy {
            let text = matches!(self.type_of(&node.body), Type::String | Type::Bytes);
            result = result.plus(calls::compare_all(count, text));
        }
        result
    }
}
