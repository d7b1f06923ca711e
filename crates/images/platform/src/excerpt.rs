//! Untrusted text in messages: short, and on one line.

/// Upper bound of characters quoted.
const MAX_CHARS: usize = 96;

/// The text in quotes, with control characters escaped, and truncated.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_CHARS).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_odd_texts_fit_in_a_message() {
        assert_eq!(excerpt("a\nb"), r#""a\nb""#);
        assert_eq!(excerpt(&"é".repeat(96)).chars().count(), 98);
        assert_eq!(
            excerpt(&"é".repeat(97)),
            format!("\"{}...\"", "é".repeat(96))
        );
    }
}
