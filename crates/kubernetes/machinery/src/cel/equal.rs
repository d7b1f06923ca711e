//! Equality: across number types, by keys for lists that have them, ignoring order for sets.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::meter::{Fail, Meter};
use super::value::{List, Map, Val};
use crate::schema::ListType;

/// Whether two values are equal. Values of different types are not, numbers aside.
pub(crate) fn equal(a: &Val<'_>, b: &Val<'_>, meter: &mut Meter) -> Result<bool, Fail> {
    meter.burn(1)?;
    Ok(match (a, b) {
        (Val::Null, Val::Null) | (Val::Optional(None), Val::Optional(None)) => true,
        (Val::Str(a), Val::Str(b)) => {
            meter.burn_bytes(a.len().min(b.len()))?;
            **a == **b
        }
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::List(a), Val::List(b)) => lists(a, b, meter)?,
        (Val::Map(a), Val::Map(b)) => maps(a, b, meter)?,
        (Val::Optional(Some(a)), Val::Optional(Some(b))) => equal(a, b, meter)?,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::Url(a), Val::Url(b)) => a.source == b.source,
        (Val::Quantity(a), Val::Quantity(b)) => a == b,
        (Val::Ip(a), Val::Ip(b)) => a == b,
        (Val::Cidr(a), Val::Cidr(b)) => a == b,
        (Val::Semver(a), Val::Semver(b)) => a.cmp_precedence(b) == Ordering::Equal,
        (Val::Format(a), Val::Format(b)) => a == b,
        (
            Val::Bool(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Timestamp(_)
            | Val::Duration(_),
            _,
        ) => matches!(a.compare(b), Ok(Ordering::Equal)),
        _ => false,
    })
}

fn lists(a: &List<'_>, b: &List<'_>, meter: &mut Meter) -> Result<bool, Fail> {
    if a.len() != b.len() {
        return Ok(false);
    }
    let how = a.decl.or(b.decl).map_or(ListType::Atomic, |d| d.list_type);
    match how {
        ListType::Atomic => {
            for (x, y) in a.iter().zip(b.iter()) {
                if !equal(&x?, &y?, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        // By fingerprints: comparing each with each would let a rule on two lists of a thousand items do a million
        // comparisons that upstream's cost model does not see.
        ListType::Set => {
            let mut known = BTreeSet::new();
            for item in a.iter() {
                known.insert(fingerprint(&item?, meter)?);
            }
            for item in b.iter() {
                if !known.contains(&fingerprint(&item?, meter)?) {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListType::Map => {
            let keys = a.decl.or(b.decl).map(|d| &*d.keys).unwrap_or_default();
            let mut known = BTreeMap::new();
            for item in a.iter() {
                let item = item?;
                known.insert(item_key(&item, keys, meter)?, item);
            }
            for item in b.iter() {
                let item = item?;
                match known.get(&item_key(&item, keys, meter)?) {
                    Some(other) if equal(other, &item, meter)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
    }
}

/// The key of an item in a list of type map.
pub(crate) fn item_key(item: &Val<'_>, keys: &[String], meter: &mut Meter) -> Result<String, Fail> {
    let Val::Map(map) = item else {
        return Err(Fail::no_overload());
    };
    let mut text = String::new();
    for key in keys {
        // Keys are property names; fields go by their name in expressions.
        let name = match map {
            Map::Object(_, object) => object.escaped.get(key).unwrap_or(key),
            _ => key,
        };
        match map.find_name(name)? {
            Some(value) => text.push_str(&fingerprint(&value, meter)?),
            None => text.push('-'),
        }
        text.push('\u{0}');
    }
    Ok(text)
}

/// A text that is the same for equal values.
pub(crate) fn fingerprint(value: &Val<'_>, meter: &mut Meter) -> Result<String, Fail> {
    let mut out = String::new();
    print(value, &mut out, meter)?;
    Ok(out)
}

fn print(value: &Val<'_>, out: &mut String, meter: &mut Meter) -> Result<(), Fail> {
    meter.burn(1)?;
    // Writing to a string cannot fail.
    let _ = match value {
        Val::Null => write!(out, "~"),
        Val::Bool(b) => write!(out, "{b}"),
        Val::Int(i) => write!(out, "{i}"),
        Val::Uint(u) => write!(out, "{u}"),
        Val::Double(d) => write!(out, "{d}"),
        Val::Timestamp(t) => write!(out, "t{t}"),
        Val::Duration(d) => write!(out, "d{d}"),
        Val::Str(text) => {
            meter.burn_bytes(text.len())?;
            // With its length, so that a string cannot imitate the print of two values.
            write!(out, "s{}:{}", text.len(), &**text)
        }
        Val::Bytes(bytes) => {
            meter.burn(bytes.len())?;
            write!(out, "b{bytes:?}")
        }
        Val::List(list) => {
            out.push('[');
            for item in list.iter() {
                print(&item?, out, meter)?;
                out.push(',');
            }
            write!(out, "]")
        }
        Val::Map(map) => {
            out.push('{');
            for key in map.keys() {
                print(&key, out, meter)?;
                out.push('=');
                if let Some(value) = map.find(&key)? {
                    print(&value, out, meter)?;
                }
                out.push(',');
            }
            write!(out, "}}")
        }
        Val::Optional(inner) => {
            out.push('?');
            return inner
                .as_ref()
                .map_or(Ok(()), |inner| print(inner, out, meter));
        }
        other => write!(out, "{other:?}"),
    };
    Ok(())
}

fn maps(a: &Map<'_>, b: &Map<'_>, meter: &mut Meter) -> Result<bool, Fail> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if let (Map::Object(x, object), Map::Object(y, _)) = (a, b) {
        // What rules cannot see still makes objects differ.
        for (name, value) in *x {
            let hidden = !object.escaped.contains_key(name);
            if hidden
                && y.get(name)
                    .is_some_and(|other| !same_json(value, other, meter))
            {
                return Ok(false);
            }
        }
    }
    for key in a.keys() {
        match (a.find(&key)?, b.find(&key)?) {
            (None, None) => {}
            (Some(x), Some(y)) if equal(&x, &y, meter)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn same_json(a: &Value, b: &Value, meter: &mut Meter) -> bool {
    meter.burn(1).is_ok() && a == b
}
