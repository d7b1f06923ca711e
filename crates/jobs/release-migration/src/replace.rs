//! Replacing text in manifests: placeholders of images, snapshot versions, and pull specifications that
//! move to another registry.
//!
//! ```text
//! placeholder...:cli          --images-->    quay.io/x@sha256:...     when a payload is built
//! 0.0.1-snapshot[-component]  --versions-->  4.18.0                   when a payload is built
//! quay.io/x@sha256:...        --exact-->     mirror.example/x@sha256:...
//! ```
//!
//! All three work on the text of files and not on what it means, as `oc adm release new` does: what
//! stands in a flag, in an environment variable or in a script inside a ConfigMap is replaced just as
//! what stands in an `image` field, and comments and order survive.
//!
//! Unlike there, what follows a match is only looked at and not used up. So two placeholders with one
//! space between them are both replaced, and the result does not depend on the order of a map.

mod exact;
mod images;
#[cfg(test)]
mod tests;
mod versions;

pub use exact::ExactMap;
pub use images::{ImageMap, ImageMapError};
pub use versions::{ComponentVersions, VersionError, VersionMap, VersionTableError};

/// What operators write where the image of a component will stand, before `:` and its name.
pub const PLACEHOLDER: &str = "placeholder.url.oc.will.replace.this.org/placeholdernamespace";

/// What operators write where the version of the release will stand.
pub const SNAPSHOT: &str = "0.0.1-snapshot";

/// A place in a text, and which of several things is there.
struct Match {
    start: usize,
    end: usize,
    which: usize,
}

/// Whether a byte belongs to a word (`\w` of Go's regular expressions, which is ASCII).
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a word may begin at a place.
fn begins(text: &str, at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|it| text.as_bytes().get(it));
    before.is_none_or(|byte| !is_word(*byte))
}

/// Every match of several things in a text. Of matches that begin at the same place the longest counts,
/// and what overlaps an earlier one does not.
fn matches(
    text: &str,
    things: &[&str],
    end: impl Fn(&str, usize, usize) -> Option<usize>,
) -> Vec<Match> {
    let mut found = Vec::new();
    for (which, thing) in things.iter().enumerate() {
        for (start, _) in text.match_indices(thing) {
            let after = start + thing.len();
            if begins(text, start)
                && let Some(end) = end(text, start, after)
            {
                found.push((start, thing.len(), Match { start, end, which }));
            }
        }
    }
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

/// A text with something else in some places, which are in order and do not overlap.
fn with(text: &str, places: &[Match], replacement: impl Fn(usize) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = 0;
    for place in places {
        // Places are where matches begin and end, and so between characters.
        out.push_str(text.get(last..place.start).unwrap_or_default());
        out.push_str(&replacement(place.which));
        last = place.end;
    }
    out.push_str(text.get(last..).unwrap_or_default());
    out
}
