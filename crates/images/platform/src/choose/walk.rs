//! Walks an index and nested indexes, requesting the documents it needs.
//!
//! The walk fetches nothing itself: the caller does. Requests are bounded in depth and number, and no
//! document is requested twice, so the walk terminates for any input.

use std::collections::{BTreeMap, BTreeSet};

use super::{Misses, Next, survey};
use crate::digest::Digest;
use crate::document::{Descriptor, Document, ImageConfig, MAX_ENTRIES, Manifest};
use crate::matcher::{Matcher, Rank, Unfit};
use crate::media::MediaType;
use crate::platform::Platform;

/// The maximum nesting of indexes, including the outermost.
// Tools write one level, rarely two. A document cannot contain its own digest, so an index nests without end only if
// a registry generates one.
pub const MAX_DEPTH: usize = 8;

/// The maximum number of documents requested in one walk.
// One admission request may cause this many; placement needs one for an index with platforms. An index of a thousand
// entries without platforms would otherwise be a way to make Medley flood a registry.
pub const MAX_FETCHES: usize = 128;

/// The maximum number of pending entries.
const MAX_PENDING: usize = 4 * MAX_ENTRIES;

/// A document to fetch and pass to the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// An index or a manifest.
    Document(Box<Descriptor>),
    /// The config of an image.
    Config(Box<Descriptor>),
}

/// An image found by a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of its manifest.
    pub digest: Digest,
    /// The media type of its manifest.
    pub media_type: MediaType,
    /// Its platform: from the index entry, or else from its config.
    pub platform: Platform,
    /// The indexes that lead to it, outermost first. Empty for a single image.
    pub path: Vec<Digest>,
    /// Its position in the last of them.
    pub position: usize,
    /// Its manifest, if it had to be read.
    pub manifest: Option<Box<Manifest>>,
    /// Its config, if it had to be read.
    pub config: Option<Box<ImageConfig>>,
}

/// Index and config state different platforms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "checking image {digest}: its index says that it is for {stated}, but its config says {found}"
)]
pub struct PlatformMismatch {
    /// The digest of the manifest.
    pub digest: Digest,
    /// The platform in the index entry.
    pub stated: Platform,
    /// The platform in the config.
    pub found: Platform,
}

impl Image {
    /// Compares operating system and architecture of index entry and config. Variants are often given
    /// in only one of them.
    pub fn check(&self, config: &ImageConfig) -> Result<(), PlatformMismatch> {
        let (stated, found) = (self.platform.normalised(), config.platform.normalised());
        let same_os = stated.os.is_empty() || stated.os == found.os;
        if same_os && stated.architecture == found.architecture {
            return Ok(());
        }
        Err(PlatformMismatch {
            digest: self.digest.clone(),
            stated: self.platform.clone(),
            found: config.platform.clone(),
        })
    }
}

/// The next step of a walk.
#[derive(Debug)]
pub(super) enum Event {
    /// A document is needed.
    Fetch(Fetch),
    /// An image and its rank.
    Image(Box<Image>, Option<Rank>),
    /// The walk is complete.
    End,
}

/// An entry to be visited.
#[derive(Debug, Clone)]
struct Pending {
    entry: Descriptor,
    path: Vec<Digest>,
    position: usize,
    next: Next,
    rank: Option<Rank>,
}

/// The last request.
#[derive(Debug, Clone)]
enum PendingRequest {
    Nothing,
    Document(Box<Pending>),
    Config(Box<Pending>, Box<Manifest>),
}

/// A problem met on the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WalkProblem {
    /// The single document is not an image but this artifact.
    Artifact(String),
    /// The single image does not match.
    Alone(Platform, Unfit),
    /// A document is missing.
    Unavailable(Digest),
    /// A limit was reached.
    TooMuch,
}

/// A walk through an index.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    matcher: Option<Matcher>,
    /// Entries to be visited; the next one is last.
    pending: Vec<Pending>,
    asked: PendingRequest,
    seen: BTreeSet<Digest>,
    fetches: usize,
    pub(super) misses: Misses,
    pub(super) trouble: Option<WalkProblem>,
}

impl Walk {
    pub(super) fn new(matcher: Option<Matcher>) -> Self {
        Self {
            matcher,
            pending: Vec::new(),
            asked: PendingRequest::Nothing,
            seen: BTreeSet::new(),
            fetches: 0,
            misses: Misses::default(),
            trouble: None,
        }
    }

    /// Takes the document of the tag.
    pub(super) fn begin(&mut self, digest: Digest, document: Document) -> Event {
        self.seen.insert(digest.clone());
        let entry = Descriptor {
            media_type: match &document {
                Document::Index(index) => index.media_type.clone(),
                Document::Manifest(manifest) => manifest.media_type.clone(),
            },
            digest,
            size: 0,
            platform: None,
            artifact_type: String::new(),
            annotations: BTreeMap::new(),
        };
        self.asked = PendingRequest::Document(Box::new(Pending {
            entry,
            path: Vec::new(),
            position: 0,
            next: Next::Open,
            rank: None,
        }));
        self.document(document)
    }

