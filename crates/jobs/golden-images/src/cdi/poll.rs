//! Polling registries and web servers: once per image, however many architectures are imported from
//! it.
//!
//! All DataImportCrons of one URL share a poll. The answer has a digest per platform, so that each
//! DataImportCron can tell whether its own manifest changed; CDI compares the index digest.

mod method;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use api::cdi::{DataImportCron, DataVolumeSource, Named};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use machinery::cron::Schedule;
use sha2::{Digest as _, Sha256};

use super::failure::{Failure, Reason};
use crate::action::name_of;
use crate::names::fnv1a_64;
pub use method::{PollMethod, Stream, elsewhere, not_allowed, of_claim, way};

/// A poll request: the address and its credentials.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PollQuery {
    /// The namespace of the secret and the config map.
    pub namespace: String,
    /// The URL of the image or file.
    pub url: String,
    /// The secret with credentials.
    pub secret: Option<String>,
    /// The config map with certificates.
    pub certificates: Option<String>,
    /// Set if the source is a file on a web server instead of an image in a registry.
    pub web: Option<Web>,
}

/// The options of a file on a web server.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Web {
    /// The expected checksum.
    pub checksum: Option<String>,
    /// Request headers.
    pub headers: Vec<String>,
    /// Secrets with further request headers.
    pub secret_headers: Vec<String>,
}

impl PollQuery {
    /// The request for a source; `None` for image streams, PVCs and others.
    pub fn of(namespace: &str, source: &DataVolumeSource) -> Option<Self> {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(http) = &source.http {
            return Some(Self {
                namespace: namespace.to_owned(),
                url: filled(&http.url)?,
                secret: filled(&http.secret_ref),
                certificates: filled(&http.cert_config_map),
                web: Some(Web {
                    checksum: filled(&http.checksum),
                    headers: http.extra_headers.clone(),
                    secret_headers: http.secret_extra_headers.clone(),
                }),
            });
        }
        let registry = source.registry.as_ref()?;
        Some(Self {
            namespace: namespace.to_owned(),
            url: filled(&registry.url)?,
            secret: filled(&registry.secret_ref),
            certificates: filled(&registry.cert_config_map),
            web: None,
        })
    }
}

/// The requests of all DataImportCrons that need one, each with the DataImportCrons that share it.
pub fn questions<'a>(
    crons: impl IntoIterator<Item = &'a DataImportCron>,
) -> BTreeMap<PollQuery, Vec<Named>> {
    let mut all: BTreeMap<PollQuery, Vec<Named>> = BTreeMap::new();
    for cron in crons {
        if let Some(question) = question(cron) {
            all.entry(question)
                .or_default()
                .push(name_of(&cron.metadata));
        }
    }
    all
}

/// The request of a DataImportCron; `None` for image streams and PVCs.
pub fn question(cron: &DataImportCron) -> Option<PollQuery> {
    let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
    PollQuery::of(namespace, cron.spec.template.spec.source.as_ref()?)
}

/// The answer of a registry for a reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The digest of the reference: of an index, or of the only manifest.
    pub digest: String,
    /// Whether it is an index.
    pub is_index: bool,
    /// The manifests by architecture. A single manifest has one entry, or none if its architecture
    /// was not looked up.
    pub platforms: BTreeMap<String, Manifest>,
}

/// An image for one architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Its digest.
    pub digest: String,
    /// The digest of the disk content, if the image declares it: unlike the manifest digest, it
    /// stays the same when the same disk is packed again.
    pub content: Option<String>,
}

/// The answer of a web server for a file. A file has no digest, but these headers change with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File<'a> {
    /// Its URL.
    pub address: &'a str,
    /// The `ETag` header.
    pub etag: Option<&'a str>,
    /// The `Last-Modified` header.
    pub modified: Option<&'a str>,
    /// The `Content-Length` header.
    pub length: Option<u64>,
    /// Whether the answer came from another host after a redirect, which may be one of several
    /// mirrors.
    pub moved: bool,
    /// The expected checksum, if the source has one.
    pub checksum: Option<String>,
}

impl File<'_> {
    /// The version of the file, in the form of an image.
    ///
    /// Versions differ by the checksum if there is one, else by the entity tag. Behind a redirect
    /// to one of several mirrors, every mirror has its own tags but the same time and length, so
    /// these count there, and where there is no tag. None of them identifies the file, so the URL
    /// is part of the version.
    pub fn image(&self) -> Result<Image, Failure> {
        let dated = self.modified.map(|modified| {
            let length = self.length.map(|length| length.to_string());
            let length = length.unwrap_or_default();
            format!("{} modified {modified} {length}", self.address)
        });
        let tagged = self.etag.map(|etag| {
            // A weak tag marks equivalent content, which is not worth an import.
            format!("{} etag {}", self.address, etag.trim_start_matches("W/"))
        });
        let checksum = self.checksum.as_deref().map(str::to_ascii_lowercase);
        let version = match checksum {
            // A SHA-256 checksum is a digest already.
            Some(checksum) if checksum.starts_with("sha256:") => {
                return Ok(Image::of_file(checksum));
            }
            Some(checksum) => Some(format!("checksum {checksum}")),
            None if self.moved => dated.or(tagged),
            None => tagged.or(dated),
        };
        let Some(version) = version else {
            return Err(Failure::new(
                Reason::ImportFailed,
                "the server sends neither ETag nor Last-Modified, so versions cannot be distinguished; set a checksum in the source",
            ));
        };
        Ok(Image::of_file(digest(&version)))
    }
}

