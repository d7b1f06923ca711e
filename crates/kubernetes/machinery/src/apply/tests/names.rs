//! Names of managers and the options of requests.

use rstest::rstest;

use crate::apply::{manager_from_user_agent, validate_patch_options, validate_write_options};
use crate::status::Status;

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
#[case(true, "", None, &[], "fieldManager: Required value: is required for apply patch")]
#[case(false, "", Some(false), &[], "force: Forbidden: may not be specified for non-apply patch")]
#[case(
    true,
    "bad\nmgr",
    Some(true),
    &[],
    "fieldManager: Invalid value: \"bad\\nmgr\": invalid character U+000A (at position 3)"
)]
#[case(true, "m", None, &["Yes"], "dryRun: Unsupported value: [\"Yes\"]: supported values: \"All\"")]
fn patch_options(
    #[case] is_apply: bool,
    #[case] manager: &str,
    #[case] force: Option<bool>,
    #[case] dry_run: &[&str],
    #[case] error: &str,
) {
    let errors = validate_patch_options(is_apply, manager, force, dry_run, "");
    let status = Status::invalid_as("meta.k8s.io", "PatchOptions", "", &errors);
    assert_eq!(
        status.message,
        format!("PatchOptions.meta.k8s.io \"\" is invalid: {error}")
    );
}

#[test]
fn options_that_are_fine() {
    assert!(validate_patch_options(true, "m", Some(true), &["All", "All"], "Strict").is_empty());
    assert!(validate_write_options("", &[], "").is_empty());
    let long = "x".repeat(129);
    let errors = validate_write_options(&long, &[], "strict");
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "fieldManager: Too long: may not be more than 128 bytes",
            "fieldValidation: Unsupported value: \"strict\": supported values: \"Ignore\", \"Strict\", \"Warn\"",
        ]
    );
}
