//! Macros that bind variables. Each costs what its expansion into a fold costs upstream: the
//! constants below are the loop condition, the accumulator and the result of that fold.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Evaluator, insert};
use crate::cel::ast::{Expr, Macro, MacroKind};
use crate::cel::functions;
use crate::cel::meter::{Fail, Meter};
use crate::cel::value::{Map, OwnedMap, Val};

/// The iterated pairs of index or key and value.
struct Range<'a> {
    source: Val<'a>,
    keys: Vec<Val<'a>>,
    at: usize,
    two: bool,
}

impl<'a> Range<'a> {
    fn new(source: Val<'a>, two: bool, meter: &mut Meter) -> Result<Self, Fail> {
        let keys = match &source {
            Val::List(_) => Vec::new(),
            Val::Map(map) => {
                meter.burn(map.len() * 4)?;
                map.keys()
            }
            _ => return Err(Fail::no_overload()),
        };
        Ok(Self {
            source,
            keys,
            at: 0,
            two,
        })
    }

    /// The values of the variables for the next round.
    fn next(&mut self) -> Option<Result<(Val<'a>, Option<Val<'a>>), Fail>> {
        let at = self.at;
        self.at += 1;
        match &self.source {
            Val::List(list) => Some(list.get(at)?.map(|item| {
                if self.two {
                    (Val::Int(i64::try_from(at).unwrap_or(i64::MAX)), Some(item))
                } else {
                    (item, None)
                }
            })),
            Val::Map(map) => {
                let key = self.keys.get(at)?.clone();
                if !self.two {
                    return Some(Ok((key, None)));
                }
                let value = map.find(&key);
                Some(value.map(|value| (key, Some(value.unwrap_or(Val::Null)))))
            }
            _ => None,
        }
    }
}

impl<'a> Evaluator<'a> {
    pub(super) fn comprehension(&mut self, node: &'a Macro) -> Result<Val<'a>, Fail> {
        if matches!(node.kind, MacroKind::OptMap | MacroKind::OptFlatMap) {
            return self.optional_macro(node);
        }
        let source = self.eval(&node.range)?;
        let range = Range::new(source, node.var2.is_some(), &mut self.meter)?;
        let scope = self.variables.len();
        let result = match node.kind {
            MacroKind::All => self.quantifier(node, range, true),
            MacroKind::Exists => self.quantifier(node, range, false),
            MacroKind::ExistsOne => self.exists_one(node, range),
            MacroKind::TransformMap | MacroKind::TransformMapEntry => self.collect_map(node, range),
            MacroKind::SortBy => self.sort_by(node, range),
            _ => self.collect_list(node, range),
        };
        self.variables.truncate(scope);
        result
    }

    fn bind(&mut self, node: &'a Macro, (first, second): (Val<'a>, Option<Val<'a>>)) {
        self.variables.push((&node.var, first));
        if let (Some(name), Some(value)) = (&node.var2, second) {
            self.variables.push((name, value));
        }
    }

    /// Every round takes the meter down even if the body is a constant.
    fn tick(&mut self) -> Result<(), Fail> {
        self.meter.burn(1)
    }

    fn quantifier(
        &mut self,
        node: &'a Macro,
        mut range: Range<'a>,
        all: bool,
    ) -> Result<Val<'a>, Fail> {
        let scope = self.variables.len();
        let mut error: Option<Fail> = None;
        let mut decided = false;
        while let Some(round) = range.next() {
            self.tick()?;
            // `@not_strictly_false(@result)`, with a negation for `exists`.
            self.meter.charge(if all { 2 } else { 3 })?;
            // One round late: upstream's fold tests its loop condition at the start of
            // the next round, and charges for that.
            if decided {
                break;
            }
            // `@result && body`
            self.meter.charge(1)?;
            let outcome = match round {
                Ok(values) => {
                    self.bind(node, values);
                    self.eval(&node.body)
                }
                Err(fail) => Err(fail),
            };
            self.variables.truncate(scope);
            match outcome {
                Ok(Val::Bool(b)) if b != all => {
                    decided = true;
                    error = None;
                }
                Ok(Val::Bool(_)) => {}
                Ok(_) => error = error.or_else(|| Some(Fail::no_overload())),
                Err(Fail::Limit) => return Err(Fail::Limit),
                Err(fail) => error = error.or(Some(fail)),
            }
        }
        self.meter.charge(1)?;
        error.map_or(Ok(Val::Bool(decided != all)), Err)
    }

    fn holds(&mut self, condition: &'a Expr) -> Result<bool, Fail> {
        match self.eval(condition)? {
            Val::Bool(b) => Ok(b),
            _ => Err(Fail::no_overload()),
        }
    }

