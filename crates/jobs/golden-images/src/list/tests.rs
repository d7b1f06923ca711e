use rstest::rstest;

use super::*;

#[rstest]
#[case("amd64,arm64", &["amd64", "arm64"], &[], false)]
#[case("arm64,s390x,amd64", &["arm64", "s390x", "amd64"], &[], false)]
#[case("amd64, arm64", &["amd64", "arm64"], &[], true)]
#[case("AMD64", &["amd64"], &[], true)]
#[case("amd64,amd64", &["amd64"], &[], true)]
#[case("amd64,,", &["amd64"], &[], true)]
#[case("x86_64,aarch64", &["amd64", "arm64"], &[], true)]
#[case("riscv64,amd64,unknown", &["amd64"], &["riscv64", "unknown"], false)]
#[case("", &[], &[], false)]
#[case(" , ", &[], &[], true)]
fn lists_are_normalised(
    #[case] text: &str,
    #[case] known: &[&str],
    #[case] unknown: &[&str],
    #[case] untidy: bool,
) {
    let listed = ArchitectureList::parse(text);
    assert_eq!(listed.known, known);
    assert_eq!(listed.unknown, unknown);
    assert_eq!(listed.untidy, untidy);
}

#[test]
fn long_list_is_truncated() {
    let listed = ArchitectureList::parse(&"z,".repeat(1_000_000));
    assert_eq!(listed.unknown, ["z"]);
    assert!(listed.untidy);
}

#[test]
fn list_order_is_kept() {
    let cluster = BTreeSet::from(["amd64", "s390x"]);
    assert_eq!(
        ArchitectureList::parse("s390x,arm64,amd64").present(&cluster),
        ["s390x", "amd64"]
    );
}
