//! Searches the image that matches best.

use super::NoMatch;
use super::walk::{Event, Fetch, Image, Walk, WalkProblem};
use crate::digest::Digest;
use crate::document::{Document, ImageConfig};
use crate::matcher::{Matcher, Rank};
use crate::platform::Platform;

/// A search through an index, step by step: the caller fetches the requested documents.
///
/// ```
/// use platform::choose::{Search, SearchStep};
/// use platform::{Digest, Matcher, document};
///
/// let index = br#"{ "schemaVersion": 2, "manifests": [{
///     "mediaType": "application/vnd.oci.image.manifest.v1+json",
///     "digest": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
///     "size": 7,
///     "platform": { "os": "linux", "architecture": "arm64", "variant": "v8" }
/// }] }"#;
/// let mut search = Search::new(Matcher::architecture("linux", "aarch64"));
/// let document = document::read(index, None)?;
/// match search.begin(Digest::sha256(index), document) {
///     SearchStep::Found(found) => assert_eq!(found.image.platform.to_string(), "linux/arm64/v8"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), platform::DocumentError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Search {
    walk: Walk,
    wanted: Platform,
}

/// The next step of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchStep {
    /// Fetch this, and pass it to [`Search::document`] or [`Search::config`]. If it does not exist,
    /// call [`Search::unavailable`].
    Fetch(Fetch),
    /// The image.
    Found(Box<Found>),
    /// No image matches.
    Missing(Box<NoMatch>),
}

/// The image found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The image.
    pub image: Image,
    /// Why it was chosen.
    pub why: Why,
    /// Its rank.
    pub rank: Rank,
}

/// Why an image was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// Its index entry states the requested platform.
    Stated,
    /// Its index entry states a compatible platform, and there is no better one.
    Fallback,
    /// Its index entry states no platform, no other entry matches, and its config does.
    Config,
    /// There is no index, but a single image that matches.
    OnlyOne,
}

impl Search {
    /// A search for the best match.
    pub fn new(matcher: Matcher) -> Self {
        Self {
            wanted: matcher.wanted().clone(),
            walk: Walk::new(Some(matcher)),
        }
    }

    /// Begins with the document of the tag, and its digest.
    pub fn begin(&mut self, digest: Digest, document: Document) -> SearchStep {
        let event = self.walk.begin(digest, document);
        self.step(event)
    }

    /// Continues with the requested document.
    pub fn document(&mut self, document: Document) -> SearchStep {
        let event = self.walk.document(document);
        self.step(event)
    }

    /// Continues with the requested config.
    pub fn config(&mut self, config: ImageConfig) -> SearchStep {
        let event = self.walk.config(config);
        self.step(event)
    }

    /// Continues without the requested document.
    pub fn unavailable(&mut self) -> SearchStep {
        let event = self.walk.unavailable();
        self.step(event)
    }

    fn step(&mut self, event: Event) -> SearchStep {
        match event {
            Event::Fetch(fetch) => SearchStep::Fetch(fetch),
            Event::Image(image, Some(rank)) => {
                let why = match (&image.config, image.path.is_empty(), rank.step()) {
                    (_, true, _) => Why::OnlyOne,
                    (Some(_), false, _) => Why::Config,
                    (None, false, 0) => Why::Stated,
                    (None, false, _) => Why::Fallback,
                };
                SearchStep::Found(Box::new(Found {
                    image: *image,
                    why,
                    rank,
                }))
            }
            // A walk with a matcher ranks every image.
            Event::Image(_, None) | Event::End => SearchStep::Missing(Box::new(self.verdict())),
        }
    }

    fn verdict(&self) -> NoMatch {
        let wanted = self.wanted.clone();
        match self.walk.trouble.clone() {
            None => self.walk.misses.clone().verdict(&self.wanted),
            Some(WalkProblem::Artifact(artifact)) => NoMatch::NotAnImage { wanted, artifact },
            Some(WalkProblem::Alone(found, why)) => NoMatch::NotAnIndex { wanted, found, why },
            Some(WalkProblem::Unavailable(missing)) => NoMatch::Unavailable { wanted, missing },
            Some(WalkProblem::TooMuch) => NoMatch::TooMuch { wanted },
        }
    }
}
