//! How the items of associative lists are identified.

use serde_json::Value;

use crate::apply::path::PathElement;
use crate::apply::schema::{ListKey, ListRelation, ListType};
use crate::json::go_quote;

/// The element that leads to `item`, or why it has none.
pub(super) fn element(list: &ListType, item: &Value) -> Result<PathElement, String> {
    check(list, item)?;
    match &list.relation {
        ListRelation::Map(keys) if !keys.is_empty() => {
            let fields = keys
                .iter()
                .filter_map(|key| Some((key.name.clone(), key_value(key, item)?.clone())))
                .collect();
            Ok(PathElement::key(fields))
        }
        _ => Ok(PathElement::item(item.clone())),
    }
}

/// Whether `item` has an element, without making it.
pub(super) fn check(list: &ListType, item: &Value) -> Result<(), String> {
    match &list.relation {
        ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListRelation::Map(keys) if !keys.is_empty() => match item {
            Value::Null => Err("associative list with keys may not have a null element".to_owned()),
            Value::Object(_) if keys.iter().any(|key| key_value(key, item).is_some()) => Ok(()),
            Value::Object(_) => {
                let names: Vec<String> = keys.iter().map(|key| go_quote(&key.name)).collect();
                Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                    names.join(" ")
                ))
            }
            _ => Err("associative list with keys may not have non-map elements".to_owned()),
        },
        _ => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            Value::Null => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            _ => Ok(()),
        },
    }
}

fn key_value<'a>(key: &'a ListKey, item: &'a Value) -> Option<&'a Value> {
    item.get(&*key.name).or(key.default.as_ref())
}
