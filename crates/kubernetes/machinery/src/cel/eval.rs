//! The evaluator: a walk over the tree that charges what cel-go would charge.

mod comprehension;

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;

use super::ast::{Element, Entry, Expr, Kind, Literal};
use super::check::named_type;
use super::functions;
use super::meter::{Fail, Meter};
use super::value::{Map, OwnedMap, Val};

/// Cost of making a list or a map.
// `ListCreateBaseCost` and `MapCreateBaseCost` of cel-go's `common/cost.go`.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;

/// An evaluation under way.
pub(crate) struct Evaluator<'a> {
    variables: Vec<(&'a str, Val<'a>)>,
    /// What may still be used.
    pub(crate) meter: Meter,
    /// Regular expressions seen before.
    pub(crate) regexes: BTreeMap<String, (Arc<Regex>, bool)>,
}

impl<'a> Evaluator<'a> {
    /// Starts with the given variables.
    pub(crate) fn new(variables: Vec<(&'a str, Val<'a>)>, meter: Meter) -> Self {
        Self {
            variables,
            meter,
            regexes: BTreeMap::new(),
        }
    }

    /// The value of `expr`.
    pub(crate) fn eval(&mut self, expr: &'a Expr) -> Result<Val<'a>, Fail> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(constant(literal)),
            Kind::Ident(name) => self.ident(name),
            Kind::Select {
                operand,
                field,
                test: true,
            } => self.has(operand, field),
            Kind::Select {
                operand,
                field,
                test: false,
            } => self.select(operand, field),
            Kind::OptSelect { operand, field } => self.opt_select(operand, field),
            Kind::Call { target, name, args } => self.call(target.as_deref(), name, args),
            Kind::List(items) => self.list(items, expr.is_constant()),
            Kind::Map(entries) => self.map(entries, expr.is_constant()),
            // The check lets no message literals pass.
            Kind::Struct { .. } => Err(Fail::no_overload()),
            Kind::Macro(node) => self.comprehension(node),
        }
    }

    fn ident(&mut self, name: &'a str) -> Result<Val<'a>, Fail> {
        if let Some((_, value)) = self.variables.iter().rev().find(|(n, _)| *n == name) {
            let value = value.clone();
            self.meter.charge(1)?;
            return Ok(value);
        }
        match named_type(name) {
            Some(_) => Ok(Val::Type(name.into())),
            None => Err(Fail::error(format!("no such attribute(s): {name}"))),
        }
    }

    /// A qualifier costs one; starting from something that is no variable costs another.
    fn qualify(&mut self, operand: &Expr) -> Result<(), Fail> {
        self.meter
            .charge(if operand.is_attribute() { 1 } else { 2 })
    }

    fn has(&mut self, operand: &'a Expr, field: &str) -> Result<Val<'a>, Fail> {
        let found = optional_field(&self.eval(operand)?, field)?;
        Ok(Val::Bool(matches!(found, Val::Optional(Some(_)))))
    }

    fn select(&mut self, operand: &'a Expr, field: &str) -> Result<Val<'a>, Fail> {
        let value = self.eval(operand)?;
        self.qualify(operand)?;
        match &value {
            Val::Map(map) => map.find_name(field)?.ok_or_else(|| no_such_key(field)),
            Val::Optional(_) => optional_field(&value, field),
            _ => Err(Fail::no_overload()),
        }
    }

    fn opt_select(&mut self, operand: &'a Expr, field: &str) -> Result<Val<'a>, Fail> {
        let value = self.eval(operand)?;
        self.qualify(operand)?;
        optional_field(&value, field)
    }

    fn call(
        &mut self,
        target: Option<&'a Expr>,
        name: &'a str,
        args: &'a [Expr],
    ) -> Result<Val<'a>, Fail> {
        match (name, args) {
            ("_&&_", terms) => self.logic(terms, false),
            ("_||_", terms) => self.logic(terms, true),
            ("_?_:_", [condition, yes, no]) => match self.eval(condition)? {
                Val::Bool(true) => self.branch(yes),
                Val::Bool(false) => self.branch(no),
                _ => Err(Fail::no_overload()),
            },
            ("_[_]", [operand, index]) => self.index(operand, index, false),
            ("_[?_]", [operand, index]) => self.index(operand, index, true),
            ("or" | "orValue", [other]) if target.is_some() => self.or(target, name, other),
            ("@in", [_, list]) if list.is_constant() => self.function(target, name, args, true),
            (
                "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp"
                | "type" | "uint",
                [only],
            ) if only.is_constant() => self.function(target, name, args, true),
            _ => self.function(target, name, args, false),
        }
    }

    /// Calls a strict function; `folded` ones cost nothing, as upstream computes them beforehand.
    fn function(
        &mut self,
        target: Option<&'a Expr>,
        name: &'a str,
        args: &'a [Expr],
        folded: bool,
    ) -> Result<Val<'a>, Fail> {
        let mut values = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            values.push(self.eval(arg)?);
        }
        let before = self.meter.cost;
        let result = functions::call(self, name, target.is_some(), &values)?;
        if folded {
            self.meter.cost = before;
        }
        Ok(result)
    }

    /// A branch of `?:` that is a variable is resolved without being observed.
    fn branch(&mut self, expr: &'a Expr) -> Result<Val<'a>, Fail> {
        let value = self.eval(expr)?;
        // Upstream's cost tracker observes the conditional as one attribute (`interpreter/attributes.go`), so the
        // branch is not charged again.
        if expr.is_attribute() {
            self.meter.cost = self.meter.cost.saturating_sub(1);
        }
        Ok(value)
    }

    /// One decisive term decides, whatever errors the others gave.
    fn logic(&mut self, terms: &'a [Expr], decisive: bool) -> Result<Val<'a>, Fail> {
        let mut error = None;
        for term in terms {
            match self.eval(term) {
                Ok(Val::Bool(b)) if b == decisive => return Ok(Val::Bool(decisive)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => error = error.or_else(|| Some(Fail::no_overload())),
                // Never absorbed by `||`: otherwise `expensive() || true` would be a way to run without a budget.
                Err(Fail::Limit) => return Err(Fail::Limit),
                Err(fail) => error = error.or(Some(fail)),
            }
        }
        error.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn or(
        &mut self,
        target: Option<&'a Expr>,
        name: &str,
        other: &'a Expr,
    ) -> Result<Val<'a>, Fail> {
        let Some(target) = target else {
            return Err(Fail::no_overload());
        };
        match self.eval(target)? {
            Val::Optional(Some(value)) if name == "or" => Ok(Val::Optional(Some(value))),
            Val::Optional(Some(value)) => Ok((*value).clone()),
            Val::Optional(None) => self.eval(other),
            _ => Err(Fail::no_overload()),
        }
    }

    fn index(
        &mut self,
        operand: &'a Expr,
        index: &'a Expr,
        optional: bool,
    ) -> Result<Val<'a>, Fail> {
        let value = self.eval(operand)?;
        let before = self.meter.cost;
        let key = self.eval(index)?;
        if index.is_attribute() {
            // Resolved as part of the qualifier.
            self.meter.cost = before;
        }
        self.qualify(operand)?;
        match value {
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => Ok(Val::optional(at(&inner, &key)?)),
            value if optional => Ok(Val::optional(at(&value, &key)?)),
            value => match at(&value, &key)? {
                Some(found) => Ok(found),
                None => Err(match value {
                    Val::List(_) => {
                        Fail::error(format!("index out of bounds: {}", functions::display(&key)))
                    }
                    _ => no_such_key(&functions::display(&key)),
                }),
            },
        }
    }

    fn list(&mut self, items: &'a [Element], constant: bool) -> Result<Val<'a>, Fail> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(&item.value)?;
            if let Some(value) = present(value, item.optional)? {
                values.push(value);
            }
        }
        if !constant {
            self.meter.charge(LIST_COST)?;
        }
        self.meter.burn(values.len() * 4)?;
        Ok(Val::list(values))
    }

    fn map(&mut self, entries: &'a [Entry], constant: bool) -> Result<Val<'a>, Fail> {
        let mut map = OwnedMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            if let Some(value) = present(value, entry.optional)? {
                insert(&mut map, key, value)?;
            }
        }
        if !constant {
            self.meter.charge(MAP_COST)?;
        }
        self.meter.burn(map.len() * 8)?;
        Ok(Val::Map(Map::Owned(Arc::new(map))))
    }
}

/// A constant as a value.
fn constant(literal: &Literal) -> Val<'_> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(b) => Val::Bool(*b),
        Literal::Int(i) => Val::Int(*i),
        Literal::Uint(u) => Val::Uint(*u),
        Literal::Double(d) => Val::Double(*d),
        Literal::String(text) => Val::text(text),
        Literal::Bytes(bytes) => Val::Bytes(Arc::clone(bytes)),
    }
}

