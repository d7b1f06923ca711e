use rstest::rstest;

use super::*;

#[rstest]
#[case("bytes 10-19/100", Some((10, Some(100))))]
#[case("bytes 0-0/*", Some((0, None)))]
#[case("bytes */100", None)]
#[case("10-19/100", None)]
#[case("bytes 10-19", None)]
#[case("bytes -5-19/100", None)]
#[case("", None)]
fn ranges_are_read(#[case] text: &str, #[case] expected: Option<(u64, Option<u64>)>) {
    assert_eq!(read_range(text), expected);
}
