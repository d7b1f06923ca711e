//! Chooses an image from an index, with the reason.
//!
//! ```text
//! Index + Matcher --survey--> attempts, the best first     (one index, nothing fetched)
//!                   Search --> documents to fetch ... --> the image, or why there is none
//!                Discovery --> documents to fetch ... --> all images and their platforms
//! ```
//!
//! Entries are tried in containerd's order: those with a platform by rank, equal ones in the order of
//! the index, then those without one, whose config has to be read. Nested indexes are opened when their
//! turn comes. Entries that are not images are skipped.

mod discovery;
mod search;
#[cfg(test)]
mod tests;
mod walk;

use crate::digest::Digest;
use crate::document::{Descriptor, Index, NoImage};
use crate::matcher::{Matcher, Rank, Unfit};
use crate::media::Kind;
use crate::platform::Platform;

pub use discovery::{Discovery, DiscoveryStep, Listing};
pub use search::{Found, Search, SearchStep, Why};
pub use walk::{Fetch, Image, MAX_DEPTH, MAX_FETCHES, PlatformMismatch};

/// Upper bound of platforms listed in an error.
const MAX_LISTED: usize = 16;

/// The candidates of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey<'a> {
    /// Entries that may match, best first.
    pub attempts: Vec<Attempt<'a>>,
    /// Entries that do not match, in the order of the index.
    pub refused: Vec<Refused<'a>>,
}

/// An entry that may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// Its position in the index.
    pub position: usize,
    /// The entry.
    pub entry: &'a Descriptor,
    /// What has to be fetched to decide.
    pub next: Next,
    /// Its rank, if it states a platform.
    pub rank: Option<Rank>,
}

/// What has to be fetched for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Nothing: it is an image with a known platform.
    Take,
    /// The document itself: it is another index, or of unknown type.
    Open,
    /// Its manifest and config: it states no platform.
    ReadConfig,
}

/// An entry that does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<'a> {
    /// Its position in the index.
    pub position: usize,
    /// The entry.
    pub entry: &'a Descriptor,
    /// Why it does not match.
    pub why: Refusal,
}

/// Why an entry does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is not an image.
    NoImage(NoImage),
    /// Its platform does not match.
    Unfit(Unfit),
}

/// Why there is no matching image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMatch {
    /// The index contains no image.
    #[error(
        "choosing an image for {wanted}: the index has none; {skipped} entries are attestations or artifacts"
    )]
    Empty {
        /// The requested platform.
        wanted: Platform,
        /// The number of entries that are not images.
        skipped: usize,
    },
    /// The images are for other platforms.
    #[error("choosing an image for {wanted}: the index has none, all are for {nearest}; it has {}", listed(.available))]
    NotFound {
        /// The requested platform.
        wanted: Platform,
        /// Why the closest one does not match.
        nearest: Unfit,
        /// The available platforms, sorted and unique.
        available: Vec<Platform>,
    },
    /// It is a single image for another platform.
    #[error("choosing an image for {wanted}: this is not an index, but one image for {found}")]
    NotAnIndex {
        /// The requested platform.
        wanted: Platform,
        /// The platform in its config.
        found: Platform,
        /// Why it does not match.
        why: Unfit,
    },
    /// It is not an image.
    #[error(
        "choosing an image for {wanted}: this is not an image but an artifact of type {artifact}"
    )]
    NotAnImage {
        /// The requested platform.
        wanted: Platform,
        /// Its artifact type.
        artifact: String,
    },
    /// A required document is missing in the registry.
    #[error(
        "choosing an image for {wanted}: the registry does not have {missing}, which the index lists"
    )]
    Unavailable {
        /// The requested platform.
        wanted: Platform,
        /// The first missing document.
        missing: Digest,
    },
    /// Indexes are nested too deeply, or too many documents would have to be read.
    #[error(
        "choosing an image for {wanted}: none was found in {MAX_FETCHES} documents and {MAX_DEPTH} nested indexes, which are the most that are read"
    )]
    TooMuch {
        /// The requested platform.
        wanted: Platform,
    },
}