/// `sha256:` of a text: versions have the form of image digests, so that PVC names and pins work
/// the same way.
fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The version for a DataImportCron.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolledVersion {
    /// The digest to import.
    pub digest: String,
    /// The digest of the index that lists it.
    pub index: Option<String>,
    /// The digest of the disk content.
    pub content: Option<String>,
    /// The architectures of the image.
    pub architectures: BTreeSet<String>,
    /// The pull reference that an image stream provides.
    pub reference: Option<String>,
}

/// The result of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollResult {
    /// When it was polled.
    pub at: Timestamp,
    /// The version, or the failure.
    pub answer: Result<PolledVersion, Failure>,
}

impl Image {
    /// A file, which has no platforms to choose from.
    fn of_file(digest: String) -> Self {
        Self {
            digest,
            is_index: false,
            platforms: BTreeMap::new(),
        }
    }

    /// The version for an architecture; without one, the reference itself.
    pub fn pick(&self, architecture: Option<&str>) -> Result<PolledVersion, Failure> {
        let architectures: BTreeSet<String> = self.platforms.keys().cloned().collect();
        let listed = || architectures.iter().cloned().collect::<Vec<_>>().join(", ");
        // Without an architecture the index itself is the version, as in CDI: the importer chooses
        // the manifest.
        let Some(wanted) = architecture.filter(|name| !name.is_empty()) else {
            let only = self.platforms.values().next().filter(|_| !self.is_index);
            return Ok(PolledVersion {
                digest: self.digest.clone(),
                index: None,
                content: only.and_then(|only| only.content.clone()),
                architectures,
                reference: None,
            });
        };
        match self.platforms.get(wanted) {
            Some(manifest) => Ok(PolledVersion {
                digest: manifest.digest.clone(),
                index: self.is_index.then(|| self.digest.clone()),
                content: manifest.content.clone(),
                architectures,
                reference: None,
            }),
            None if self.is_index => Err(Failure::new(
                Reason::ArchitectureNotFound,
                format!("the image has no {wanted}; it has {}", listed()),
            )),
            None => Err(Failure::new(
                Reason::NotAnIndex,
                format!(
                    "the image is not an index, and is for {} instead of {wanted}",
                    if architectures.is_empty() {
                        "an unknown architecture".to_owned()
                    } else {
                        listed()
                    }
                ),
            )),
        }
    }
}

/// When to poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPoll {
    /// Immediately.
    Now,
    /// At this time.
    At(Timestamp),
    /// Not at all: without a schedule, another writer sets the digest annotation.
    Never,
}

impl NextPoll {
    /// The earlier of two: a shared request is polled when its first DataImportCron is due.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Now, _) | (_, Self::Now) => Self::Now,
            (Self::At(one), Self::At(other)) => Self::At(one.min(other)),
            (Self::At(at), Self::Never) | (Self::Never, Self::At(at)) => Self::At(at),
            (Self::Never, Self::Never) => Self::Never,
        }
    }
}

/// The time of the next poll by a schedule. The delay depends on the request, so that polls do not
/// all start in the same minute, and DataImportCrons that share a request agree on it.
pub fn when(
    schedule: &str,
    last: Option<Timestamp>,
    now: Timestamp,
    delay: SignedDuration,
) -> NextPoll {
    // The webhook rejects invalid schedules; an older object must not be polled in a loop because
    // of one.
    let Ok(schedule) = Schedule::parse(schedule) else {
        return NextPoll::Never;
    };
    let Some(last) = last else {
        return NextPoll::Now;
    };
    // CDI's schedules follow the clock of its pods, which is UTC, unless they name a time zone.
    let zone = schedule
        .zone()
        .and_then(|name| TimeZoneDatabase::bundled().get(name).ok())
        .unwrap_or(TimeZone::UTC);
    // The delay is added to the schedule, not to the last poll: from poll to poll it would add up.
    let slot = last.checked_sub(delay).unwrap_or(last);
    let next = schedule.next(slot, &zone);
    match next.and_then(|next| next.checked_add(delay).ok()) {
        None => NextPoll::Never,
        Some(next) if next <= now => NextPoll::Now,
        Some(next) => NextPoll::At(next),
    }
}

/// The delay of a request: deterministic jitter from its URL and the cluster.
pub fn delay(question: &str, seed: u64, most: SignedDuration) -> SignedDuration {
    let Ok(most) = u64::try_from(most.as_secs()) else {
        return SignedDuration::ZERO;
    };
    if most == 0 {
        return SignedDuration::ZERO;
    }
    // The multiplier of SplitMix64 spreads seeds that differ in a few bits.
    let hash = fnv1a_64(question.as_bytes()) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let seconds = i64::try_from(hash % most).unwrap_or_default();
    SignedDuration::from_secs(seconds)
}
