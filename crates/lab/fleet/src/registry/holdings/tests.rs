//! Revisions: formatting and parsing.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn fedora() -> &'static Image {
    image("fedora").unwrap()
}

#[test]
fn publishing_bumps_the_changed_versions() {
    let mut all = Revisions::first(fedora());
    for what in [
        Publication::One(Architecture::Arm64),
        Publication::Rebuild,
        Publication::All,
        Publication::One(Architecture::Amd64),
    ] {
        all.publish(fedora(), what).unwrap();
    }
    assert_eq!(
        all.text(),
        "1: amd64=1 arm64=1 s390x=1\n\
         2: amd64=1 arm64=2 s390x=1\n\
         3: amd64=1.1 arm64=2.1 s390x=1.1\n\
         4: amd64=2 arm64=3 s390x=2\n\
         5: amd64=3 arm64=3 s390x=2\n"
    );
    assert_eq!(all.newest().number, 5);
}

#[rstest]
#[case::no_number("x: amd64=1 arm64=1 s390x=1", "not of the form")]
#[case::zero("0: amd64=1 arm64=1 s390x=1", "not of the form")]
#[case::no_version("1: amd64 arm64=1 s390x=1", "not of the form")]
#[case::zero_version("1: amd64=0 arm64=1 s390x=1", "not of the form")]
#[case::zero_build("1: amd64=1.0 arm64=1 s390x=1", "not of the form")]
#[case::too_large("1: amd64=99999999999 arm64=1 s390x=1", "not of the form")]
#[case::unknown("1: amd64=1 arm64=1 vax=1", "unknown architecture \"vax\"")]
#[case::missing("1: amd64=1 arm64=1", "has amd64, arm64, but the image is made for")]
#[case::backwards(
    "2: amd64=1 arm64=1 s390x=1\n2: amd64=1 arm64=1 s390x=1",
    "revision 2 is not greater"
)]
fn malformed_revisions_are_reported(#[case] text: &str, #[case] expected: &str) {
    let error = Revisions::read(fedora(), text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("fedora"), "{error}");
}

#[test]
fn oldest_revisions_are_dropped() {
    let mut all = Revisions::first(fedora());
    for _ in 0..100 {
        all.publish(fedora(), Publication::Rebuild).unwrap();
    }
    assert_eq!(all.newest_first().count(), MAX_REVISIONS);
    assert_eq!(all.newest().number, 101);
    let more = format!("{}102: amd64=1 arm64=1 s390x=1\n", all.text());
    let error = Revisions::read(fedora(), &more).unwrap_err();
    assert!(matches!(error, HoldingsError::TooMany { .. }), "{error}");
}

#[test]
fn publishing_checks_the_architecture() {
    let leap = image("opensuse-leap").unwrap();
    let mut all = Revisions::first(leap);
    let error = all
        .publish(leap, Publication::One(Architecture::S390x))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "image opensuse-leap is not made for s390x: amd64, arm64 are accepted"
    );
    assert_eq!(all, Revisions::first(leap));
}

#[test]
fn malformed_revisions_keep_the_previous_content() {
    let mut errors = Vec::new();
    let mut read = |data: &[(&str, &str)], before: Option<&Holdings>| {
        let data = data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Holdings::read(&data.collect(), before, |error| {
            errors.push(error.to_string());
        })
    };
    let second = "2: amd64=1 arm64=2 s390x=1";
    let good = read(&[("fedora", second)], None);
    let bad = read(
        &[("fedora", "nonsense"), ("vista", "1: amd64=1")],
        Some(&good),
    );
    assert_eq!(good, bad);
    assert_eq!(bad.of(fedora()).unwrap().newest().number, 2);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[1].contains("image \"vista\" not found"),
        "{errors:?}"
    );
}

proptest! {
    #[test]
    fn revisions_survive_serialization(what in prop::collection::vec(0..5u8, 0..40)) {
        let mut all = Revisions::first(fedora());
        for what in what {
            let what = match what {
                0 => Publication::All,
                1 => Publication::Rebuild,
                other => Publication::One(Architecture::ALL[usize::from(other) - 2]),
            };
            all.publish(fedora(), what).unwrap();
        }
        prop_assert_eq!(Revisions::read(fedora(), &all.text()), Ok(all));
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "[0-9a-z=:. \n]{0,200}") {
        let _ = Revisions::read(fedora(), &text);
    }
}
