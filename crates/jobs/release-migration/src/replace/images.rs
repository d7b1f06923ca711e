//! Replaces image placeholders by the images of a release.

use std::collections::BTreeMap;

use api::openshift::ImageStream;
use machinery::json::go_quote;

use super::{is_word, matches, with};

/// Maximum length of a tag.
const LONGEST_TAG: usize = 128;

/// Why the placeholders of an operator cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageMapError {
    /// The release has no such image.
    #[error("no input image tag named {}", go_quote(.tag))]
    Missing {
        /// The name that the operator uses.
        tag: String,
    },
    /// The image-references of the operator do not name the placeholder.
    #[error("no from.name for the tag {tag}")]
    NoSource {
        /// The name that the operator uses.
        tag: String,
    },
    /// One placeholder is used for two images.
    #[error("the source repository {} was defined more than once (for {} and {})", go_quote(.source_repository), go_quote(.first), go_quote(.second))]
    Twice {
        /// The placeholder.
        source_repository: String,
        /// The first image.
        first: String,
        /// The second image.
        second: String,
    },
}

/// Placeholders with their images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageMap {
    /// Component name and image, by placeholder.
    by_source: BTreeMap<String, (String, String)>,
    missing: Vec<String>,
}

impl ImageMap {
    /// Combines the `image-references` of an operator with the images of a release. An image missing in the release is
    /// an error, unless that is allowed: then its placeholder is kept.
    pub fn new(
        local: &ImageStream,
        images: &ImageStream,
        allow_missing: bool,
    ) -> Result<Self, ImageMapError> {
        let mut map = Self::default();
        for (tag, source) in local.images() {
            if source.is_empty() {
                let tag = tag.to_owned();
                return Err(ImageMapError::NoSource { tag });
            }
            let Some(image) = images.image(tag).filter(|image| !image.is_empty()) else {
                let tag = tag.to_owned();
                if allow_missing {
                    map.missing.push(tag);
                    continue;
                }
                return Err(ImageMapError::Missing { tag });
            };
            let value = (tag.to_owned(), image.to_owned());
            // One placeholder for two images would replace both by whichever came last.
            if let Some((first, _)) = map.by_source.insert(source.to_owned(), value) {
                return Err(ImageMapError::Twice {
                    source_repository: source.to_owned(),
                    first,
                    second: tag.to_owned(),
                });
            }
        }
        Ok(map)
    }

    /// Names of the images that are inserted.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.by_source.values().map(|(tag, _)| tag.as_str())
    }

    /// Names of the images that the release does not have.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Replaces placeholders: one begins at a word boundary, may be followed by a tag or a digest, and ends before
    /// whitespace, a quote or the end.
    pub fn replace(&self, text: &str) -> String {
        let (sources, images): (Vec<&str>, Vec<&str>) = self
            .by_source
            .iter()
            .map(|(source, (_, image))| (source.as_str(), image.as_str()))
            .unzip();
        let places = matches(text, &sources, |text, _, after| ending(text, after));
        with(text, &places, |which| {
            images.get(which).copied().unwrap_or_default().to_owned()
        })
    }
}

/// The end of a pull specification whose repository ends at a position; `None` if it is part of a longer word.
fn ending(text: &str, after: usize) -> Option<usize> {
    let rest = text.get(after..)?;
    let end = match rest.as_bytes().first() {
        Some(b':') => after + 1 + tag(rest.get(1..)?)?,
        Some(b'@') => after + 1 + digest(rest.get(1..)?)?,
        _ => after,
    };
    is_ended(text, end).then_some(end)
}

fn is_ended(text: &str, at: usize) -> bool {
    match text.as_bytes().get(at) {
        None => true,
        // `\s` of Go's regular expressions.
        Some(byte) => matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' | b'"' | b'\''),
    }
}

/// The length of the tag at the start of a text.
fn tag(text: &str) -> Option<usize> {
    let is_tag = |byte: &u8| is_word(*byte) || matches!(byte, b'.' | b'-');
    let length = text.bytes().take_while(is_tag).count();
    let first = *text.as_bytes().first()?;
    (is_word(first) && length <= LONGEST_TAG).then_some(length)
}

/// The length of the digest at the start of a text: `sha256:` and so on.
fn digest(text: &str) -> Option<usize> {
    let (algorithm, hash) = text.split_once(':')?;
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if !algorithm.split(['-', '_', '+', '.']).all(is_part) {
        return None;
    }
    let digits = hash.bytes().take_while(u8::is_ascii_hexdigit).count();
    (digits >= 2).then_some(algorithm.len() + 1 + digits)
}
