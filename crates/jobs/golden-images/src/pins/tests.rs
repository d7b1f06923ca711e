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
#[case::in_use(RequestedVersion::InUse, 'b')]
#[case::one_back(RequestedVersion::Back(1), 'a')]
#[case::by_volume(RequestedVersion::Earlier("fedora-a"), 'a')]
#[case::by_the_beginning(RequestedVersion::Earlier("bbb"), 'b')]
#[case::with_its_prefix(RequestedVersion::Earlier("sha256:bb"), 'b')]
fn versions_are_found(#[case] wanted: RequestedVersion<'_>, #[case] expected: char) {
    assert_eq!(version(&variant(), wanted), Ok(digest(expected)));
}

#[rstest]
#[case::too_far(
    RequestedVersion::Back(3),
    "has 2 earlier versions in its history, cannot roll back 3"
)]
#[case::no_step(
    RequestedVersion::Back(0),
    "has 2 earlier versions in its history, cannot roll back 0"
)]
#[case::unknown(RequestedVersion::Earlier("ff"), "known versions: sha256:bbb")]
#[case::nothing(RequestedVersion::Earlier(""), "has no version \"\"")]
#[case::ambiguous(RequestedVersion::Earlier("aaaa"), "matches several versions")]
#[case::no_digest(RequestedVersion::Digest("sha256:abc"), "64 hexadecimal digits")]
#[case::tag(RequestedVersion::Digest("latest"), "64 hexadecimal digits")]
fn unknown_version_error_lists_known_ones(
    #[case] wanted: RequestedVersion<'_>,
    #[case] part: &str,
) {
    let message = version(&variant(), wanted).unwrap_err().to_string();
    assert!(message.contains(part), "{message}");
}

#[test]
fn image_without_version_cannot_be_pinned() {
    let empty = Variant {
        data_source: "x".to_owned(),
        ..Variant::default()
    };
    let message = version(&empty, RequestedVersion::InUse)
        .unwrap_err()
        .to_string();
    assert!(message.contains("--digest"), "{message}");
    // The uid of a cloned PVC is not a digest that a policy can pin.
    let cloned = Variant {
        digest: Some("uid:0123".to_owned()),
        ..empty
    };
    assert!(version(&cloned, RequestedVersion::InUse).is_err());
}

#[test]
fn written_pin_is_read_by_policy() {
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
    // Settings of other images stay; this one has no settings left.
    assert_eq!(spec.images.len(), 1);
    assert_eq!(spec.images[0].name, "other");
    assert_eq!(without(&spec, &image, "amd64"), spec.images);
}

#[test]
fn old_http_version_must_be_kept() {
    let mut file = Variant {
        url: Some("https://example.com/fedora.qcow2".to_owned()),
        ..variant()
    };
    let message = version(&file, RequestedVersion::Back(1))
        .unwrap_err()
        .to_string();
    assert!(message.contains("no other version is kept"), "{message}");
    assert_eq!(version(&file, RequestedVersion::InUse), Ok(digest('b')));
    file.newest = Some(digest('e'));
    let newest = digest('e');
    assert_eq!(
        version(&file, RequestedVersion::Digest(&newest)),
        Ok(digest('e'))
    );
    file.kept = vec![digest('a')];
    assert_eq!(version(&file, RequestedVersion::Back(1)), Ok(digest('a')));
    let message = version(&file, RequestedVersion::Back(2))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains(&format!("kept versions: {}", digest('a'))),
        "{message}"
    );
}
