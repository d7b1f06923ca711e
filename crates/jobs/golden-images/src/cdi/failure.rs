//! What can go wrong with an import, by name, and when it is tried again.
//!
//! Upstream tells most of these as text on a DataVolume, or nowhere. The texts of its importer are
//! recognised, so that the names are the same whoever imports.

#[cfg(test)]
mod tests;

use std::fmt;

use api::golden::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::time::format_time;

use crate::action::{Wanted, annotation};
use crate::conditions::whole;
use crate::policy::Backoff;

/// Why an import or a poll failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The image is not there for the architecture.
    ArchitectureNotFound,
    /// The image is for one architecture, and it is another one.
    NotAnIndex,
    /// No node has the architecture, and a node has to pull.
    NoMatchingNode,
    /// The registry wants other credentials.
    PullUnauthorized,
    /// There is no such image.
    ImageNotFound,
    /// The registry has had enough.
    RateLimited,
    /// The registry cannot be reached, or does not work.
    RegistryUnavailable,
    /// What came is not what was asked for.
    DigestMismatch,
    /// The volume is too small for the disk.
    TooSmall,
    /// There is no disk in the image.
    NoDisk,
    /// The disk cannot be read.
    InvalidDisk,
    /// The image is one that a disk has to be made from first.
    BootableContainer,
    /// The disk is for another architecture.
    ArchitectureMismatch,
    /// The pod cannot be scheduled.
    Unschedulable,
    /// The digest cannot name a volume.
    InvalidDigest,
    /// Nobody allows that to be copied.
    NotAuthorized,
    /// The cluster does not know the kind that the source is of.
    KindNotInstalled,
    /// Something else.
    ImportFailed,
}

impl Reason {
    /// All of them.
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

    /// The name.
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

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }

    /// What a container runtime means that cannot pull an image. Containerd says `not found` of what
    /// is not there, be it the image or one for the architecture of its node.
    pub fn of_pull(message: &str) -> Self {
        let text = message.to_ascii_lowercase();
        match Self::of_message(message) {
            _ if text.contains("no match for platform in manifest") => Self::ArchitectureNotFound,
            Self::ImportFailed if text.contains("authorization failed") => Self::PullUnauthorized,
            Self::ImportFailed if text.contains("not found") => Self::ImageNotFound,
            other => other,
        }
    }

    /// What the text of an importer means.
    pub fn of_message(message: &str) -> Self {
        let text = message.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match () {
            () if says(&[
                "no image found in image index",
                "no image found in manifest list",
            ]) =>
            {
                Self::ArchitectureNotFound
            }
            () if says(&["doesn't match requested architecture"]) => Self::NotAnIndex,
            () if says(&[
                "is larger than the reported available",
                "no space left on device",
                "disk quota exceeded",
                "file largest block is bigger than maxblock",
                "too small to contain",
            ]) =>
            {
                Self::TooSmall
            }
            () if says(&[
                "unauthorized",
                "authentication required",
                "access denied",
                "denied:",
            ]) =>
            {
                Self::PullUnauthorized
            }
            () if says(&["toomanyrequests", "too many requests"]) => Self::RateLimited,
            () if says(&["digest did not match", "digest mismatch", "checksum"]) => {
                Self::DigestMismatch
            }
            () if says(&["manifest unknown", "name unknown", "repository not found"]) => {
                Self::ImageNotFound
            }
            () if says(&["bootc image detected"]) => Self::BootableContainer,
            () if says(&[
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
            () if says(&["invalid format", "backing file"]) => Self::InvalidDisk,
            () if says(&["cannot be scheduled"]) => Self::Unschedulable,
            () if says(&[
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

/// Something that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Why, by name.
    pub reason: Reason,
    /// Why, in a sentence.
    pub message: String,
}

impl Failure {
    /// A failure.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// Failures in a row, as an object remembers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trouble {
    /// How many.
    pub failures: u32,
    /// When it is tried again.
    pub next: Timestamp,
    /// Why the last one failed.
    pub reason: Reason,
}

impl Trouble {
    /// What an object remembers.
    pub fn read(meta: &ObjectMeta) -> Option<Self> {
        let failures = annotation(meta, names::FAILURES)?.parse().ok()?;
        let next = annotation(meta, names::NEXT_RETRY)?.parse().ok()?;
        let reason = annotation(meta, names::FAILURE_REASON).and_then(Reason::parse);
        Some(Self {
            failures,
            next,
            reason: reason.unwrap_or(Reason::ImportFailed),
        })
    }

    /// One more failure.
    pub fn after(before: Option<Self>, reason: Reason, at: Timestamp, backoff: &Backoff) -> Self {
        let failures = before.map_or(0, |it| it.failures).saturating_add(1);
        let next = at.checked_add(backoff.after(failures));
        Self {
            failures,
            next: whole(next.unwrap_or(Timestamp::MAX)),
            reason,
        }
    }

    /// The annotations by which it is remembered; none, by which it is forgotten.
    pub fn annotations(trouble: Option<&Self>) -> Wanted<'static> {
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
