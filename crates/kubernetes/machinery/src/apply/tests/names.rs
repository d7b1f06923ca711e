//! Names of managers and the options of requests.

use rstest::rstest;

use crate::apply::{manager_from_user_agent, validate_field_manager};

#[rstest]
#[case("probe/1.0 (x)", "probe")]
#[case("curl", "curl")]
#[case("", "")]
#[case("/1.0", "")]
#[case("a\nb\u{200b}c d\u{e9}\u{301}/1", "abc d\u{e9}\u{301}")]
fn the_user_agent_names_the_manager(#[case] agent: &str, #[case] manager: &str) {
    assert_eq!(manager_from_user_agent(agent), manager);
}

#[test]
fn long_user_agents_are_cut_between_characters() {
    let agent = format!("{}\u{e9}\u{e9}", "x".repeat(127));
    assert_eq!(manager_from_user_agent(&agent), "x".repeat(127));
}

#[rstest]
#[case("", None)]
#[case("m", None)]
#[case(
    "bad\nmgr",
    Some("fieldManager: Invalid value: \"bad\\nmgr\": invalid character U+000A (at position 3)")
)]
#[case(&"x".repeat(129), Some("fieldManager: Too long: may not be more than 128 bytes"))]
fn field_manager_is_short_and_printable(#[case] manager: &str, #[case] error: Option<&str>) {
    let errors = validate_field_manager(manager);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts, error.into_iter().collect::<Vec<_>>());
}
