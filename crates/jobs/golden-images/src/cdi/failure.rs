//! Named reasons for failed imports, and their backoff.
//!
//! Upstream reports most of these as text on a DataVolume, or not at all. The texts of its importer
//! are recognised, so that reasons are the same with either importer.

#[cfg(test)]
mod tests;

use std::fmt;

use api::golden::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::time::format_time;

use crate::action::{MetadataValues, annotation};
use crate::conditions::whole;
use crate::policy::Backoff;

/// Why an import or a poll failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The image index has no manifest for the architecture.
    ArchitectureNotFound,
    /// The image has a single manifest, for another architecture.
    NotAnIndex,
    /// A node has to pull, and no node has the architecture.
    NoMatchingNode,
    /// The registry rejects the credentials.
    PullUnauthorized,
    /// The registry does not have the image.
    ImageNotFound,
    /// The registry answers that there are too many requests.
    RateLimited,
    /// The registry cannot be reached, or returns server errors.
    RegistryUnavailable,
    /// The content does not match its digest or checksum.
    DigestMismatch,
    /// The PVC is too small for the disk.
    TooSmall,
    /// The image contains no disk.
    NoDisk,
    /// The disk cannot be read.
    InvalidDisk,
    /// The image is a bootable container, which has to be converted to a disk first.
    BootableContainer,
    /// The disk is for another architecture than declared.
    ArchitectureMismatch,
    /// The importer pod cannot be scheduled.
    Unschedulable,
    /// No PVC name can be derived from the digest.
    InvalidDigest,
    /// Cloning the source is not permitted.
    NotAuthorized,
    /// The kind of the source is not installed.
    KindNotInstalled,
    /// Any other failure.
    ImportFailed,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 18] = [
        Self::ArchitectureNotFound,
        Self::NotAnIndex,
        Self::NoMatchingNode,
        Self::PullUnauthorized,
        Self::ImageNotFound,
        Self::RateLimited,
        Self::RegistryUnavailable,
        Self::DigestMismatch,
        Self::TooSmall,
        Self::NoDisk,
        Self::InvalidDisk,
        Self::BootableContainer,
        Self::ArchitectureMismatch,
        Self::Unschedulable,
        Self::InvalidDigest,
        Self::NotAuthorized,
        Self::KindNotInstalled,
        Self::ImportFailed,
    ];

    /// The reason in conditions and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ArchitectureNotFound => "ArchitectureNotFound",
            Self::NotAnIndex => "NotAnIndex",
            Self::NoMatchingNode => "NoMatchingNode",
            Self::PullUnauthorized => "PullUnauthorized",
            Self::ImageNotFound => "ImageNotFound",
            Self::RateLimited => "RateLimited",
            Self::RegistryUnavailable => "RegistryUnavailable",
            Self::DigestMismatch => "DigestMismatch",
            Self::TooSmall => "TooSmall",
            Self::NoDisk => "NoDisk",
            Self::InvalidDisk => "InvalidDisk",
            Self::BootableContainer => "BootableContainer",
            Self::ArchitectureMismatch => "ArchitectureMismatch",
            Self::Unschedulable => "Unschedulable",
            Self::InvalidDigest => "InvalidDigest",
            Self::NotAuthorized => "NotAuthorized",
            Self::KindNotInstalled => "KindNotInstalled",
            Self::ImportFailed => "ImportFailed",
        }
    }

    /// Parses a reason.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }

    /// The reason for the pull error of a container runtime. Containerd answers `not found` for
    /// both a missing image and a missing platform, so the platform message is checked first.
    pub fn of_pull(message: &str) -> Self {
        let text = message.to_ascii_lowercase();
        match Self::of_message(message) {
            _ if text.contains("no match for platform in manifest") => Self::ArchitectureNotFound,
            Self::ImportFailed if text.contains("authorization failed") => Self::PullUnauthorized,
            Self::ImportFailed if text.contains("not found") => Self::ImageNotFound,
            other => other,
        }
    }

    /// The reason for the error text of an importer.
    pub fn of_message(message: &str) -> Self {
        let text = message.to_ascii_lowercase();
        let contains_any = |words: &[&str]| words.iter().any(|word| text.contains(word));
        // The first match counts. Errors of the containers/image library and of CDI's importer
        // (pkg/importer/transport.go) are wrapped, so precise texts come before those of the
        // transport that the same message may contain.
        match () {
            () if contains_any(&[
                "no image found in image index",
                "no image found in manifest list",
            ]) =>
            {
                Self::ArchitectureNotFound
            }
            () if contains_any(&["doesn't match requested architecture"]) => Self::NotAnIndex,
            () if contains_any(&[
                "is larger than the reported available",
                "no space left on device",
                "disk quota exceeded",
                "file largest block is bigger than maxblock",
                "too small to contain",
            ]) =>
            {
                Self::TooSmall
            }
            () if contains_any(&[
                "unauthorized",
                "authentication required",
                "access denied",
                "denied:",
            ]) =>
            {
                Self::PullUnauthorized
            }
            () if contains_any(&["toomanyrequests", "too many requests"]) => Self::RateLimited,
            () if contains_any(&["digest did not match", "digest mismatch", "checksum"]) => {
                Self::DigestMismatch
            }
            () if contains_any(&["manifest unknown", "name unknown", "repository not found"]) => {
                Self::ImageNotFound
            }
            () if contains_any(&["bootc image detected"]) => Self::BootableContainer,
            () if contains_any(&[
                "failed to find vm disk image file",
                "directory is empty",
                "image directory does not exist",
                "more than one file",
                "contains another directory",
                "invalid container image",
            ]) =>
            {
                Self::NoDisk
            }
            () if contains_any(&["invalid format", "backing file"]) => Self::InvalidDisk,
            () if contains_any(&["cannot be scheduled"]) => Self::Unschedulable,
            () if contains_any(&[
                "connection refused",
                "connection reset",
                "no such host",
                "i/o timeout",
                "service unavailable",
                "bad gateway",
                "unexpected eof",
                "tls handshake",
            ]) =>
            {
                Self::RegistryUnavailable
            }
            () => Self::ImportFailed,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed import or poll.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The reason.
    pub reason: Reason,
    /// The message.
    pub message: String,
}

impl Failure {
    /// A failure with a reason and a message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// The failures in a row, as recorded in annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryState {
    /// Their number.
    pub failures: u32,
    /// When the next attempt is due.
    pub next: Timestamp,
    /// The reason of the last one.
    pub reason: Reason,
}

impl RetryState {
    /// Reads the annotations of an object.
    pub fn read(meta: &ObjectMeta) -> Option<Self> {
        let failures = annotation(meta, names::FAILURES)?.parse().ok()?;
        let next = annotation(meta, names::NEXT_RETRY)?.parse().ok()?;
        let reason = annotation(meta, names::FAILURE_REASON).and_then(Reason::parse);
        Some(Self {
            failures,
            next,
            // A reason of a later version, after a downgrade.
            reason: reason.unwrap_or(Reason::ImportFailed),
        })
    }

    /// The state after one more failure.
    pub fn after(before: Option<Self>, reason: Reason, at: Timestamp, backoff: &Backoff) -> Self {
        let failures = before.map_or(0, |it| it.failures).saturating_add(1);
        let next = at.checked_add(backoff.after(failures));
        Self {
            failures,
            next: whole(next.unwrap_or(Timestamp::MAX)),
            reason,
        }
    }

    /// The annotations that record it; `None` removes them.
    pub fn annotations(trouble: Option<&Self>) -> MetadataValues<'static> {
        [
            (names::FAILURES, trouble.map(|it| it.failures.to_string())),
            (names::NEXT_RETRY, trouble.map(|it| format_time(it.next))),
            (
                names::FAILURE_REASON,
                trouble.map(|it| it.reason.as_str().to_owned()),
            ),
        ]
        .into_iter()
        .collect()
    }
}
