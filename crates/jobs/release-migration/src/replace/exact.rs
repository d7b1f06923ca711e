//! From images in one place to the same images in another.

use std::collections::BTreeMap;

use super::{is_word, matches, with};

/// Pull specifications, and what stands there instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExactMap(BTreeMap<String, String>);

impl ExactMap {
    /// Nothing is empty, and so there is nothing to be found in it.
    pub fn new(map: BTreeMap<String, String>) -> Self {
        let mut map = map;
        map.remove("");
        Self(map)
    }

    /// What is replaced, and by what.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(from, to)| (from.as_str(), to.as_str()))
    }

    /// A text with everything replaced that stands there as a whole: neither at its beginning nor at its
    /// end does a word go on. What was put there is not replaced again.
    pub fn replace(&self, text: &str) -> String {
        let (from, to): (Vec<&str>, Vec<&str>) = self.iter().unzip();
        let places = matches(text, &from, |text, _, end| {
            let next = text.as_bytes().get(end);
            next.is_none_or(|byte| !is_word(*byte)).then_some(end)
        });
        with(text, &places, |which| {
            to.get(which).copied().unwrap_or_default().to_owned()
        })
    }
}