impl NoMatch {
    /// The reason for conditions and metrics.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Empty { .. } => "EmptyIndex",
            Self::NotFound { nearest, .. } => nearest.category(),
            Self::NotAnIndex { .. } => "NotAnIndex",
            Self::NotAnImage { .. } => "NotAnImage",
            Self::Unavailable { .. } => "ManifestUnavailable",
            Self::TooMuch { .. } => "IndexTooLarge",
        }
    }
}

fn listed(available: &[Platform]) -> String {
    let mut shown: Vec<String> = available
        .iter()
        .take(MAX_LISTED)
        .map(ToString::to_string)
        .collect();
    let more = available.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

/// Ranks the entries of one index. Without a matcher all images match, in the order of the index.
pub fn survey<'a>(index: &'a Index, matcher: Option<&Matcher>) -> Survey<'a> {
    let mut survey = Survey {
        attempts: Vec::new(),
        refused: Vec::new(),
    };
    for (position, entry) in index.manifests.iter().enumerate() {
        match attempt(position, entry, matcher) {
            Ok(attempt) => survey.attempts.push(attempt),
            Err(why) => survey.refused.push(Refused {
                position,
                entry,
                why,
            }),
        }
    }
    if matcher.is_some() {
        // The sort is stable: of equals the first in the index wins.
        survey
            .attempts
            // Entries without a platform last, as in containerd (`core/images/image.go`): their config has to be
            // fetched, and a stated match makes that unnecessary.
            .sort_by_key(|attempt| (attempt.rank.is_none(), attempt.rank));
    }
    survey
}

fn attempt<'a>(
    position: usize,
    entry: &'a Descriptor,
    matcher: Option<&Matcher>,
) -> Result<Attempt<'a>, Refusal> {
    if let Some(why) = entry.no_image() {
        return Err(Refusal::NoImage(why));
    }
    let platform = entry.stated_platform();
    let rank = match (matcher, platform) {
        (Some(matcher), Some(platform)) => Some(matcher.judge(platform).map_err(Refusal::Unfit)?),
        _ => None,
    };
    let next = match (entry.media_type.kind(), platform) {
        (Kind::Manifest, Some(_)) => Next::Take,
        (Kind::Manifest, None) => Next::ReadConfig,
        // An entry of unknown type is opened even if it states a platform: it may be an index.
        _ => Next::Open,
    };
    Ok(Attempt {
        position,
        entry,
        next,
        rank,
    })
}

impl Survey<'_> {
    /// The entry to try first, or why there is none.
    pub fn best(&self, matcher: &Matcher) -> Result<&Attempt<'_>, NoMatch> {
        self.attempts.first().ok_or_else(|| {
            let mut misses = Misses::default();
            misses.add(self);
            misses.verdict(matcher.wanted())
        })
    }
}

/// The entries that did not match.
#[derive(Debug, Clone, Default)]
struct Misses {
    nearest: Option<Unfit>,
    available: Vec<Platform>,
    skipped: usize,
}

impl Misses {
    fn add(&mut self, survey: &Survey<'_>) {
        for refused in &survey.refused {
            match (&refused.why, refused.entry.stated_platform()) {
                (Refusal::Unfit(why), Some(platform)) => self.unfit(why, platform),
                _ => self.no_image(),
            }
        }
    }

    fn unfit(&mut self, why: &Unfit, platform: &Platform) {
        self.nearest = self.nearest.take().max(Some(why.clone()));
        self.available.push(platform.clone());
    }

    fn no_image(&mut self) {
        self.skipped = self.skipped.saturating_add(1);
    }

    fn verdict(mut self, wanted: &Platform) -> NoMatch {
        let wanted = wanted.clone();
        match self.nearest {
            Some(nearest) => {
                self.available.sort_unstable();
                self.available.dedup();
                NoMatch::NotFound {
                    wanted,
                    nearest,
                    available: self.available,
                }
            }
            None => NoMatch::Empty {
                wanted,
                skipped: self.skipped,
            },
        }
    }
}
