//! List functions: those of Kubernetes, of cel-go's `ext/lists.go` and `ext/sets.go`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::arithmetic;
use crate::cel::equal::{equal, fingerprint};
use crate::cel::meter::{Fail, Meter};
use crate::cel::value::{List, Val};

/// Longest list that is made from a number.
// The budget of one call (`PER_CALL`): a longer list could never be paid for.
const MAX_RANGE: i64 = 1_000_000;

/// Calls a list function.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], meter: &mut Meter) -> Result<Val<'a>, Fail> {
    match (name, args) {
        ("isSorted", [Val::List(list)]) => is_sorted(list),
        ("sum", [Val::List(list)]) => sum(list, meter),
        ("min", [Val::List(list)]) => extreme(list, name, Ordering::Greater),
        ("max", [Val::List(list)]) => extreme(list, name, Ordering::Less),
        ("indexOf", [Val::List(list), item]) => find(list, item, 0..list.len(), meter),
        ("lastIndexOf", [Val::List(list), item]) => find(list, item, (0..list.len()).rev(), meter),
        ("slice", [Val::List(list), Val::Int(start), Val::Int(end)]) => {
            slice(list, *start, *end, meter)
        }
        ("flatten", [Val::List(list)]) => flatten(list, 1, meter),
        ("flatten", [Val::List(list), Val::Int(depth)]) => flatten(list, *depth, meter),
        ("sort", [Val::List(list)]) => {
            let mut items = all(list, meter)?;
            charge_self_compare(&items, meter)?;
            // Before sorting: `sort_by` needs a total order, and the fallback below would
            // otherwise hide a comparison that failed.
            check_sortable(&items)?;
            items.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
            Ok(Val::list(items))
        }
        ("lists.range", [Val::Int(n)]) => {
            if *n > MAX_RANGE {
                return Err(Fail::Limit);
            }
            let size = usize::try_from(*n).unwrap_or(0);
            charge_list(size as u64, meter)?;
            meter.burn(size * 4)?;
            Ok(Val::list((0..(*n).max(0)).map(Val::Int).collect()))
        }
        ("reverse", [Val::List(list)]) => {
            let mut items = all(list, meter)?;
            charge_list(items.len() as u64, meter)?;
            items.reverse();
            Ok(Val::list(items))
        }
        ("distinct", [Val::List(list)]) => {
            let items = all(list, meter)?;
            charge_self_compare(&items, meter)?;
            let mut known = BTreeSet::new();
            let mut kept = Vec::new();
            for item in items {
                if known.insert(fingerprint(&item, meter)?) {
                    kept.push(item);
                }
            }
            Ok(Val::list(kept))
        }
        ("first", [Val::List(list)]) => Ok(Val::optional(list.iter().next().transpose()?)),
        ("last", [Val::List(list)]) => Ok(Val::optional(list.iter().next_back().transpose()?)),
        ("sets.contains", [Val::List(a), Val::List(b)]) => Ok(Val::Bool(includes(a, b, meter)?)),
        ("sets.equivalent", [Val::List(a), Val::List(b)]) => {
            Ok(Val::Bool(includes(a, b, meter)? && includes(b, a, meter)?))
        }
        // By fingerprints in all three functions: upstream compares each with each, and `cost_before` charges for
        // that, but the work need not be done.
        ("sets.intersects", [Val::List(a), Val::List(b)]) => {
            let known = fingerprints(a, meter)?;
            for item in b.iter() {
                if known.contains(&fingerprint(&item?, meter)?) {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        ("optional.unwrap" | "unwrapOpt", [Val::List(list)]) => {
            let mut items = Vec::new();
            for item in all(list, meter)? {
                match item {
                    Val::Optional(Some(value)) => items.push((*value).clone()),
                    Val::Optional(None) => {}
                    _ => return Err(Fail::no_overload()),
                }
            }
            Ok(Val::list(items))
        }
        _ => Err(Fail::no_overload()),
    }
}

/// The position of the first equal item in the given order, else -1.
fn find<'a>(
    list: &List<'a>,
    item: &Val<'a>,
    order: impl Iterator<Item = usize>,
    meter: &mut Meter,
) -> Result<Val<'a>, Fail> {
    for at in order {
        if let Some(other) = list.get(at)
            && equal(&other?, item, meter)?
        {
            return Ok(Val::Int(i64::try_from(at).unwrap_or(i64::MAX)));
        }
    }
    Ok(Val::Int(-1))
}

