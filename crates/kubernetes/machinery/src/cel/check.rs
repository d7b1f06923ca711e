//! Static checking (cel-go `checker/checker.go`): every name is declared, every call has an
//! overload, and the result type is known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ast::{Expr, Kind, Literal, Macro, MacroKind};
use super::clauses;
use super::issue::Issue;
use super::signatures::{self, Overload};
use super::types::{Bindings, Opaque, Type};

/// What a check found out.
#[derive(Debug)]
pub(crate) struct Checked {
    /// Type of every node, by number.
    pub(crate) types: Vec<Type>,
    /// Overloads that every call may turn out to be, by number of the node.
    pub(crate) overloads: BTreeMap<usize, Vec<&'static Overload>>,
    /// Type of the whole expression.
    pub(crate) result: Type,
    /// Declared variables the expression refers to.
    pub(crate) references: BTreeSet<String>,
}

/// Checks `expr` against the declared variables and settles which names are types or namespaced
/// functions, rewriting the tree accordingly.
pub(crate) fn check(
    source: &str,
    expr: &mut Expr,
    nodes: usize,
    variables: &[(String, Type)],
) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        source,
        variables,
        scopes: Vec::new(),
        bindings: Bindings::default(),
        types: vec![Type::Dyn; nodes],
        overloads: BTreeMap::new(),
        references: BTreeSet::new(),
        issues: Vec::new(),
    };
    let result = checker.expr(expr);
    if checker.issues.is_empty() {
        let bindings = checker.bindings.clone();
        for t in &mut checker.types {
            *t = bindings.substitute(t, true);
        }
        // Only without type errors: the literals of an expression with unknown types would be judged by guesses.
        checker.validate_literals(expr, false);
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let result = checker.bindings.substitute(&result, true);
    Ok(Checked {
        types: checker.types,
        overloads: checker.overloads,
        result,
        references: checker.references,
    })
}

/// The type that a type name denotes.
pub(crate) fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::Meta(Arc::new(Type::Dyn)),
        "dyn" => Type::Dyn,
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        _ => {
            let all = [
                Opaque::Url,
                Opaque::Quantity,
                Opaque::Ip,
                Opaque::Cidr,
                Opaque::Semver,
                Opaque::Format,
            ];
            Type::Opaque(all.into_iter().find(|o| o.name() == name)?)
        }
    })
}

