use rstest::rstest;

use super::*;

fn version(etag: &str, modified: &str, length: u64, moved: bool) -> FileVersion {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    FileVersion {
        etag: text(etag),
        modified: text(modified),
        length: Some(length),
        moved,
    }
}

#[rstest]
#[case::same_tag(version("\"a\"", "x", 1, false), version("\"a\"", "y", 1, false), true)]
#[case::other_tag(
    version("\"a\"", "x", 1, false),
    version("\"b\"", "x", 1, false),
    false
)]
#[case::other_length(
    version("\"a\"", "x", 1, false),
    version("\"a\"", "x", 2, false),
    false
)]
#[case::another_mirror(version("\"a\"", "x", 1, true), version("\"b\"", "x", 1, true), true)]
#[case::another_time(version("\"a\"", "x", 1, true), version("\"a\"", "y", 1, true), false)]
#[case::no_tags(version("", "x", 1, false), version("", "x", 1, false), true)]
fn versions_are_distinguished(
    #[case] one: FileVersion,
    #[case] other: FileVersion,
    #[case] expected: bool,
) {
    assert_eq!(one.is_same(&other), expected);
    assert_eq!(other.is_same(&one), expected);
}

#[rstest]
#[case::strong(version("\"a\"", "x", 1, false), Some("\"a\""))]
#[case::weak(version("W/\"a\"", "x", 1, false), Some("x"))]
#[case::of_a_mirror(version("\"a\"", "x", 1, true), Some("x"))]
#[case::nothing(version("W/\"a\"", "", 1, false), None)]
fn ranges_are_of_one_version(#[case] version: FileVersion, #[case] expected: Option<&str>) {
    assert_eq!(version.condition(), expected);
}

#[test]
fn headers_are_read_and_not_shown() {
    let headers = Headers::read(["X-Token: secret", "accept:text/plain"]).unwrap();
    let shown = format!("{headers:?}");
    assert!(
        shown.contains("x-token") && !shown.contains("secret"),
        "{shown}"
    );
    for (bad, part) in [
        ("no colon secret", "`Name: value`"),
        ("a b: secret", "`Name: value`"),
        ("X: a\r\nY: secret", "`Name: value`"),
        ("Range: secret", "header range cannot be set"),
    ] {
        let said = Headers::read([bad]).unwrap_err();
        assert!(said.contains(part) && !said.contains("secret"), "{said}");
    }
}