/// A copy of the items, paid for.
fn all<'a>(list: &List<'a>, meter: &mut Meter) -> Result<Vec<Val<'a>>, Fail> {
    meter.burn(list.len() * 4)?;
    list.iter().collect()
}

/// The call, the list and its elements.
fn charge_list(size: u64, meter: &mut Meter) -> Result<(), Fail> {
    meter.charge(size.saturating_add(11))
}

/// The worst case of comparing all with all, which upstream charges for sorting.
pub(crate) fn charge_self_compare(items: &[Val<'_>], meter: &mut Meter) -> Result<(), Fail> {
    let pairs = (items.len() as u64).saturating_mul(items.len() as u64);
    let text = matches!(items.first(), Some(Val::Str(_) | Val::Bytes(_)));
    let cost = pairs
        .saturating_mul(2)
        .saturating_add(if text { pairs / 10 } else { 0 });
    charge_list(cost, meter)
}

/// Whether the items have an order and one type.
pub(crate) fn check_sortable(items: &[Val<'_>]) -> Result<(), Fail> {
    let Some(first) = items.first() else {
        return Ok(());
    };
    if first.compare(first).is_err() {
        return Err(Fail::error("list elements must be comparable"));
    }
    if items
        .iter()
        .any(|item| item.type_name() != first.type_name())
    {
        return Err(Fail::error("list elements must have the same type"));
    }
    Ok(())
}

fn is_sorted<'a>(list: &List<'a>) -> Result<Val<'a>, Fail> {
    let mut previous: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if let Some(previous) = &previous
            && previous.compare(&item)?.is_gt()
        {
            return Ok(Val::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(list: &List<'a>, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    let mut total: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if !matches!(
            item,
            Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Duration(_)
        ) {
            return Err(Fail::no_overload());
        }
        total = Some(match total {
            None => item,
            Some(total) => arithmetic::add(&total, &item, meter)?,
        });
    }
    if let Some(total) = total {
        return Ok(total);
    }
    // The empty sum has the type of the items.
    Ok(match list.decl.map(|d| &d.items.shape) {
        Some(crate::cel::decl::Shape::Double) => Val::Double(0.0),
        Some(crate::cel::decl::Shape::Duration) => Val::Duration(0),
        _ => Val::Int(0),
    })
}

fn extreme<'a>(list: &List<'a>, name: &str, replace: Ordering) -> Result<Val<'a>, Fail> {
    let mut found: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        found = match found {
            None => Some(item),
            Some(best) if best.compare(&item)? == replace => Some(item),
            best => best,
        };
    }
    found.ok_or_else(|| Fail::error(format!("{name} called on empty list")))
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    let cannot = |why: &str| Fail::error(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return Err(cannot("negative indexes not supported"));
    };
    if from > to {
        return Err(cannot(
            "start index must be less than or equal to end index",
        ));
    }
    if to > list.len() {
        return Err(cannot(&format!("list is length {}", list.len())));
    }
    charge_list((to - from) as u64, meter)?;
    meter.burn((to - from) * 4)?;
    let items = (from..to)
        .filter_map(|at| list.get(at))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Val::list(items))
}

fn flatten<'a>(list: &List<'a>, depth: i64, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    let levels = u64::try_from(depth).map_err(|_| Fail::error("level must be non-negative"))?;
    charge_list((list.len() as u64).saturating_mul(levels), meter)?;
    let mut items = Vec::new();
    flatten_into(list, levels, &mut items, meter)?;
    Ok(Val::list(items))
}

fn flatten_into<'a>(
    list: &List<'a>,
    levels: u64,
    out: &mut Vec<Val<'a>>,
    meter: &mut Meter,
) -> Result<(), Fail> {
    for item in list.iter() {
        meter.burn(4)?;
        match item? {
            Val::List(inner) if levels > 0 => flatten_into(&inner, levels - 1, out, meter)?,
            item => out.push(item),
        }
    }
    Ok(())
}

fn fingerprints(list: &List<'_>, meter: &mut Meter) -> Result<BTreeSet<String>, Fail> {
    list.iter().map(|item| fingerprint(&item?, meter)).collect()
}

/// Whether every item of `b` is in `a`.
fn includes(a: &List<'_>, b: &List<'_>, meter: &mut Meter) -> Result<bool, Fail> {
    let known = fingerprints(a, meter)?;
    for item in b.iter() {
        if !known.contains(&fingerprint(&item?, meter)?) {
            return Ok(false);
        }
    }
    Ok(true)
}
