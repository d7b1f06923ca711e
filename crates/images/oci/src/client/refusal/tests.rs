use rstest::rstest;

use super::*;

#[rstest]
#[case("0", Some(0))]
#[case(" 120 ", Some(120))]
#[case("99999999999", Some(86400))]
#[case("Mon, 16 Nov 2026 08:00:30 GMT", Some(30))]
#[case("Mon, 16 Nov 2026 07:00:30 GMT", Some(0))]
#[case("soon", None)]
#[case("-5", None)]
#[case("", None)]
fn retry_after_is_read(#[case] text: &str, #[case] seconds: Option<u64>) {
    let now: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
    assert_eq!(pause(text, now), seconds.map(Duration::from_secs));
}

#[rstest]
#[case(r#"{"errors":[{"code":"DENIED","message":"no"}]}"#, "DENIED: no")]
#[case(r#"{"errors":[{"code":"DENIED"}]}"#, "DENIED")]
#[case(
    r#"{"errors":[{"message":"your password is hunter2"}]}"#,
    "your password is ***"
)]
#[case(r#"{"errors":[{"message":"a\u0000\nb\u001b[31m"}]}"#, "a b [31m")]
#[case(r#"{"errors":[]}"#, "")]
#[case("<html>", "")]
fn words_of_a_registry_are_cleaned(#[case] body: &str, #[case] said: &str) {
    assert_eq!(error_message(body.as_bytes(), &["hunter2"]), said);
}
