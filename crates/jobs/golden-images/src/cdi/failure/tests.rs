use jiff::SignedDuration;
use rstest::rstest;

use super::*;

/// Texts of upstream's importer, verbatim.
#[rstest]
#[case(
    "Unable to process data: Unable to transfer source data to scratch space: Failed to read registry image: Error retrieving image: choosing image instance: no image found in image index for architecture \"absent\", variant \"\", OS \"linux\"",
    Reason::ArchitectureNotFound
)]
#[case(
    "Error validating architecture: manifest image architecture: \"amd64\" doesn't match requested architecture: \"arm64\"",
    Reason::NotAnIndex
)]
#[case("DataVolume too small to contain image", Reason::TooSmall)]
#[case(
    "virtual image size 10 is larger than the reported available storage 5. A larger PVC is required",
    Reason::TooSmall
)]
#[case("write /data/disk.img: no space left on device", Reason::TooSmall)]
#[case(
    "failed to pull image: unauthorized: access to the requested resource is not authorized",
    Reason::PullUnauthorized
)]
#[case(
    "Failed to find VM disk image file in the container image",
    Reason::NoDisk
)]
#[case("bootc image detected: containers.bootc=1", Reason::BootableContainer)]
#[case("Importer pod cannot be scheduled", Reason::Unschedulable)]
#[case("Invalid format iso for image x", Reason::InvalidDisk)]
#[case("dial tcp: connection refused", Reason::RegistryUnavailable)]
#[case("toomanyrequests: slow down", Reason::RateLimited)]
#[case("blob digest did not match", Reason::DigestMismatch)]
#[case("something else", Reason::ImportFailed)]
fn importer_texts_map_to_reasons(#[case] message: &str, #[case] expected: Reason) {
    assert_eq!(Reason::of_message(message), expected);
}

#[test]
fn reasons_round_trip_and_are_valid_condition_reasons() {
    for reason in Reason::ALL {
        assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        let complaints = machinery::names::is_valid_condition_reason(reason.as_str());
        assert_eq!(complaints, Vec::<String>::new());
    }
    assert_eq!(Reason::parse("Other"), None);
}

#[test]
fn failures_are_counted_in_annotations() {
    let backoff = Backoff {
        first: SignedDuration::from_secs(30),
        most: SignedDuration::from_secs(100),
    };
    let at = Timestamp::from_second(1000).unwrap();
    let mut trouble = None;
    let mut next = Vec::new();
    for _ in 0..3 {
        let now = RetryState::after(trouble, Reason::RateLimited, at, &backoff);
        next.push(now.next.as_second());
        let wanted = RetryState::annotations(Some(&now));
        let meta = ObjectMeta {
            annotations: Some(
                wanted
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.unwrap()))
                    .collect(),
            ),
            ..ObjectMeta::default()
        };
        assert_eq!(RetryState::read(&meta), Some(now));
        trouble = Some(now);
    }
    assert_eq!(next, [1030, 1060, 1100]);
    assert!(RetryState::annotations(None).values().all(Option::is_none));
    assert_eq!(RetryState::read(&ObjectMeta::default()), None);
}
