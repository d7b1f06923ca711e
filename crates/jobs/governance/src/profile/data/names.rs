//! Names of data profiles, as the rest of the crate expects them.
//!
//! Kinds, items and profiles are identified by `&'static str`, since built-in ones are constants. A name that comes from
//! an object is kept for the life of the process instead: there are few, each is kept once, and all of them together are
//! limited.

use std::collections::BTreeSet;

/// The most bytes of all names that a process keeps.
const MAX_BYTES: usize = 1 << 20;

/// The names of all data profiles of a process.
#[derive(Debug, Default)]
pub struct Names {
    known: BTreeSet<&'static str>,
    bytes: usize,
}

impl Names {
    /// The same text, kept; `None` if too many different ones were seen.
    pub(super) fn keep(&mut self, text: &str) -> Option<&'static str> {
        if let Some(known) = self.known.get(text) {
            return Some(known);
        }
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_BYTES {
            return None;
        }
        let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
        self.known.insert(kept);
        Some(kept)
    }

    /// Several texts, kept.
    pub(super) fn keep_all(&mut self, texts: &[String]) -> Option<&'static [&'static str]> {
        let mut kept = Vec::new();
        for text in texts {
            kept.push(self.keep(text)?);
        }
        self.bytes = self.bytes.saturating_add(size_of_val(kept.as_slice()));
        (self.bytes <= MAX_BYTES).then(|| &*Box::leak(kept.into_boxed_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_limited() {
        let mut names = Names::default();
        let first = names.keep("one");
        let bytes = names.bytes;
        assert_eq!(names.keep("one"), first);
        assert_eq!(names.bytes, bytes);
        assert_eq!(names.keep(&"x".repeat(MAX_BYTES)), None);
        assert_eq!(names.keep("one"), first, "known names stay usable");
    }
}
