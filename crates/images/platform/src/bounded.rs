//! Lists and maps of JSON that have a greatest length: a document of a few megabytes must not become
//! hundreds in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Reads a list of at most `MOST`; `null` is empty, as Go has it.
pub(crate) fn list<'de, T, const MOST: usize, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<T, const MOST: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST} elements, or null")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = elements.next_element()? {
                if list.len() == MOST {
                    return Err(de::Error::invalid_length(MOST.saturating_add(1), &self));
                }
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_any(List::<T, MOST>(PhantomData))
}

/// Reads a map of texts with at most `MOST` keys; `null` is empty, and so is a value that is `null`.
pub(crate) fn map<'de, const MOST: usize, D>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Map<const MOST: usize>;

    impl<'de, const MOST: usize> Visitor<'de> for Map<MOST> {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a map of at most {MOST} texts, or null")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = entries.next_entry::<String, Option<String>>()? {
                if map.len() == MOST {
                    return Err(de::Error::invalid_length(MOST.saturating_add(1), &self));
                }
                map.insert(key, value.unwrap_or_default());
            }
            Ok(map)
        }
    }

    deserializer.deserialize_any(Map::<MOST>)
}