fn no_such_key(key: &str) -> Fail {
    Fail::error(format!("no such key: {key}"))
}

/// The field of a map, or of a map in an optional, as an optional.
fn optional_field<'a>(value: &Val<'a>, field: &str) -> Result<Val<'a>, Fail> {
    match value {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) if matches!(**inner, Val::Map(_)) => {
            optional_field(inner, field)
        }
        Val::Map(map) => Ok(Val::optional(map.find_name(field)?)),
        _ => Err(Fail::no_overload()),
    }
}

/// The element at an index or key, `None` if there is none.
fn at<'a>(value: &Val<'a>, key: &Val<'_>) -> Result<Option<Val<'a>>, Fail> {
    match value {
        Val::Map(map) => map.find(key),
        Val::List(list) => {
            let index = match key {
                Val::Int(i) => usize::try_from(*i).ok(),
                Val::Uint(u) => usize::try_from(*u).ok(),
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "whole, not negative and small, checked before"
                )]
                Val::Double(d) if d.fract() == 0.0 && (0.0..1e15).contains(d) => Some(*d as usize),
                _ => return Err(Fail::no_overload()),
            };
            index.and_then(|i| list.get(i)).transpose()
        }
        _ => Err(Fail::no_overload()),
    }
}

/// The value to put into an aggregate; optional ones may be left out.
fn present(value: Val<'_>, optional: bool) -> Result<Option<Val<'_>>, Fail> {
    match value {
        Val::Optional(inner) if optional => Ok(inner.map(|v| (*v).clone())),
        _ if optional => Err(Fail::no_overload()),
        value => Ok(Some(value)),
    }
}

/// Adds an entry; of repeated keys the last one wins.
fn insert<'a>(map: &mut OwnedMap<'a>, key: Val<'a>, value: Val<'a>) -> Result<(), Fail> {
    let index = key
        .key()
        .ok_or_else(|| Fail::error(format!("unsupported key type: {}", key.type_name())))?;
    map.insert(index, (key, value));
    Ok(())
}
