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
