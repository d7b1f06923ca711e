//! Replaces pull specifications by others.

use std::collections::BTreeMap;

use super::{is_word, matches, with};

/// Pull specifications and their replacements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExactMap(BTreeMap<String, String>);

impl ExactMap {
    /// Empty keys are dropped: they would match everywhere.
    pub fn new(map: BTreeMap<String, String>) -> Self {
        let mut map = map;
        map.remove("");
        Self(map)
    }

    /// The pull specifications and their replacements.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(from, to)| (from.as_str(), to.as_str()))
    }

    /// Replaces whole matches only: neither preceded nor followed by a word character. Replacements are not replaced
    /// again.
    pub fn replace(&self, text: &str) -> String {
        let (from, to): (Vec<&str>, Vec<&str>) = self.iter().unzip();
        let places = matches(text, &from, |text, _, end| {
            let next = text.as_bytes().get(end);
            // A digest that is the prefix of a longer word is another reference.
            next.is_none_or(|byte| !is_word(*byte)).then_some(end)
        });
        with(text, &places, |which| {
            to.get(which).copied().unwrap_or_default().to_owned()
        })
    }
}
