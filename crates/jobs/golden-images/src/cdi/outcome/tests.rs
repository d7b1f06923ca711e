use rstest::rstest;

use super::*;

fn report() -> Report {
    Report {
        content: Some("sha256:1".to_owned()),
        sniffed: ["arm64".to_owned()].into(),
        labels: [("a.kubevirt.io/b".to_owned(), "c".to_owned())].into(),
    }
}

#[test]
fn outcome_round_trips() {
    let text = Outcome::succeeded(report()).write();
    assert_eq!(Outcome::read(0, &text), State::Succeeded(report()));
    let failure = Failure::new(Reason::TooSmall, "a \"small\" volume");
    let text = Outcome::failed(&failure).write();
    assert_eq!(Outcome::read(1, &text), State::Failed(failure));
}

#[test]
fn outcome_fits_into_termination_message() {
    let failure = Failure::new(Reason::ImportFailed, "\"ß".repeat(5000));
    let text = Outcome::failed(&failure).write();
    assert!(text.len() <= MAX_TERMINATION_MESSAGE, "{}", text.len());
    let State::Failed(read) = Outcome::read(1, &text) else {
        panic!("{text}");
    };
    assert!(
        failure
            .message
            .starts_with(read.message.trim_end_matches('…'))
    );
    let many = (0..200).map(|it| (format!("a.kubevirt.io/{it}"), "x".repeat(63)));
    let outcome = Outcome {
        labels: many.collect(),
        ..Outcome::succeeded(report())
    };
    let text = outcome.write();
    assert!(text.len() <= MAX_TERMINATION_MESSAGE, "{}", text.len());
    let State::Succeeded(read) = Outcome::read(0, &text) else {
        panic!("{text}");
    };
    assert_eq!(read.content, report().content);
}

#[rstest]
#[case::upstream(
    1,
    "Unable to process data: no image found in image index for architecture \"absent\"",
    Reason::ArchitectureNotFound
)]
#[case::killed(137, "", Reason::ImportFailed)]
#[case::scratch(0, r#"{"scratchSpaceRequired":true}"#, Reason::ImportFailed)]
#[case::checksum(
    0,
    r#"{"message":"checksum mismatch: expected 1, got 2"}"#,
    Reason::DigestMismatch
)]
#[case::odd(0, r#"{"reason":"NoDisk"}"#, Reason::NoDisk)]
#[case::later_version(
    1,
    r#"{"reason":"Unheard","message":"unauthorized"}"#,
    Reason::PullUnauthorized
)]
fn messages_of_other_importers_are_recognised(
    #[case] code: i32,
    #[case] text: &str,
    #[case] reason: Reason,
) {
    let State::Failed(failure) = Outcome::read(code, text) else {
        panic!("{text}");
    };
    assert_eq!(failure.reason, reason);
    assert!(!failure.message.is_empty());
}

#[rstest]
#[case("INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE=fedora", Some(("instancetype.kubevirt.io/default-preference", "fedora")))]
#[case("A_B_KUBEVIRT_IO_X_Y=v", Some(("a.b.kubevirt.io/x-y", "v")))]
#[case("PATH=/bin", None)]
#[case("A_KUBEVIRT_IO_B=not a label", None)]
#[case("_KUBEVIRT_IO_B=v", None)]
fn image_environment_declares_labels(#[case] entry: &str, #[case] expected: Option<(&str, &str)>) {
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(labels_of([entry]), expected.into_iter().collect());
}
