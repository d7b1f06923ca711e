//! Chooses from an index: which of its images is meant, and why.
//!
//! ```text
//! Index + Matcher --survey--> attempts, the best first     (one index, nothing fetched)
//!                   Search --> fetch this, fetch that ... --> the image, or why there is none
//!                Discovery --> fetch this, fetch that ... --> all images and their platforms
//! ```
//!
//! Entries are tried as containerd tries them: those that say a platform by how good it is, equals in
//! the order of the index, and then those that say none, since only their config tells. Indexes in
//! indexes are opened when their turn comes. Entries that are no images are left out.

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

/// The most platforms that an error lists.
const MAX_LISTED: usize = 16;

/// What there is in one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey<'a> {
    /// Entries that may be it, the best first.
    pub attempts: Vec<Attempt<'a>>,
    /// Entries that are not, in the order of the index.
    pub refused: Vec<Refused<'a>>,
}

/// An entry that may be it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt<'a> {
    /// Where in the index it stands.
    pub position: usize,
    /// The entry.
    pub entry: &'a Descriptor,
    /// What has to be done to know.
    pub next: Next,
    /// How good it is, if it says so itself.
    pub rank: Option<Rank>,
}

/// What has to be done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Nothing: it is an image, and its platform is known.
    Take,
    /// It is another index, or nobody knows: it has to be read.
    Open,
    /// It says no platform: its manifest and config have to be read.
    ReadConfig,
}

/// An entry that is not it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<'a> {
    /// Where in the index it stands.
    pub position: usize,
    /// The entry.
    pub entry: &'a Descriptor,
    /// Why not.
    pub why: Refusal,
}

/// Why an entry is not it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is no image.
    NoImage(NoImage),
    /// It is for something else.
    Unfit(Unfit),
}

/// Why there is no image for what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMatch {
    /// There is no image at all.
    #[error(
        "choosing an image for {wanted}: the index has none; {skipped} entries are attestations or artifacts"
    )]
    Empty {
        /// What was wanted.
        wanted: Platform,
        /// How many entries are no images.
        skipped: usize,
    },
    /// There are images, but they are for something else.
    #[error("choosing an image for {wanted}: the index has none, all are for {nearest}; it has {}", listed(.available))]
    NotFound {
        /// What was wanted.
        wanted: Platform,
        /// What was wrong with the one that came nearest.
        nearest: Unfit,
        /// Platforms that there are, in order and once.
        available: Vec<Platform>,
    },
    /// It is one image and no index, and it is for something else.
    #[error("choosing an image for {wanted}: this is not an index, but one image for {found}")]
    NotAnIndex {
        /// What was wanted.
        wanted: Platform,
        /// What the config says.
        found: Platform,
        /// What is wrong with it.
        why: Unfit,
    },
    /// It is something else than an image.
    #[error("choosing an image for {wanted}: this is no image, but an artifact of type {artifact}")]
    NotAnImage {
        /// What was wanted.
        wanted: Platform,
        /// What it is instead.
        artifact: String,
    },
    /// Something that had to be read to know was not there.
    #[error(
        "choosing an image for {wanted}: the registry does not have {missing}, which the index lists"
    )]
    Unavailable {
        /// What was wanted.
        wanted: Platform,
        /// The first that was missing.
        missing: Digest,
    },
    /// Indexes are nested too deeply, or too much would have to be read.
    #[error(
        "choosing an image for {wanted}: none was found in {MAX_FETCHES} documents and {MAX_DEPTH} nested indexes, which are the most that are read"
    )]
    TooMuch {
        /// What was wanted.
        wanted: Platform,
    },
}

impl NoMatch {
    /// A word for conditions and metrics.
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

/// Looks through one index. Without a matcher everything that is an image is good, in the order of the
/// index.
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

/// What was seen that was not it.
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