    /// Runs `each` with the first variable's value in every round that the filter lets pass.
    fn rounds(
        &mut self,
        node: &'a Macro,
        mut range: Range<'a>,
        mut each: impl FnMut(&mut Self, Val<'a>) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        let scope = self.variables.len();
        while let Some(round) = range.next() {
            self.tick()?;
            let values = round?;
            let first = values.0.clone();
            self.bind(node, values);
            let wanted = match &node.filter {
                Some(filter) => self.holds(filter)?,
                None => true,
            };
            if wanted {
                each(self, first)?;
            }
            self.variables.truncate(scope);
        }
        Ok(())
    }

    fn exists_one(&mut self, node: &'a Macro, range: Range<'a>) -> Result<Val<'a>, Fail> {
        let mut count = 0_usize;
        self.rounds(node, range, |ev, _| {
            if ev.holds(&node.body)? {
                // `@result + 1`
                ev.meter.charge(2)?;
                count += 1;
            }
            Ok(())
        })?;
        // `@result == 1`
        self.meter.charge(2)?;
        Ok(Val::Bool(count == 1))
    }

    /// `filter`, `map` and `transformList`.
    fn collect_list(&mut self, node: &'a Macro, range: Range<'a>) -> Result<Val<'a>, Fail> {
        let mut items = Vec::new();
        self.rounds(node, range, |ev, first| {
            let (item, cost) = if node.kind == MacroKind::Filter {
                if !ev.holds(&node.body)? {
                    return Ok(());
                }
                // `@result + [x]`
                (first, 13)
            } else {
                // `@result + [body]`
                (ev.eval(&node.body)?, 12)
            };
            ev.meter.charge(cost)?;
            ev.meter.burn(4)?;
            items.push(item);
            Ok(())
        })?;
        self.meter.charge(1)?;
        Ok(Val::list(items))
    }

    fn collect_map(&mut self, node: &'a Macro, range: Range<'a>) -> Result<Val<'a>, Fail> {
        let mut map = OwnedMap::new();
        self.rounds(node, range, |ev, key| {
            let body = ev.eval(&node.body)?;
            ev.meter.burn(8)?;
            if node.kind == MacroKind::TransformMap {
                // `cel.@mapInsert(@result, key, body)`
                ev.meter.charge(3)?;
                return insert_new(&mut map, key, body);
            }
            // `cel.@mapInsert(@result, body)`
            ev.meter.charge(2)?;
            let Val::Map(entries) = body else {
                return Err(Fail::no_overload());
            };
            ev.meter.burn(entries.len() * 8)?;
            for key in entries.keys() {
                if let Some(value) = entries.find(&key)? {
                    insert_new(&mut map, key, value)?;
                }
            }
            Ok(())
        })?;
        self.meter.charge(1)?;
        Ok(Val::Map(Map::Owned(Arc::new(map))))
    }

    fn sort_by(&mut self, node: &'a Macro, range: Range<'a>) -> Result<Val<'a>, Fail> {
        let Val::List(_) = range.source else {
            return Err(Fail::no_overload());
        };
        let mut pairs: Vec<(Val<'a>, Val<'a>)> = Vec::new();
        // The input is bound to a variable that is used twice.
        self.meter.charge(3)?;
        self.rounds(node, range, |ev, item| {
            let key = ev.eval(&node.body)?;
            ev.meter.charge(12)?;
            ev.meter.burn(8)?;
            pairs.push((key, item));
            Ok(())
        })?;
        // Checked before sorting: `sort_by` needs a total order, and keys of different types have none.
        let keys: Vec<Val<'a>> = pairs.iter().map(|(key, _)| key.clone()).collect();
        functions::charge_self_compare(&keys, &mut self.meter)?;
        functions::check_sortable(&keys)?;
        pairs.sort_by(|a, b| a.0.compare(&b.0).unwrap_or(Ordering::Equal));
        Ok(Val::list(pairs.into_iter().map(|(_, item)| item).collect()))
    }

    /// `target.hasValue() ? optional.of(body) : optional.none()`; the target counts twice.
    fn optional_macro(&mut self, node: &'a Macro) -> Result<Val<'a>, Fail> {
        let before = self.meter.cost;
        let target = self.eval(&node.range)?;
        let spent = self.meter.cost - before;
        self.meter.charge(1)?;
        let value = match target {
            Val::Optional(None) => {
                self.meter.charge(1)?;
                return Ok(Val::Optional(None));
            }
            Val::Optional(Some(value)) => value,
            _ => return Err(Fail::no_overload()),
        };
        self.meter.charge(spent.saturating_add(1))?;
        let scope = self.variables.len();
        self.variables.push((&node.var, (*value).clone()));
        let body = self.eval(&node.body);
        self.variables.truncate(scope);
        if node.kind == MacroKind::OptFlatMap {
            return match body? {
                found @ Val::Optional(_) => Ok(found),
                _ => Err(Fail::no_overload()),
            };
        }
        let body = body?;
        self.meter.charge(1)?;
        Ok(Val::some(body))
    }
}

/// An entry of a map that is built; repeated keys have a text of their own here.
fn insert_new<'a>(map: &mut OwnedMap<'a>, key: Val<'a>, value: Val<'a>) -> Result<(), Fail> {
    if key.key().is_some_and(|k| map.contains_key(&k)) {
        let key = functions::display(&key);
        return Err(Fail::error(format!(
            "insert failed: key {key} already exists"
        )));
    }
    insert(map, key, value)
}