struct Checker<'c> {
    source: &'c str,
    variables: &'c [(String, Type)],
    scopes: Vec<(String, Type)>,
    bindings: Bindings,
    types: Vec<Type>,
    overloads: BTreeMap<usize, Vec<&'static Overload>>,
    references: BTreeSet<String>,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn report(&mut self, pos: usize, message: impl Into<String>) -> Type {
        self.issues.push(Issue::at(self.source, pos, message));
        Type::Error
    }

    fn mismatch(&mut self, pos: usize, expected: &Type, found: &Type) -> Type {
        self.report(
            pos,
            format!("expected type '{expected}' but found '{found}'"),
        )
    }

    fn undeclared(&mut self, pos: usize, name: &str) -> Type {
        self.report(
            pos,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn resolved(&self, t: &Type) -> Type {
        self.bindings.substitute(t, false)
    }

    fn expr(&mut self, expr: &mut Expr) -> Type {
        let found = self.kind(expr);
        if let Some(slot) = self.types.get_mut(expr.id) {
            slot.clone_from(&found);
        }
        found
    }

    fn kind(&mut self, expr: &mut Expr) -> Type {
        let pos = expr.pos;
        match &mut expr.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => {
                if let Some(found) = self.lookup(name) {
                    found
                } else {
                    let name = name.clone();
                    self.undeclared(pos, &name)
                }
            }
            Kind::Select { .. } => self.select(expr),
            Kind::OptSelect { operand, field } => {
                let operand = self.expr(operand);
                self.field(pos, &operand, field, true)
            }
            Kind::Call { .. } => self.call(expr),
            Kind::List(items) => {
                let mut joined: Option<Type> = None;
                for item in items {
                    let pos = item.value.pos;
                    let mut t = self.expr(&mut item.value);
                    if item.optional {
                        t = self.unwrap_optional(pos, t);
                    }
                    joined = Some(self.join(joined, t));
                }
                // An empty list fits any list type: a variable lets its use decide,
                // where `dyn` would disable the check.
                let item = joined.unwrap_or_else(|| self.bindings.fresh());
                Type::list(item)
            }
            Kind::Map(entries) => {
                let mut joined: Option<(Type, Type)> = None;
                for entry in entries {
                    let pos = entry.value.pos;
                    let key = self.expr(&mut entry.key);
                    let mut value = self.expr(&mut entry.value);
                    if entry.optional {
                        value = self.unwrap_optional(pos, value);
                    }
                    joined = Some(match joined {
                        None => (key, value),
                        Some((k, v)) => (self.join(Some(k), key), self.join(Some(v), value)),
                    });
                }
                let (key, value) =
                    joined.unwrap_or_else(|| (self.bindings.fresh(), self.bindings.fresh()));
                Type::map(key, value)
            }
            Kind::Struct { name, fields } => {
                for field in fields {
                    self.expr(field);
                }
                let name = name.clone();
                match named_type(&name) {
                    Some(_) => self.report(pos, format!("'{name}' is not a message type")),
                    None => self.undeclared(pos, &name),
                }
            }
            Kind::Macro(node) => self.comprehension(pos, node),
        }
    }

    fn lookup(&mut self, name: &str) -> Option<Type> {
        // Innermost first: variables of macros shadow declared ones, and those shadow type names.
        if let Some((_, t)) = self.scopes.iter().rev().find(|(n, _)| n == name) {
            return Some(t.clone());
        }
        if let Some((_, t)) = self.variables.iter().find(|(n, _)| n == name) {
            self.references.insert(name.to_owned());
            return Some(t.clone());
        }
        named_type(name).map(|t| Type::Meta(Arc::new(t)))
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        let pos = expr.pos;
        // A dotted name may be that of a type.
        // Before the operand is checked: `google.protobuf` alone is undeclared, and would be reported.
        if let Some(name) = expr.qualified_name()
            && let Some(t) = named_type(&name)
        {
            expr.kind = Kind::Ident(name);
            return Type::Meta(Arc::new(t));
        }
        let Kind::Select {
            operand,
            field,
            test,
        } = &mut expr.kind
        else {
            return Type::Error;
        };
        let operand = self.expr(operand);
        let found = self.field(pos, &operand, field, false);
        if *test { Type::Bool } else { found }
    }

    fn field(&mut self, pos: usize, operand: &Type, field: &str, optional: bool) -> Type {
        let operand = self.resolved(operand);
        let (target, is_optional) = match operand {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let found = match &target {
            Type::Map(kv) => kv.1.clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(found) => Type::of(&found.decl),
                None => self.report(pos, format!("undefined field '{field}'")),
            },
            // Types of the libraries are messages without fields.
            Type::Opaque(Opaque::Ip | Opaque::Cidr) => {
                self.report(
                    pos,
                    format!("type '{target}' does not support field selection"),
                );
                Type::Dyn
            }
            Type::Opaque(_) => self.report(pos, format!("undefined field '{field}'")),
            Type::Var(_) => {
                self.bindings.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            t if t.is_dyn_or_error() => Type::Dyn,
            t => {
                self.report(pos, format!("type '{t}' does not support field selection"));
                Type::Dyn
            }
        };
        let found = self.resolved(&found);
        if is_optional || optional {
            Type::optional(found)
        } else {
            found
        }
    }

    fn unwrap_optional(&mut self, pos: usize, t: Type) -> Type {
        match self.resolved(&t) {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn | Type::Error => t,
            other => self.mismatch(pos, &Type::optional(other.clone()), &other),
        }
    }

    /// Element types that differ make `dyn`; a separate pass refuses them where upstream does.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.bindings.assign(&previous, &current) => {
                previous.most_general(current)
            }
            Some(_) => Type::Dyn,
        }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let (id, pos) = (expr.id, expr.pos);
        let Kind::Call { target, name, args } = &mut expr.kind else {
            return Type::Error;
        };
        let mut types: Vec<Type> = args.iter_mut().map(|a| self.expr(a)).collect();
        if matches!(name.as_str(), "_&&_" | "_||_") {
            let positions: Vec<usize> = args.iter().map(|a| a.pos).collect();
            for (t, pos) in types.iter().zip(positions) {
                self.expect(pos, &Type::Bool, t);
            }
            return Type::Bool;
        }
        let Some(receiver) = target else {
            let Some(overloads) = signatures::overloads(name) else {
                let name = name.clone();
                return self.undeclared(pos, &name);
            };
            let name = name.clone();
            return self.resolve((id, pos), &name, overloads, &types, false);
        };
        // A dotted name may be that of a function: `sets.contains(a, b)`.
        if let Some(prefix) = receiver.qualified_name() {
            let full = format!("{prefix}.{name}");
            if let Some(overloads) = signatures::overloads(&full) {
                *target = None;
                name.clone_from(&full);
                return self.resolve((id, pos), &full, overloads, &types, false);
            }
        }
        let receiver = self.expr(receiver);
        types.insert(0, receiver);
        let name = name.clone();
        match signatures::overloads(&name) {
            Some(overloads) => self.resolve((id, pos), &name, overloads, &types, true),
            None => self.undeclared(pos, &name),
        }
    }

    fn expect(&mut self, pos: usize, expected: &Type, found: &Type) {
        if !self.bindings.assign(found, expected) {
            let found = self.resolved(found);
            self.mismatch(pos, expected, &found);
        }
    }

    fn resolve(
        &mut self,
        (id, pos): (usize, usize),
        name: &str,
        overloads: &'static [Overload],
        types: &[Type],
        member: bool,
    ) -> Type {
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|o| o.member == member) {
            if overload.args.len() != types.len() {
                continue;
            }
            // Fresh variables for each attempt: an overload that fails half-way must not leave bindings for the next.
            // Two, because no declaration has more parameters than `A` and `B`.
            let base = self.bindings.reserve(2);
            let wanted: Vec<Type> = overload.args.iter().map(|t| t.instantiate(base)).collect();
            if self.bindings.assign_all(types, &wanted) {
                let found = self.resolved(&overload.result.instantiate(base));
                self.overloads.entry(id).or_default().push(overload);
                result = Some(match result {
                    None => found,
                    Some(earlier) if earlier.same(&found) => earlier,
                    Some(_) => Type::Dyn,
                });
            }
        }
        match result {
            Some(found) => found,
            None => self.no_overload(pos, name, types, member),
        }
    }

    fn no_overload(&mut self, pos: usize, name: &str, types: &[Type], member: bool) -> Type {
        let mut texts: Vec<String> = types
            .iter()
            .map(|t| self.bindings.substitute(t, true).to_string())
            .collect();
        let receiver = if member && !texts.is_empty() {
            format!("{}.", texts.remove(0))
        } else {
            String::new()
        };
        let applied = format!("{receiver}({})", texts.join(", "));
        self.report(
            pos,
            format!("found no matching overload for '{name}' applied to '{applied}'"),
        )
    }

    fn comprehension(&mut self, pos: usize, node: &mut Macro) -> Type {
        let range = self.expr(&mut node.range);
        let range = self.resolved(&range);
        if matches!(node.kind, MacroKind::OptMap | MacroKind::OptFlatMap) {
            return self.optional_macro(pos, node, &range);
        }
        let two = node.var2.is_some();
        let (first, second) = match &range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(kv) => (kv.0.clone(), kv.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.report(node.range.pos, message);
                (Type::Error, Type::Error)
            }
        };
        let scope = self.scopes.len();
        self.scopes.push((node.var.clone(), first.clone()));
        if let Some(var2) = &node.var2 {
            self.scopes.push((var2.clone(), second));
        }
        let filter = node.filter.as_mut().map(|f| self.expr(f));
        let body_pos = node.body.pos;
        let body = self.expr(&mut node.body);
        self.scopes.truncate(scope);
        let body = self.resolved(&body);
        let (predicate, result) = match node.kind {
            MacroKind::All | MacroKind::Exists => {
                self.expect(body_pos, &Type::Bool, &body);
                return Type::Bool;
            }
            MacroKind::ExistsOne => (Some(body), Type::Int),
            MacroKind::Filter => (Some(body), Type::list(first)),
            MacroKind::TransformMap => (filter, Type::map(first, body)),
            MacroKind::TransformMapEntry => {
                let entry = Type::map(self.bindings.fresh(), self.bindings.fresh());
                if !self.bindings.assign(&entry, &body) {
                    return self.no_overload(pos, "cel.@mapInsert", &[entry, body], false);
                }
                (filter, entry)
            }
            MacroKind::SortBy => {
                let keys = Type::list(body);
                let Some(sortable) = signatures::overloads("sort") else {
                    return Type::Error;
                };
                let fits = sortable.iter().any(|o| {
                    o.args
                        .first()
                        .is_some_and(|wanted| self.bindings.assign(&keys, wanted))
                });
                if !fits {
                    return self.no_overload(pos, "@sortByAssociatedKeys", &[range, keys], true);
                }
                return range;
            }
            _ => (filter, Type::list(body)),
        };
        // Upstream expands conditions into the ternary operator.
        if let Some(found) = predicate
            && !self.bindings.assign(&found, &Type::Bool)
        {
            return self.no_overload(pos, "_?_:_", &[found, result.clone(), result], false);
        }
        let result = self.resolved(&result);
        if node.kind == MacroKind::ExistsOne {
            Type::Bool
        } else {
            result
        }
    }

    fn optional_macro(&mut self, pos: usize, node: &mut Macro, range: &Type) -> Type {
        let inner = match range {
            Type::Optional(inner) => (**inner).clone(),
            t if t.is_dyn_or_error() => Type::Dyn,
            Type::Var(_) => Type::Dyn,
            other => return self.no_overload(pos, "hasValue", std::slice::from_ref(other), true),
        };
        let scope = self.scopes.len();
        self.scopes.push((node.var.clone(), inner));
        let body = self.expr(&mut node.body);
        self.scopes.truncate(scope);
        if node.kind == MacroKind::OptMap {
            return Type::optional(self.resolved(&body));
        }
        let wanted = Type::optional(self.bindings.fresh());
        if self.bindings.assign(&body, &wanted) {
            return self.resolved(&wanted);
        }
        self.no_overload(pos, "_?_:_", &[Type::Bool, body, wanted], false)
    }

    /// A constant template must suit the arguments it is given.
    fn validate_format(&mut self, call: &Expr, target: Option<&Expr>, name: &str, args: &[Expr]) {
        let Some(Kind::Literal(Literal::String(template))) = target.map(|t| &t.kind) else {
            return;
        };
        let ("format", [list]) = (name, args) else {
            return;
        };
        let Kind::List(items) = &list.kind else {
            return;
        };
        let items: Vec<&Expr> = items.iter().map(|i| &i.value).collect();
        let type_of = |e: &Expr| self.types.get(e.id).cloned().unwrap_or(Type::Dyn);
        if let Err((text, bad)) = clauses::check(template, &items, &type_of) {
            self.report(bad.map_or(call.pos, |b| b.pos), text);
        }
    }

    /// The checks upstream makes after typing: constant arguments parse, and aggregates do not mix
    /// types, except in arguments of `format`.
    fn validate_literals(&mut self, expr: &Expr, exempt: bool) {
        let type_of = |c: &Self, e: &Expr| c.types.get(e.id).cloned().unwrap_or(Type::Dyn);
        match &expr.kind {
            Kind::Call { target, name, args } => {
                if let Some(first) = args.first()
                    && let Kind::Literal(Literal::String(text)) = &first.kind
                {
                    let valid = match name.as_str() {
                        "duration" => super::time::parse_duration(text).is_some(),
                        "timestamp" => super::time::parse_timestamp(text).is_some(),
                        "matches" => super::regexes::compile(text).is_ok(),
                        _ => true,
                    };
                    if !valid {
                        self.report(first.pos, format!("invalid {name} argument"));
                    }
                }
                self.validate_format(expr, target.as_deref(), name, args);
            }
            Kind::List(items) => {
                let mut first: Option<Type> = None;
                for item in items {
                    let t = strip(type_of(self, &item.value), item.optional);
                    match &first {
                        Some(expected) if !exempt && !equivalent(expected, &t) => {
                            self.mismatch(item.value.pos, &expected.clone(), &t);
                            break;
                        }
                        Some(_) => {}
                        None => first = Some(t),
                    }
                }
            }
            Kind::Map(entries) => {
                let mut first: Option<(Type, Type)> = None;
                for entry in entries {
                    let key = type_of(self, &entry.key);
                    let value = strip(type_of(self, &entry.value), entry.optional);
                    let Some((k, v)) = first.clone() else {
                        first = Some((key, value));
                        continue;
                    };
                    if !exempt && !equivalent(&k, &key) {
                        self.mismatch(entry.key.pos, &k, &key);
                        break;
                    }
                    if !exempt && !equivalent(&v, &value) {
                        self.mismatch(entry.value.pos, &v, &value);
                        break;
                    }
                }
            }
            _ => {}
        }
        let exempt = exempt || matches!(&expr.kind, Kind::Call { name, .. } if name == "format");
        for child in expr.kind.children() {
            self.validate_literals(child, exempt);
        }
    }
}

fn strip(t: Type, optional: bool) -> Type {
    match t {
        Type::Optional(inner) if optional => (*inner).clone(),
        other => other,
    }
}

/// cel-go's `IsEquivalentType`: the same kind with equivalent parameters.
fn equivalent(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => equivalent(a, b),
        (Type::Map(a), Type::Map(b)) => equivalent(&a.0, &b.0) && equivalent(&a.1, &b.1),
        (Type::Meta(_), Type::Meta(_)) => true,
        _ => a.same(b),
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
