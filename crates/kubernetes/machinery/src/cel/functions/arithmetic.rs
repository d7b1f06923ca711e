//! Arithmetic with overflow checks.

use crate::cel::equal::{fingerprint, item_key};
use crate::cel::meter::{Fail, Meter};
use crate::cel::time::in_range;
use crate::cel::value::{List, Val};
use crate::schema::ListType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn overflow(what: &str) -> Fail {
    Fail::error(format!("{what} overflow"))
}

fn int<'a>(result: Option<i64>) -> Result<Val<'a>, Fail> {
    result.map(Val::Int).ok_or_else(|| overflow("integer"))
}

fn uint<'a>(result: Option<u64>) -> Result<Val<'a>, Fail> {
    result
        .map(Val::Uint)
        .ok_or_else(|| overflow("unsigned integer"))
}

fn duration<'a>(result: Option<i64>) -> Result<Val<'a>, Fail> {
    result
        .map(Val::Duration)
        .ok_or_else(|| overflow("duration"))
}

fn timestamp<'a>(nanos: i128) -> Result<Val<'a>, Fail> {
    in_range(nanos)
        .map(Val::Timestamp)
        .ok_or_else(|| overflow("timestamp"))
}

/// `a + b`
pub(super) fn add<'a>(a: &Val<'a>, b: &Val<'a>, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => int(a.checked_add(*b)),
        (Val::Uint(a), Val::Uint(b)) => uint(a.checked_add(*b)),
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
        (Val::Duration(a), Val::Duration(b)) => duration(a.checked_add(*b)),
        (Val::Timestamp(t), Val::Duration(d)) | (Val::Duration(d), Val::Timestamp(t)) => {
            timestamp(t + i128::from(*d))
        }
        (Val::Str(a), Val::Str(b)) => {
            meter.burn_bytes(a.len() + b.len())?;
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Val::string(text))
        }
        (Val::Bytes(a), Val::Bytes(b)) => {
            meter.burn_bytes(a.len() + b.len())?;
            let joined: Arc<[u8]> = a.iter().chain(b.iter()).copied().collect();
            Ok(Val::Bytes(joined))
        }
        (Val::List(a), Val::List(b)) => concat(a, b, meter),
        _ => Err(Fail::no_overload()),
    }
}

/// Sets take only new items, lists of type map replace those with the same key.
fn concat<'a>(a: &List<'a>, b: &List<'a>, meter: &mut Meter) -> Result<Val<'a>, Fail> {
    meter.burn((a.len() + b.len()) * 4)?;
    let mut items = a.iter().collect::<Result<Vec<_>, _>>()?;
    // The left operand decides, as `Add` of upstream's `unstructuredSetList` and `unstructuredMapList`
    // (`apiserver/pkg/cel/common/values.go`) is a method of it.
    let how = a.decl.map_or(ListType::Atomic, |d| d.list_type);
    match how {
        ListType::Atomic => {
            for item in b.iter() {
                items.push(item?);
            }
        }
        ListType::Set => {
            let mut known = BTreeSet::new();
            for item in &items {
                known.insert(fingerprint(item, meter)?);
            }
            for item in b.iter() {
                let item = item?;
                if known.insert(fingerprint(&item, meter)?) {
                    items.push(item);
                }
            }
        }
        ListType::Map => {
            let keys = a.decl.map(|d| &*d.keys).unwrap_or_default();
            let mut known = BTreeMap::new();
            for (at, item) in items.iter().enumerate() {
                known.insert(item_key(item, keys, meter)?, at);
            }
            for item in b.iter() {
                let item = item?;
                let key = item_key(&item, keys, meter)?;
                if let Some(slot) = known.get(&key).and_then(|at| items.get_mut(*at)) {
                    *slot = item;
                } else {
                    known.insert(key, items.len());
                    items.push(item);
                }
            }
        }
    }
    Ok(Val::List(List::made(items, a.decl)))
}

/// `a - b`, `a * b`, `a / b` and `a % b`
pub(super) fn binary<'a>(name: &str, a: &Val<'a>, b: &Val<'a>) -> Result<Val<'a>, Fail> {
    match (name, a, b) {
        ("_-_", Val::Int(a), Val::Int(b)) => int(a.checked_sub(*b)),
        ("_-_", Val::Uint(a), Val::Uint(b)) => uint(a.checked_sub(*b)),
        ("_-_", Val::Double(a), Val::Double(b)) => Ok(Val::Double(a - b)),
        ("_-_", Val::Duration(a), Val::Duration(b)) => duration(a.checked_sub(*b)),
        ("_-_", Val::Timestamp(t), Val::Duration(d)) => timestamp(t - i128::from(*d)),
        ("_-_", Val::Timestamp(a), Val::Timestamp(b)) => duration(i64::try_from(a - b).ok()),
        ("_*_", Val::Int(a), Val::Int(b)) => int(a.checked_mul(*b)),
        ("_*_", Val::Uint(a), Val::Uint(b)) => uint(a.checked_mul(*b)),
        ("_*_", Val::Double(a), Val::Double(b)) => Ok(Val::Double(a * b)),
        ("_/_", Val::Double(a), Val::Double(b)) => Ok(Val::Double(a / b)),
        ("_/_", Val::Int(_), Val::Int(0)) | ("_/_", Val::Uint(_), Val::Uint(0)) => {
            Err(Fail::error("division by zero"))
        }
        ("_%_", Val::Int(_), Val::Int(0)) | ("_%_", Val::Uint(_), Val::Uint(0)) => {
            Err(Fail::error("modulus by zero"))
        }
        ("_/_", Val::Int(a), Val::Int(b)) => int(a.checked_div(*b)),
        ("_/_", Val::Uint(a), Val::Uint(b)) => uint(a.checked_div(*b)),
        ("_%_", Val::Int(a), Val::Int(b)) => int(a.checked_rem(*b)),
        ("_%_", Val::Uint(a), Val::Uint(b)) => uint(a.checked_rem(*b)),
        _ => Err(Fail::no_overload()),
    }
}

/// `-a`
pub(super) fn negate<'a>(a: &Val<'a>) -> Result<Val<'a>, Fail> {
    match a {
        Val::Int(a) => int(a.checked_neg()),
        Val::Double(a) => Ok(Val::Double(-a)),
        Val::Duration(a) => duration(a.checked_neg()),
        _ => Err(Fail::no_overload()),
    }
}
