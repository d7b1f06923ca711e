//! What a rule may cost at worst (cel-go `checker/cost.go`, `apiserver/pkg/cel/library/cost.go`).
//! Only upper bounds of costs are kept: nothing here depends on the lower ones.

mod calls;
mod macros;
mod size;

pub(crate) use self::size::Root;
use self::size::{EntrySize, Route, Size, ValuePart};
use super::ast::{Entry, Expr, Kind, Literal, MacroKind};
use super::check::Checked;
use super::decl::{Decl, MAX_REQUEST};
use super::program::Program;
use super::types::Type;
use crate::field::{ErrorList, FieldError, Path};

/// Largest estimate for all rules of a schema together.
// `StaticEstimatedCRDCostLimit` of `apiextensions/validation/validation.go`; ten times the limit of one rule.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// Rules below this share of the limit are not named.
const NAMED: u64 = SCHEMA_LIMIT / 100;

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
        // Upstream names the four most expensive rules; the rest would not help the author.
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
        errors.forbidden(schema, cost_error(what, self.total, SCHEMA_LIMIT));
        errors
    }
}

/// Most that an evaluation on a value of `decl` can cost.
pub(crate) fn estimate(program: &Program, decl: &Decl) -> u64 {
    estimate_in(program, Root::Object(decl))
}

/// Most that an evaluation can cost, with the sizes of `root`.
pub(crate) fn estimate_in(program: &Program, root: Root<'_>) -> u64 {
    coster(program, root).cost(&program.expr)
}

/// The largest result of an evaluation: its own size, and that of its items or values.
pub(crate) fn result_sizes(program: &Program, root: Root<'_>) -> (u64, u64) {
    let mut coster = coster(program, root);
    coster.cost(&program.expr);
    let items = coster.entry(&program.expr).map(|entry| entry.value);
    let items = items.or_else(|| {
        let route = coster.route(&program.expr).copy();
        (!route.is_empty()).then(|| route.then(ValuePart::Items).size(root))?
    });
    let own = coster.size(&program.expr);
    let most = |size: Option<Size>| size.map_or(MAX_REQUEST, |size| size.max.min(MAX_REQUEST));
    (most(own), most(items))
}

fn coster<'d>(program: &'d Program, root: Root<'d>) -> Coster<'d> {
    let nodes = program.checked.types.len();
    Coster {
        root,
        checked: &program.checked,
        routes: vec![Route::default(); nodes],
        sizes: vec![None; nodes],
        entries: vec![None; nodes],
        locals: Vec::new(),
    }
}

/// A variable of a macro.
#[derive(Debug, Clone, Default)]
struct Local<'d> {
    route: Route<'d>,
    size: Option<Size>,
}

/// Walks the tree in upstream's order. Sizes are resolved only when needed, since routes may change
/// until then.
struct Coster<'d> {
    root: Root<'d>,
    checked: &'d Checked,
    routes: Vec<Route<'d>>,
    /// Sizes found so far; they take precedence over the schema's.
    sizes: Vec<Option<Size>>,
    entries: Vec<Option<EntrySize>>,
    locals: Vec<(&'d str, Local<'d>)>,
}

