//! Revisions: what is written, and what is read.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn fedora() -> &'static Image {
    image("fedora").unwrap()
}

#[test]
fn a_revision_says_what_is_new() {
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
fn what_makes_no_sense_is_named(#[case] text: &str, #[case] expected: &str) {
    let error = Revisions::read(fedora(), text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("fedora"), "{error}");
}

#[test]
fn the_oldest_revisions_are_forgotten() {
    let mut all = Revisions::first(fedora());
    for _ in 0..100 {
        all.publish(fedora(), Publication::Rebuild).unwrap();
    }
    assert_eq!(all.newest_first().count(), KEPT);
    assert_eq!(all.newest().number, 101);
    let more = format!("{}102: amd64=1 arm64=1 s390x=1\n", all.text());
    let error = Revisions::read(fedora(), &more).unwrap_err();
    assert!(matches!(error, HoldingsError::TooMany { .. }), "{error}");
}

#[test]
fn an_image_is_published_for_what_it_is_made_for() {
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
fn what_makes_no_sense_stays_as_it_was() {
    let mut told = Vec::new();
    let mut read = |data: &[(&str, &str)], before: Option<&Holdings>| {
        let data = data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Holdings::read(&data.collect(), before, |error| {
            told.push(error.to_string());
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
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("no image \"vista\""), "{told:?}");
}

proptest! {
    #[test]
    fn what_was_written_is_read_again(what in prop::collection::vec(0..5u8, 0..40)) {
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
    fn nothing_that_is_written_does_harm(text in "[0-9a-z=:. \n]{0,200}") {
        let _ = Revisions::read(fedora(), &text);
    }
}
