//! Replaces text in manifests: image placeholders, snapshot versions, and pull specifications that move to another
//! registry.
//!
//! ```text
//! placeholder...:cli          --images-->    quay.io/x@sha256:...     when a payload is built
//! 0.0.1-snapshot[-component]  --versions-->  4.18.0                   when a payload is built
//! quay.io/x@sha256:...        --exact-->     mirror.example/x@sha256:...
//! ```
//!
//! All three work on the text of files and not on parsed objects, as `oc adm release new` does: values in flags,
//! environment variables or scripts in a ConfigMap are replaced as well as `image` fields, and comments and order are
//! preserved.
//!
//! Unlike `oc`, the text after a match is inspected without being consumed. So two placeholders separated by one space
//! are both replaced, and the result does not depend on map order.

mod exact;
mod images;
#[cfg(test)]
mod tests;
mod versions;

pub use exact::ExactMap;
pub use images::{ImageMap, ImageMapError};
pub use versions::{ComponentVersions, VersionError, VersionMap, VersionTableError};

/// The placeholder for images in operator manifests, followed by `:` and the name of the component.
pub const PLACEHOLDER: &str = "placeholder.url.oc.will.replace.this.org/placeholdernamespace";

/// The placeholder for the version of the release in operator manifests.
pub const SNAPSHOT: &str = "0.0.1-snapshot";

/// A position in a text, and which pattern matches there.
struct Match {
    start: usize,
    end: usize,
    which: usize,
}

/// Whether a byte belongs to a word (`\w` of Go's regular expressions, which is ASCII).
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a word may begin at a position.
fn at_word_start(text: &str, at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|it| text.as_bytes().get(it));
    before.is_none_or(|byte| !is_word(*byte))
}

/// All matches of several patterns in a text. Of matches at the same position the longest counts, and overlapping later
/// ones are dropped.
fn matches(
    text: &str,
    patterns: &[&str],
    end: impl Fn(&str, usize, usize) -> Option<usize>,
) -> Vec<Match> {
    let mut found = Vec::new();
    for (which, pattern) in patterns.iter().enumerate() {
        for (start, _) in text.match_indices(pattern) {
            let after = start + pattern.len();
            if at_word_start(text, start)
                && let Some(end) = end(text, start, after)
            {
                found.push((start, pattern.len(), Match { start, end, which }));
            }
        }
    }
    // The longest first: `placeholder:cli` must not replace the beginning of `placeholder:cli-artifacts`.
    found.sort_unstable_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
    let mut last = 0;
    let mut kept = Vec::new();
    for (start, _, found) in found {
        if start >= last {
            last = found.end;
            kept.push(found);
        }
    }
    kept
}

/// The text with replacements at the matches, which are in order and do not overlap.
fn with(text: &str, places: &[Match], replacement: impl Fn(usize) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for place in places {
        // Matches begin and end at character boundaries.
        out.push_str(text.get(last..place.start).unwrap_or_default());
        out.push_str(&replacement(place.which));
        last = place.end;
    }
    out.push_str(text.get(last..).unwrap_or_default());
    out
}
