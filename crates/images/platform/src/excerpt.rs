//! Untrusted text in messages: short, and on one line.

#[cfg(test)]
mod tests;

/// Upper bound of characters quoted.
const MAX_CHARS: usize = 96;

/// The text in quotes, with control characters escaped, and truncated.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_CHARS).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    // `Debug` escapes control characters and quotes: a reference with a line break must
    // not forge a line in a log or a condition.
    format!("{shown:?}")
}
