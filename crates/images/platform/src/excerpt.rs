//! Foreign text in messages: short, and on one line.

/// The most characters of a foreign text that a message repeats.
const LONGEST: usize = 96;

/// The text as a message shows it: quoted, control characters escaped, cut where it gets long.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST).collect();
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
