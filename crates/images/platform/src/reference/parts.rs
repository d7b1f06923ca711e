//! Repositories and tags.

use std::fmt;
use std::str::FromStr;

use super::{Part, ReferenceError};
use crate::excerpt::excerpt;

/// `RepositoryNameTotalLengthMax`: of the path, without the host.
const MAX_PATH: usize = 255;

/// The longest tag.
const MAX_TAG: usize = 128;

/// The tag of references that have neither tag nor digest.
const LATEST: &str = "latest";

/// A path within a registry: `containerdisks/fedora`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Repository(String);

impl Repository {
    /// The path, as in URLs.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn read(path: &str, whole: &str) -> Result<Self, ReferenceError> {
        if path.chars().any(char::is_uppercase) {
            return Err(ReferenceError::UpperCase {
                text: excerpt(whole),
                repository: excerpt(path),
            });
        }
        if !path.split('/').all(is_component) {
            return Err(ReferenceError::malformed(whole, Part::Repository, path));
        }
        ReferenceError::check_length(whole, Part::Repository, path.len(), MAX_PATH)?;
        Ok(Self(path.to_owned()))
    }
}

/// Words of lower-case letters and digits, joined by a dot, one or two underscores, or dashes.
fn is_component(component: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    // The separators between words: empty if two word characters are adjacent.
    let mut separators = component.split(is_word);
    let (Some(""), Some("")) = (separators.next(), separators.next_back()) else {
        return false;
    };
    separators.all(|between| {
        matches!(between, "" | "." | "_" | "__") || between.bytes().all(|b| b == b'-')
    })
}

impl FromStr for Repository {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        Self::read(text, text)
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tag, which may move to another image: `latest`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(String);

impl Tag {
    /// The default tag.
    pub fn latest() -> Self {
        Self(LATEST.to_owned())
    }

    /// The tag, as in URLs.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn read(tag: &str, whole: &str) -> Result<Self, ReferenceError> {
        let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if tag.is_empty() || tag.starts_with(['.', '-']) || !tag.bytes().all(inner) {
            return Err(ReferenceError::malformed(whole, Part::Tag, tag));
        }
        ReferenceError::check_length(whole, Part::Tag, tag.len(), MAX_TAG)?;
        Ok(Self(tag.to_owned()))
    }
}

impl FromStr for Tag {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        Self::read(text, text)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
