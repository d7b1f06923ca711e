//! Asking registries and web servers: once for an image, whatever architectures are imported from it.
//!
//! All DataImportCrons of one URL share a poll. Its answer has a digest for every platform, so that
//! each of them knows whether its own image changed.

#[cfg(test)]
mod tests;
mod way;

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
pub use way::{Stream, Way, elsewhere, not_allowed, of_claim, way};

/// What is asked, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// Where credentials and certificates are.
    pub namespace: String,
    /// The image.
    pub url: String,
    /// The secret with credentials.
    pub secret: Option<String>,
    /// The config map with certificates.
    pub certificates: Option<String>,
    /// What is known besides if it is a file on a web server, and not an image in a registry.
    pub web: Option<Web>,
}

/// What is known of a file on a web server besides its address.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Web {
    /// What its bytes have to be.
    pub checksum: Option<String>,
    /// Headers that are sent along.
    pub headers: Vec<String>,
    /// Secrets with more of them.
    pub secret_headers: Vec<String>,
}

impl Question {
    /// What has to be asked for what a source names; nothing for image streams, volumes and others.
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

/// The questions of all DataImportCrons that somebody has to be asked, and who wants to know.
pub fn questions<'a>(
    crons: impl IntoIterator<Item = &'a DataImportCron>,
) -> BTreeMap<Question, Vec<Named>> {
    let mut all: BTreeMap<Question, Vec<Named>> = BTreeMap::new();
    for cron in crons {
        if let Some(question) = question(cron) {
            all.entry(question)
                .or_default()
                .push(name_of(&cron.metadata));
        }
    }
    all
}

/// What has to be asked for a DataImportCron; nothing for image streams and volumes.
pub fn question(cron: &DataImportCron) -> Option<Question> {
    let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
    Question::of(namespace, cron.spec.template.spec.source.as_ref()?)
}

/// What a registry has under a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The digest of what the name stands for: an index, or the one manifest.
    pub digest: String,
    /// Whether it is an index.
    pub is_index: bool,
    /// By architecture. A manifest that is no index has one, or none if that was not looked up.
    pub platforms: BTreeMap<String, Manifest>,
}

/// An image for one architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Its digest.
    pub digest: String,
    /// What the disk holds, if the image says it: unlike the digest, it does not change when the
    /// same disk is packed again.
    pub content: Option<String>,
}

/// What a web server says of a file. A file has no digest, but what it says changes with the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File<'a> {
    /// Where it is.
    pub address: &'a str,
    /// The entity tag.
    pub etag: Option<&'a str>,
    /// When it was last changed.
    pub modified: Option<&'a str>,
    /// How many bytes it has.
    pub length: Option<u64>,
    /// Whether another host has it than the one that was asked: one of several, perhaps.
    pub moved: bool,
    /// What its bytes have to be, if somebody says it.
    pub checksum: Option<String>,
}

impl File<'_> {
    /// The version, as that of an image.
    ///
    /// What tells versions apart is the checksum if there is one, else the entity tag. Behind a name
    /// that leads to one of several hosts, every host has tags of its own, but the same time and
    /// length: those count there, and where there is no tag. None of them says anything of files
    /// elsewhere, which may have been put there at the same time: the address belongs to it.
    pub fn image(&self) -> Result<Image, Failure> {
        let dated = self.modified.map(|modified| {
            let length = self.length.map(|length| length.to_string());
            let length = length.unwrap_or_default();
            format!("{} modified {modified} {length}", self.address)
        });
        let tagged = self.etag.map(|etag| {
            // That bytes are not all the same is no reason to import: what they mean is.
            format!("{} etag {}", self.address, etag.trim_start_matches("W/"))
        });
        let checksum = self.checksum.as_deref().map(str::to_ascii_lowercase);
        let told = match checksum {
            // The best name there is.
            Some(checksum) if checksum.starts_with("sha256:") => {
                return Ok(Image::of_file(checksum));
            }
            Some(checksum) => Some(format!("checksum {checksum}")),
            None if self.moved => dated.or(tagged),
            None => tagged.or(dated),
        };
        let Some(told) = told else {
            return Err(Failure::new(
                Reason::ImportFailed,
                "the server says neither ETag nor Last-Modified, so that versions cannot be told apart; a checksum of the file would do",
            ));
        };
        Ok(Image::of_file(digest(&told)))
    }
}

/// `sha256:` of a text: versions are named like images, so that volumes can be named after them, and
/// pins can hold on to them.
fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What there is for a DataImportCron.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What to import.
    pub digest: String,
    /// The index that it was found in.
    pub index: Option<String>,
    /// What the disk holds.
    pub content: Option<String>,
    /// The architectures that the image has.
    pub architectures: BTreeSet<String>,
    /// Where an image stream says that the image is.
    pub reference: Option<String>,
}

/// A question that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polled {
    /// When.
    pub at: Timestamp,
    /// What came of it.
    pub answer: Result<Found, Failure>,
}

impl Image {
    /// A file: it has no architectures to choose from.
    fn of_file(digest: String) -> Self {
        Self {
            digest,
            is_index: false,
            platforms: BTreeMap::new(),
        }
    }

    /// What there is for an architecture. Without one, it is as it comes.
    pub fn pick(&self, architecture: Option<&str>) -> Result<Found, Failure> {
        let architectures: BTreeSet<String> = self.platforms.keys().cloned().collect();
        let listed = || architectures.iter().cloned().collect::<Vec<_>>().join(", ");
        let Some(wanted) = architecture.filter(|name| !name.is_empty()) else {
            let only = self.platforms.values().next().filter(|_| !self.is_index);
            return Ok(Found {
                digest: self.digest.clone(),
                index: None,
                content: only.and_then(|only| only.content.clone()),
                architectures,
                reference: None,
            });
        };
        match self.platforms.get(wanted) {
            Some(manifest) => Ok(Found {
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

/// When to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Now.
    Now,
    /// Then.
    At(Timestamp),
    /// Not at all: somebody else says what to import.
    Never,
}

impl When {
    /// The earlier of two: a shared question is asked when the first one wants to know.
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

/// When to ask again, by a schedule. The question decides by how much later than scheduled, so that
/// not everything happens in one minute, and all who share it ask at once.
pub fn when(
    schedule: &str,
    last: Option<Timestamp>,
    now: Timestamp,
    delay: SignedDuration,
) -> When {
    let Ok(schedule) = Schedule::parse(schedule) else {
        return When::Never;
    };
    let Some(last) = last else {
        return When::Now;
    };
    // The schedules of CDI run by the clocks of its pods, which are UTC, unless they say otherwise.
    let zone = schedule
        .zone()
        .and_then(|name| TimeZoneDatabase::bundled().get(name).ok())
        .unwrap_or(TimeZone::UTC);
    let slot = last.checked_sub(delay).unwrap_or(last);
    let next = schedule.next(slot, &zone);
    match next.and_then(|next| next.checked_add(delay).ok()) {
        None => When::Never,
        Some(next) if next <= now => When::Now,
        Some(next) => When::At(next),
    }
}

/// By how much a question is asked later than scheduled.
pub fn delay(question: &str, seed: u64, most: SignedDuration) -> SignedDuration {
    let Ok(most) = u64::try_from(most.as_secs()) else {
        return SignedDuration::ZERO;
    };
    if most == 0 {
        return SignedDuration::ZERO;
    }
    let hash = fnv1a_64(question.as_bytes()) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let seconds = i64::try_from(hash % most).unwrap_or_default();
    SignedDuration::from_secs(seconds)
}
