//! Goes through an index and the indexes in it, asking for what has to be read.
//!
//! The walk reads nothing itself: it says what it needs, and is told. What it asks for is bounded, in
//! depth and in number, and nothing is asked for twice, so that it ends whatever it is told.

use std::collections::{BTreeMap, BTreeSet};

use super::{Misses, Next, survey};
use crate::digest::Digest;
use crate::document::{Descriptor, Document, ImageConfig, MAX_ENTRIES, Manifest};
use crate::matcher::{Matcher, Rank, Unfit};
use crate::media::MediaType;
use crate::platform::Platform;

/// How deep indexes may be nested, the outermost counted.
pub const MAX_DEPTH: usize = 8;

/// How much is asked for in one walk.
pub const MAX_FETCHES: usize = 128;

/// How many entries may wait to be looked at.
const MAX_PENDING: usize = 4 * MAX_ENTRIES;

/// What is to be fetched, and given to the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// An index or a manifest.
    Document(Box<Descriptor>),
    /// The config of an image.
    Config(Box<Descriptor>),
}

/// An image that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The name of its manifest.
    pub digest: Digest,
    /// The type of its manifest.
    pub media_type: MediaType,
    /// What it is for: by its entry in the index, or else by its config.
    pub platform: Platform,
    /// The indexes that lead to it, the outermost first. Empty if it stands alone.
    pub path: Vec<Digest>,
    /// Where in the last of them it stands.
    pub position: usize,
    /// Its manifest, if it had to be read.
    pub manifest: Option<Box<Manifest>>,
    /// Its config, if it had to be read.
    pub config: Option<Box<ImageConfig>>,
}

/// An image is for something else than its index says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "checking image {digest}: its index says that it is for {stated}, but its config says {found}"
)]
pub struct PlatformMismatch {
    /// The manifest.
    pub digest: Digest,
    /// What the entry of the index says.
    pub stated: Platform,
    /// What the config says.
    pub found: Platform,
}

impl Image {
    /// Compares what the index said with what the config says, once that is read: operating system and
    /// architecture. Variants are often said in one place only.
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

/// What comes next.
#[derive(Debug)]
pub(super) enum Event {
    /// Something is needed.
    Fetch(Fetch),
    /// An image was found, and how good it is.
    Image(Box<Image>, Option<Rank>),
    /// There is nothing left.
    End,
}

/// What is still to be looked at.
#[derive(Debug, Clone)]
struct Pending {
    entry: Descriptor,
    path: Vec<Digest>,
    position: usize,
    next: Next,
    rank: Option<Rank>,
}

/// What was asked for last.
#[derive(Debug, Clone)]
enum Asked {
    Nothing,
    Document(Box<Pending>),
    Config(Box<Pending>, Box<Manifest>),
}

/// What went otherwise than it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// What stands alone is no image, but this.
    Artifact(String),
    /// What stands alone is for something else.
    Alone(Platform, Unfit),
    /// Something was not there.
    Unavailable(Digest),
    /// There was too much.
    TooMuch,
}

/// A walk through an index.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    matcher: Option<Matcher>,
    /// What is to be looked at, the next one last.
    pending: Vec<Pending>,
    asked: Asked,
    seen: BTreeSet<Digest>,
    fetches: usize,
    pub(super) misses: Misses,
    pub(super) trouble: Option<Trouble>,
}

impl Walk {
    pub(super) fn new(matcher: Option<Matcher>) -> Self {
        Self {
            matcher,
            pending: Vec::new(),
            asked: Asked::Nothing,
            seen: BTreeSet::new(),
            fetches: 0,
            misses: Misses::default(),
            trouble: None,
        }
    }

    /// Takes what stands under the tag.
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
        self.asked = Asked::Document(Box::new(Pending {
            entry,
            path: Vec::new(),
            position: 0,
            next: Next::Open,
            rank: None,
        }));
        self.document(document)
    }

    /// Takes the document that was asked for. If none was, what was asked for is asked for again.
    pub(super) fn document(&mut self, document: Document) -> Event {
        let pending = match std::mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Document(pending) => pending,
            other => return self.again(other),
        };
        match document {
            Document::Index(index) => {
                let waiting = self.pending.len().saturating_add(index.manifests.len());
                if pending.path.len() >= MAX_DEPTH || waiting > MAX_PENDING {
                    self.note(Trouble::TooMuch);
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
                        self.note(Trouble::Artifact(artifact.to_owned()));
                    }
                    self.misses.no_image();
                    return self.next();
                }
                // It may not have said that it is a manifest, but it did say for what.
                if let Some(platform) = pending.entry.stated_platform().cloned() {
                    let rank = pending.rank;
                    return image(*pending, platform, Some(manifest), None, rank);
                }
                let config = Box::new(manifest.config.clone());
                self.asked = Asked::Config(pending, manifest);
                Event::Fetch(Fetch::Config(config))
            }
        }
    }

    /// Takes the config that was asked for. If none was, what was asked for is asked for again.
    pub(super) fn config(&mut self, config: ImageConfig) -> Event {
        let (pending, manifest) = match std::mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Config(pending, manifest) => (pending, manifest),
            other => return self.again(other),
        };
        let platform = config.platform.clone();
        let rank = match &self.matcher {
            None => None,
            Some(matcher) => match matcher.judge(&platform) {
                Ok(rank) => Some(rank),
                Err(why) => {
                    if pending.path.is_empty() {
                        self.note(Trouble::Alone(platform.clone(), why.clone()));
                    }
                    self.misses.unfit(&why, &platform);
                    return self.next();
                }
            },
        };
        let config = Some(Box::new(config));
        image(*pending, platform, Some(manifest), config, rank)
    }

    /// Goes on without what was asked for: it is not there, or cannot be used.
    pub(super) fn unavailable(&mut self) -> Event {
        match std::mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Nothing => {}
            Asked::Document(pending) => self.note(Trouble::Unavailable(pending.entry.digest)),
            Asked::Config(_, manifest) => {
                self.note(Trouble::Unavailable(manifest.config.digest));
            }
        }
        self.next()
    }

    /// The next image, or what has to be read to find it.
    pub(super) fn next(&mut self) -> Event {
        while let Some(pending) = self.pending.pop() {
            if pending.next == Next::Take
                && let Some(platform) = pending.entry.stated_platform().cloned()
            {
                let rank = pending.rank;
                return image(pending, platform, None, None, rank);
            }
            if !self.seen.insert(pending.entry.digest.clone()) {
                continue;
            }
            if self.fetches >= MAX_FETCHES {
                self.note(Trouble::TooMuch);
                self.pending.clear();
                return Event::End;
            }
            self.fetches = self.fetches.saturating_add(1);
            let fetch = Fetch::Document(Box::new(pending.entry.clone()));
            self.asked = Asked::Document(Box::new(pending));
            return Event::Fetch(fetch);
        }
        Event::End
    }

    /// Somebody gave what was not asked for.
    fn again(&mut self, asked: Asked) -> Event {
        let fetch = match &asked {
            Asked::Nothing => return self.next(),
            Asked::Document(pending) => Fetch::Document(Box::new(pending.entry.clone())),
            Asked::Config(_, manifest) => Fetch::Config(Box::new(manifest.config.clone())),
        };
        self.asked = asked;
        Event::Fetch(fetch)
    }

    /// The first trouble is the one that is told.
    fn note(&mut self, trouble: Trouble) {
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