    /// Takes the requested document. If none was requested, the last request is repeated.
    pub(super) fn document(&mut self, document: Document) -> Event {
        let pending = match std::mem::replace(&mut self.asked, PendingRequest::Nothing) {
            PendingRequest::Document(pending) => pending,
            other => return self.again(other),
        };
        match document {
            Document::Index(index) => {
                let waiting = self.pending.len().saturating_add(index.manifests.len());
                if pending.path.len() >= MAX_DEPTH || waiting > MAX_PENDING {
                    self.note(WalkProblem::TooMuch);
                    return self.next();
                }
                let mut path = pending.path;
                path.push(pending.entry.digest);
                let survey = survey(&index, self.matcher.as_ref());
                self.misses.add(&survey);
                let found = survey.attempts.iter().rev().map(|attempt| Pending {
                    entry: attempt.entry.clone(),
                    path: path.clone(),
                    position: attempt.position,
                    next: attempt.next,
                    rank: attempt.rank,
                });
                self.pending.extend(found);
                self.next()
            }
            Document::Manifest(manifest) => {
                if let Some(artifact) = manifest.artifact() {
                    if pending.path.is_empty() {
                        self.note(WalkProblem::Artifact(artifact.to_owned()));
                    }
                    self.misses.no_image();
                    return self.next();
                }
                // The entry may lack the type of a manifest but state a platform.
                if let Some(platform) = pending.entry.stated_platform().cloned() {
                    let rank = pending.rank;
                    return image(*pending, platform, Some(manifest), None, rank);
                }
                let config = Box::new(manifest.config.clone());
                self.asked = PendingRequest::Config(pending, manifest);
                Event::Fetch(Fetch::Config(config))
            }
        }
    }

    /// Takes the requested config. If none was requested, the last request is repeated.
    pub(super) fn config(&mut self, config: ImageConfig) -> Event {
        let (pending, manifest) = match std::mem::replace(&mut self.asked, PendingRequest::Nothing)
        {
            PendingRequest::Config(pending, manifest) => (pending, manifest),
            other => return self.again(other),
        };
        let platform = config.platform.clone();
        let rank = match &self.matcher {
            None => None,
            Some(matcher) => match matcher.judge(&platform) {
                Ok(rank) => Some(rank),
                Err(why) => {
                    if pending.path.is_empty() {
                        self.note(WalkProblem::Alone(platform.clone(), why.clone()));
                    }
                    self.misses.unfit(&why, &platform);
                    return self.next();
                }
            },
        };
        let config = Some(Box::new(config));
        image(*pending, platform, Some(manifest), config, rank)
    }

    /// Continues without the requested document: it is missing or unusable.
    pub(super) fn unavailable(&mut self) -> Event {
        match std::mem::replace(&mut self.asked, PendingRequest::Nothing) {
            PendingRequest::Nothing => {}
            PendingRequest::Document(pending) => {
                self.note(WalkProblem::Unavailable(pending.entry.digest));
            }
            PendingRequest::Config(_, manifest) => {
                self.note(WalkProblem::Unavailable(manifest.config.digest));
            }
        }
        self.next()
    }

    /// The next image, or the document needed to find it.
    pub(super) fn next(&mut self) -> Event {
        while let Some(pending) = self.pending.pop() {
            if pending.next == Next::Take
                && let Some(platform) = pending.entry.stated_platform().cloned()
            {
                let rank = pending.rank;
                return image(pending, platform, None, None, rank);
            }
            // After `Take`: an image may be listed under two platforms and counts for
            // both, but no document is fetched twice.
            if !self.seen.insert(pending.entry.digest.clone()) {
                continue;
            }
            if self.fetches >= MAX_FETCHES {
                self.note(WalkProblem::TooMuch);
                self.pending.clear();
                return Event::End;
            }
            self.fetches = self.fetches.saturating_add(1);
            let fetch = Fetch::Document(Box::new(pending.entry.clone()));
            self.asked = PendingRequest::Document(Box::new(pending));
            return Event::Fetch(fetch);
        }
        Event::End
    }

    /// The caller passed a document that was not requested: repeat the request.
    fn again(&mut self, asked: PendingRequest) -> Event {
        let fetch = match &asked {
            PendingRequest::Nothing => return self.next(),
            PendingRequest::Document(pending) => Fetch::Document(Box::new(pending.entry.clone())),
            PendingRequest::Config(_, manifest) => Fetch::Config(Box::new(manifest.config.clone())),
        };
        self.asked = asked;
        Event::Fetch(fetch)
    }

    /// Records a problem; the first one is reported.
    fn note(&mut self, trouble: WalkProblem) {
        // The first one: it is the entry that matched best, and what follows is usually its consequence.
        self.trouble.get_or_insert(trouble);
    }
}

fn image(
    pending: Pending,
    platform: Platform,
    manifest: Option<Box<Manifest>>,
    config: Option<Box<ImageConfig>>,
    rank: Option<Rank>,
) -> Event {
    let image = Image {
        digest: pending.entry.digest,
        media_type: pending.entry.media_type,
        platform,
        path: pending.path,
        position: pending.position,
        manifest,
        config,
    };
    Event::Image(Box::new(image), rank)
}
