use rstest::rstest;
use serde_json::json;

use super::*;
use crate::history::Entry;
use crate::policy::Policy;

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn entry(digest: String, name: &str) -> Entry {
    Entry {
        digest,
        name: name.to_owned(),
        ..Entry::default()
    }
}

/// `b` is in use; before that `a`, `b` and `c` were.
fn variant() -> Variant {
    let half = format!("sha256:{}{}", "a".repeat(32), "0".repeat(32));
    Variant {
        data_source: "fedora-arm64".to_owned(),
        digest: Some(digest('b')),
        history: vec![
            entry(digest('b'), "fedora-b"),
            entry(digest('a'), "fedora-a"),
            entry(digest('b'), "fedora-b"),
            entry(half, "fedora-half"),
        ],
        ..Variant::default()
    }
}

#[rstest]
#[case::in_use(Wanted::InUse, 'b')]
#[case::one_back(Wanted::Back(1), 'a')]
#[case::by_volume(Wanted::Earlier("fedora-a"), 'a')]
#[case::by_the_beginning(Wanted::Earlier("bbb"), 'b')]
#[case::with_its_prefix(Wanted::Earlier("sha256:bb"), 'b')]
fn versions_are_found(#[case] wanted: Wanted<'_>, #[case] expected: char) {
    assert_eq!(version(&variant(), wanted), Ok(digest(expected)));
}

#[rstest]
#[case::too_far(Wanted::Back(3), "remembers 2 earlier versions, 3 were asked")]
#[case::no_step(Wanted::Back(0), "remembers 2 earlier versions, 0 were asked")]
#[case::unknown(Wanted::Earlier("ff"), "it remembers: sha256:bbb")]
#[case::nothing(Wanted::Earlier(""), "has no version \"\"")]
#[case::ambiguous(Wanted::Earlier("aaaa"), "may be several versions")]
#[case::no_digest(Wanted::Digest("sha256:abc"), "64 hexadecimal digits")]
#[case::tag(Wanted::Digest("latest"), "64 hexadecimal digits")]
fn what_is_no_version_is_told_with_what_is(#[case] wanted: Wanted<'_>, #[case] part: &str) {
    let said = version(&variant(), wanted).unwrap_err().to_string();
    assert!(said.contains(part), "{said}");
}

#[test]
fn what_has_no_version_cannot_be_held() {
    let empty = Variant {
        data_source: "x".to_owned(),
        ..Variant::default()
    };
    let said = version(&empty, Wanted::InUse).unwrap_err().to_string();
    assert!(said.contains("--digest"), "{said}");
    // A volume that is cloned is no version that a policy can name.
    let cloned = Variant {
        digest: Some("uid:0123".to_owned()),
        ..empty
    };
    assert!(version(&cloned, Wanted::InUse).is_err());
}

#[test]
fn a_pin_is_what_the_policy_reads() {
    let image = crate::action::named("kubevirt-os-images", "fedora");
    let pin = |architecture: &str, letter| Pin {
        architecture: architecture.to_owned(),
        digest: digest(letter),
        reason: None,
    };
    let mut spec: GoldenImagePolicySpec = serde_json::from_value(json!({
        "gracePeriod": "2h",
        "images": [{ "name": "other", "defaultArchitecture": "arm64" }],
    }))
    .unwrap();
    spec.images = with(&spec, &image, pin("arm64", 'a'));
    spec.images = with(&spec, &image, pin("amd64", 'b'));
    spec.images = with(&spec, &image, pin("arm64", 'c'));
    let held = |spec: &GoldenImagePolicySpec, architecture: &str| {
        let (policy, wrong) = Policy::read(spec);
        assert_eq!(wrong, []);
        let pin = policy.pin_for("kubevirt-os-images", "fedora", architecture);
        pin.map(str::to_owned)
    };
    assert_eq!(held(&spec, "arm64"), Some(digest('c')));
    assert_eq!(held(&spec, "amd64"), Some(digest('b')));
    assert_eq!(held(&spec, ""), None);
    spec.images = without(&spec, &image, "arm64");
    assert_eq!(held(&spec, "arm64"), None);
    assert_eq!(held(&spec, "amd64"), Some(digest('b')));
    spec.images = without(&spec, &image, "amd64");
    // What is said about others stays, and of this one nothing is left to be said.
    assert_eq!(spec.images.len(), 1);
    assert_eq!(spec.images[0].name, "other");
    assert_eq!(without(&spec, &image, "amd64"), spec.images);
}

#[test]
fn an_old_file_of_a_web_server_is_there_only_if_it_is_kept() {
    let mut file = Variant {
        url: Some("https://example.com/fedora.qcow2".to_owned()),
        ..variant()
    };
    let said = version(&file, Wanted::Back(1)).unwrap_err().to_string();
    assert!(said.contains("nothing else is kept"), "{said}");
    assert_eq!(version(&file, Wanted::InUse), Ok(digest('b')));
    file.newest = Some(digest('e'));
    let newest = digest('e');
    assert_eq!(version(&file, Wanted::Digest(&newest)), Ok(digest('e')));
    file.kept = vec![digest('a')];
    assert_eq!(version(&file, Wanted::Back(1)), Ok(digest('a')));
    let said = version(&file, Wanted::Back(2)).unwrap_err().to_string();
    assert!(
        said.contains(&format!("these are kept: {}", digest('a'))),
        "{said}"
    );
}
