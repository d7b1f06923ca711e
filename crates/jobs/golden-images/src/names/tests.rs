use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case("", 0x811c_9dc5)]
#[case("a", 0xe40c_292c)]
#[case("foobar", 0xbf9c_f968)]
fn hashes_are_those_of_fnv(#[case] text: &str, #[case] expected: u32) {
    assert_eq!(fnv1a(text.as_bytes()), expected);
}

#[test]
fn an_architecture_is_a_suffix() {
    assert_eq!(
        for_architecture("centos-stream9-image-cron", "amd64"),
        "centos-stream9-image-cron-amd64"
    );
    let base = "a".repeat(63 - "-s390x".len());
    assert_eq!(for_architecture(&base, "s390x"), format!("{base}-s390x"));
}

/// Upstream's own webhook rejects such names.
#[test]
fn long_name_is_cut_and_hashed() {
    let base = "b".repeat(60);
    let name = for_architecture(&base, "s390x");
    assert_eq!(name.len(), 63);
    assert_eq!(
        name,
        format!("{}-{:08x}-s390x", "b".repeat(48), fnv1a(base.as_bytes()))
    );
    assert_ne!(name, for_architecture(&"b".repeat(61), "s390x"));
}

#[rstest]
#[case("fedora", "sha256:e065d9079064aaaa", Ok("fedora-e065d9079064"))]
#[case(
    "fedora",
    "uid:11111111-2222-3333-4444-555555555555",
    Ok("fedora-11111111-222")
)]
#[case("fedora", "sha512:e065d9079064", Err(DigestError::Prefix("sha512:e065d9079064".into())))]
#[case("fedora", "sha256:e065", Err(DigestError::Short("sha256:e065".into())))]
#[case("fedora", "sha256:E065D9079064", Err(DigestError::Characters("sha256:E065D9079064".into())))]
#[case("fedora", "sha256:éééééééééééé", Err(DigestError::Characters("sha256:éééééééééééé".into())))]
#[case("fedora", "", Err(DigestError::Prefix(String::new())))]
fn volumes_are_named_after_digests(
    #[case] data_source: &str,
    #[case] digest: &str,
    #[case] expected: Result<&str, DigestError>,
) {
    assert_eq!(volume(data_source, digest), expected.map(str::to_owned));
}

/// 253 - 10 - 12 characters of the name, its hash and the digest.
#[test]
fn long_volume_name_matches_upstream() {
    let base = "c".repeat(253);
    let name = volume(&base, "sha256:0123456789abcdef").unwrap();
    assert_eq!(
        name,
        format!(
            "{}-{:08x}-0123456789ab",
            "c".repeat(253 - 10 - 12),
            fnv1a(base.as_bytes())
        )
    );
    assert_eq!(name.len(), 253);
}

proptest! {
    #[test]
    fn names_fit_and_stay_distinct(base in "[a-z][-a-z0-9]{0,299}", other in "[a-z][-a-z0-9]{0,299}") {
        for architecture in ["amd64", "arm64", "s390x"] {
            let name = for_architecture(&base, architecture);
            prop_assert!(name.len() <= 63);
            let suffix = format!("-{architecture}");
            prop_assert!(name.ends_with(&suffix));
            prop_assert_eq!(name == for_architecture(&other, architecture), base == other);
        }
        prop_assert!(fitting(&base).len() <= 63);
    }

    #[test]
    fn nothing_breaks_on_hostile_names(base in ".{0,300}", digest in "(sha256:|uid:)?.{0,40}") {
        prop_assert!(for_architecture(&base, "arm64").len() <= 63);
        if let Ok(name) = volume(&base, &digest) {
            prop_assert!(name.len() <= 253);
        }
    }
}