impl<'d> Coster<'d> {
    fn type_of(&self, expr: &Expr) -> &'d Type {
        self.checked.types.get(expr.id).unwrap_or(&Type::Dyn)
    }

    fn local(&self, name: &str) -> Option<&Local<'d>> {
        let found = self.locals.iter().rev().find(|(n, _)| *n == name);
        found.map(|(_, local)| local)
    }

    fn route(&self, expr: &Expr) -> Route<'d> {
        self.routes.get(expr.id).cloned().unwrap_or_default()
    }

    fn set_route(&mut self, expr: &Expr, route: Route<'d>) {
        if let Some(slot) = self.routes.get_mut(expr.id) {
            *slot = route;
        }
    }

    fn entry(&self, expr: &Expr) -> Option<EntrySize> {
        self.entries.get(expr.id).copied().flatten()
    }

    fn set_entry(&mut self, expr: &Expr, entry: Option<EntrySize>) {
        if let Some(slot) = self.entries.get_mut(expr.id)
            && entry.is_some()
        {
            *slot = entry;
        }
    }

    fn set_size(&mut self, expr: &Expr, size: Option<Size>) {
        if let Some(slot) = self.sizes.get_mut(expr.id)
            && size.is_some()
        {
            *slot = size;
        }
    }

    /// The size of a node that has been costed.
    fn size(&mut self, expr: &'d Expr) -> Option<Size> {
        if let Some(size) = self.sizes.get(expr.id).copied().flatten() {
            return Some(size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(size);
        }
        if let Some(size) = self.route(expr).size(self.root) {
            self.set_size(expr, Some(size));
            return Some(size);
        }
        scalar_size(self.type_of(expr)).or_else(|| match &expr.kind {
            Kind::Ident(name) => self
                .local(name)
                .and_then(|local| local.size)
                .or_else(|| self.largest()),
            _ => self.largest(),
        })
    }

    /// The size of what has no schema: nothing is known about the parts of an object that a rule validates, but a
    /// variable fits into a request.
    fn largest(&self) -> Option<Size> {
        matches!(self.root, Root::Variables(_)).then_some(Size::up_to(MAX_REQUEST))
    }

    fn size_or_unknown(&mut self, expr: &'d Expr) -> Size {
        self.size(expr).unwrap_or(Size::UNKNOWN)
    }

    fn cost(&mut self, expr: &'d Expr) -> u64 {
        match &expr.kind {
            // The check lets no message literals pass.
            Kind::Literal(_) | Kind::Struct { .. } => 0,
            Kind::Ident(name) => {
                let route = match self.local(name) {
                    Some(local) => local.route.clone(),
                    None => Route::variable(name),
                };
                self.set_route(expr, route);
                1
            }
            Kind::Select {
                operand,
                test: true,
                ..
            } => self.cost(operand),
            Kind::Select { operand, field, .. } => {
                let cost = self.cost(operand);
                let selects = matches!(
                    self.type_of(operand),
                    Type::Map(_) | Type::Object(_) | Type::Opaque(_)
                );
                let route = self.route(operand).then(ValuePart::Name(field));
                self.set_route(expr, route);
                cost.saturating_add(u64::from(selects))
            }
            Kind::OptSelect { operand, .. } => self.cost(operand).saturating_add(1),
            Kind::Call { target, name, args } => self.call(expr, target.as_deref(), name, args),
            Kind::List(items) => {
                let (mut cost, mut value) = (10_u64, None);
                for item in items {
                    cost = cost.saturating_add(self.cost(&item.value));
                    let size = self.size_or_unknown(&item.value);
                    value = Some(value.map_or(size, |v: Size| v.union(size)));
                }
                let entry = EntrySize {
                    list: true,
                    key: Size::fixed(1),
                    value: value.unwrap_or(Size::fixed(0)),
                };
                self.set_entry(expr, Some(entry));
                cost
            }
            Kind::Map(entries) => self.map(expr, entries),
            Kind::Macro(node) => match node.kind {
                MacroKind::OptMap | MacroKind::OptFlatMap => self.optional_macro(expr, node),
                MacroKind::SortBy => self.sort_by(expr, node),
                _ => self.fold(expr, node),
            },
        }
    }

    fn map(&mut self, expr: &'d Expr, entries: &'d [Entry]) -> u64 {
        let (mut cost, mut sizes) = (30_u64, None);
        for entry in entries {
            cost = cost.saturating_add(self.cost(&entry.key));
            cost = cost.saturating_add(self.cost(&entry.value));
            let found = EntrySize {
                list: false,
                key: self.size_or_unknown(&entry.key),
                value: self.size_or_unknown(&entry.value),
            };
            sizes = Some(sizes.map_or(found, |s: EntrySize| s.union(found)));
        }
        let nothing = EntrySize {
            list: false,
            key: Size::fixed(0),
            value: Size::fixed(0),
        };
        self.set_entry(expr, Some(sizes.unwrap_or(nothing)));
        cost
    }
}

/// The size a literal shows.
fn literal_size(expr: &Expr) -> Option<Size> {
    let size = match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List(items) => items.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Size::fixed(size as u64))
}

/// Scalars have size one.
fn scalar_size(t: &Type) -> Option<Size> {
    match t {
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Timestamp | Type::Duration => {
            Some(Size::fixed(1))
        }
        Type::Optional(inner) => scalar_size(inner),
        _ => None,
    }
}
