//! Operators, functions and methods by name, with their cost
//! (`apiserver/pkg/cel/library/cost.go`, cel-go `interpreter/runtimecost.go`).

mod arithmetic;
mod convert;
mod format;
mod kube;
mod lists;
mod strings;

use super::equal::equal;
use super::eval::Evaluator;
use super::meter::{Fail, Meter, tenths};
use super::value::Val;

pub(crate) use lists::{charge_self_compare, check_sortable};

/// Calls `name` with evaluated arguments; the first one is the receiver if `member`.
pub(crate) fn call<'a>(
    ev: &mut Evaluator<'a>,
    name: &str,
    member: bool,
    args: &[Val<'a>],
) -> Result<Val<'a>, Fail> {
    if let Some(cost) = cost_before(name, args) {
        // Before the work is done: a call that exceeds the budget must not have run first.
        ev.meter.charge(cost)?;
    }
    let meter = &mut ev.meter;
    match (name, args) {
        ("!_", [Val::Bool(b)]) => Ok(Val::Bool(!b)),
        ("_==_", [a, b]) => Ok(Val::Bool(equal(a, b, meter)?)),
        ("_!=_", [a, b]) => Ok(Val::Bool(!equal(a, b, meter)?)),
        ("_<_", [a, b]) => Ok(Val::Bool(a.compare(b)?.is_lt())),
        ("_<=_", [a, b]) => Ok(Val::Bool(a.compare(b)?.is_le())),
        ("_>_", [a, b]) => Ok(Val::Bool(a.compare(b)?.is_gt())),
        ("_>=_", [a, b]) => Ok(Val::Bool(a.compare(b)?.is_ge())),
        ("_+_", [a, b]) => arithmetic::add(a, b, meter),
        ("_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic::binary(name, a, b),
        ("-_", [a]) => arithmetic::negate(a),
        ("@in", [item, container]) => contains(item, container, meter),
        ("size", [value]) => size(value, meter),
        (
            "type" | "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string"
            | "timestamp" | "uint",
            [value],
        ) => convert::call(name, value, meter),
        (
            "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate"
            | "getDayOfWeek" | "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds",
            _,
        ) => convert::date_part(name, args),
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(Val::optional((!value.is_zero()).then(|| value.clone())))
        }
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("value", [Val::Optional(Some(value))]) => Ok((**value).clone()),
        ("value", [Val::Optional(None)]) => Err(Fail::error("optional.none() dereference")),
        ("matches" | "find" | "findAll", _) => kube::regex(ev, name, args),
        ("format", [Val::Str(template), Val::List(items)]) if member => {
            format::format(template, items, meter)
        }
        (
            "contains" | "startsWith" | "endsWith" | "charAt" | "lowerAscii" | "upperAscii"
            | "replace" | "split" | "substring" | "trim" | "join" | "strings.quote",
            _,
        )
        | ("indexOf" | "lastIndexOf", [Val::Str(_), ..]) => strings::call(name, args, meter),
        (
            "indexOf" | "lastIndexOf" | "isSorted" | "sum" | "min" | "max" | "slice" | "flatten"
            | "sort" | "lists.range" | "reverse" | "distinct" | "first" | "last" | "sets.contains"
            | "sets.equivalent" | "sets.intersects" | "optional.unwrap" | "unwrapOpt",
            _,
        ) => lists::call(name, args, meter),
        _ => kube::call(name, args, meter),
    }
}

