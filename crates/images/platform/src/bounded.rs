//! JSON lists and maps of bounded length: a document of a few megabytes must not take hundreds in
//! memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Reads a list of at most `MAX` elements; `null` is empty, as in Go.
pub(crate) fn list<'de, T, const MAX: usize, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX} elements, or null")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = elements.next_element()? {
                // While parsing, not after: `[{},{},...]` of 4 MiB would take hundreds of megabytes as a list of
                // structs before a check could reject it.
                if list.len() == MAX {
                    return Err(de::Error::invalid_length(MAX.saturating_add(1), &self));
                }
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_any(List::<T, MAX>(PhantomData))
}

/// Reads a map of strings with at most `MAX` keys; `null` is empty, and so is a `null` value.
pub(crate) fn map<'de, const MAX: usize, D>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Map<const MAX: usize>;

    impl<'de, const MAX: usize> Visitor<'de> for Map<MAX> {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a map of at most {MAX} texts, or null")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = entries.next_entry::<String, Option<String>>()? {
                if map.len() == MAX {
                    return Err(de::Error::invalid_length(MAX.saturating_add(1), &self));
                }
                map.insert(key, value.unwrap_or_default());
            }
            Ok(map)
        }
    }

    deserializer.deserialize_any(Map::<MAX>)
}