/// Cost that follows from the arguments, `None` where the function charges for its result.
fn cost_before(name: &str, args: &[Val<'_>]) -> Option<u64> {
    let size = |i: usize| args.get(i).map_or(0, Val::size);
    let kind = args.first();
    Some(match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => kind.map_or(0, traversal),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" | "startsWith" | "endsWith"
        | "strings.quote" => tenths(size(0), 1),
        "format" if args.len() == 2 => tenths(size(0), 1),
        "replace" | "split" | "ip.isCanonical" => tenths(size(0), 2),
        "ip" | "bytes" if matches!(kind, Some(Val::Str(_))) => tenths(size(0), 1),
        "string" if matches!(kind, Some(Val::Bytes(_))) => tenths(size(0), 1),
        "find" | "findAll" | "matches" => regex_cost(size(0), size(1)),
        "validate" => match kind {
            Some(Val::Format(format)) => regex_cost(size(1), format.regex_size()),
            _ => 1,
        },
        "containsIP" | "containsCIDR" => {
            let text = matches!(args.get(1), Some(Val::Str(_)));
            let other = if text { tenths(size(1), 1) } else { 0 };
            let compare = tenths(size(0), 2).saturating_add(other);
            if name == "containsIP" {
                compare
            } else {
                compare + tenths(size(0), 1) + 1
            }
        }
        "_==_" | "_!=_" => match kind {
            Some(
                Val::Quantity(_)
                | Val::Ip(_)
                | Val::Cidr(_)
                | Val::Format(_)
                | Val::Url(_)
                | Val::Semver(_),
            ) => 1,
            _ => tenths(size(0).min(size(1)), 1),
        },
        "_<_" | "_<=_" | "_>_" | "_>=_" if matches!(kind, Some(Val::Str(_) | Val::Bytes(_))) => {
            tenths(size(0).min(size(1)), 1)
        }
        "@in" => match args.get(1) {
            Some(Val::List(_)) => size(1),
            _ => 1,
        },
        "_+_" if matches!(kind, Some(Val::Str(_) | Val::Bytes(_))) => {
            tenths(size(0).saturating_add(size(1)), 1)
        }
        "contains" => tenths(size(0), 1).saturating_mul(tenths(size(1), 1)),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0)
            .saturating_mul(size(1))
            .saturating_mul(2)
            .saturating_add(1),
        "join" | "slice" | "flatten" | "sort" | "lists.range" | "reverse" | "distinct" => {
            return None;
        }
        _ => 1,
    })
}

/// A regular expression of `pattern` characters on a text of `text` characters.
fn regex_cost(text: u64, pattern: u64) -> u64 {
    tenths(text.saturating_add(1), 1).saturating_mul(pattern.div_ceil(4))
}

/// Cost of looking at all of a value; scalars cost one.
fn traversal(value: &Val<'_>) -> u64 {
    match value {
        Val::Str(text) => text.len() as u64 / 10,
        Val::Bytes(bytes) => bytes.len() as u64 / 10,
        Val::List(list) => list
            .iter()
            .map(|i| i.as_ref().map_or(1, traversal))
            .fold(0, u64::saturating_add),
        Val::Map(map) => map
            .keys()
            .iter()
            .map(|k| {
                let value = map.find(k).ok().flatten();
                traversal(k).saturating_add(value.as_ref().map_or(1, traversal))
            })
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}

fn contains<'a>(item: &Val<'a>, container: &Val<'a>, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    match container {
        Val::List(list) => {
            for other in list.iter() {
                if equal(&other?, item, meter)? {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        Val::Map(map) => Ok(Val::Bool(map.find(item)?.is_some())),
        _ => Err(Fail::no_overload()),
    }
}

fn size<'a>(value: &Val<'a>, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    match value {
        Val::Str(text) => meter.burn(text.len() / 64)?,
        Val::Bytes(_) | Val::List(_) | Val::Map(_) => {}
        _ => return Err(Fail::no_overload()),
    }
    Ok(Val::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
}

/// A value in an error message.
pub(crate) fn display(value: &Val<'_>) -> String {
    match value {
        Val::Bool(b) => b.to_string(),
        Val::Int(i) => i.to_string(),
        Val::Uint(u) => u.to_string(),
        Val::Double(d) => convert::format_double(*d),
        Val::Str(text) => text.to_string(),
        other => other.type_name().to_owned(),
    }
}
