//! Lists all images of an index and their platforms.

use std::collections::BTreeMap;

use super::walk::{Event, Fetch, Image, Walk, WalkProblem};
use crate::digest::Digest;
use crate::document::{Document, ImageConfig};
use crate::matcher::{Matcher, Rank};

/// A walk through all of an index, step by step: the caller fetches the requested documents.
#[derive(Debug, Clone)]
pub struct Discovery {
    walk: Walk,
    images: Vec<Image>,
}

/// The next step of a discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiscoveryStep {
    /// Fetch this, and pass it to [`Discovery::document`] or [`Discovery::config`]. If it does not
    /// exist, call [`Discovery::unavailable`].
    Fetch(Fetch),
    /// The result.
    Listed(Listing),
}

/// All images of an index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The images, in the order of the index.
    pub images: Vec<Image>,
    /// The number of entries that are not images.
    pub skipped: usize,
    /// Whether everything was read: false if a document was missing, or a limit was reached.
    pub complete: bool,
}

impl Discovery {
    /// A discovery of all images.
    pub fn new() -> Self {
        Self {
            walk: Walk::new(None),
            images: Vec::new(),
        }
    }

    /// Begins with the document of the tag, and its digest.
    pub fn begin(&mut self, digest: Digest, document: Document) -> DiscoveryStep {
        let event = self.walk.begin(digest, document);
        self.step(event)
    }

    /// Continues with the requested document.
    pub fn document(&mut self, document: Document) -> DiscoveryStep {
        let event = self.walk.document(document);
        self.step(event)
    }

    /// Continues with the requested config.
    pub fn config(&mut self, config: ImageConfig) -> DiscoveryStep {
        let event = self.walk.config(config);
        self.step(event)
    }

    /// Continues without the requested document.
    pub fn unavailable(&mut self) -> DiscoveryStep {
        let event = self.walk.unavailable();
        self.step(event)
    }

    fn step(&mut self, mut event: Event) -> DiscoveryStep {
        loop {
            match event {
                Event::Fetch(fetch) => return DiscoveryStep::Fetch(fetch),
                Event::Image(image, _) => self.images.push(*image),
                Event::End => {
                    return DiscoveryStep::Listed(Listing {
                        images: std::mem::take(&mut self.images),
                        skipped: self.walk.misses.skipped,
                        complete: !matches!(
                            self.walk.trouble,
                            Some(WalkProblem::Unavailable(_) | WalkProblem::TooMuch)
                        ),
                    });
                }
            }
            event = self.walk.next();
        }
    }
}

impl Default for Discovery {
    fn default() -> Self {
        Self::new()
    }
}

impl Listing {
    /// The best image per architecture of an operating system, by [`Matcher::architecture`]. Images
    /// without an operating system count as of this one.
    pub fn by_architecture(&self, os: &str) -> BTreeMap<String, &Image> {
        let mut best: BTreeMap<String, (Rank, &Image)> = BTreeMap::new();
        for image in &self.images {
            let architecture = image.platform.normalised().architecture;
            if architecture.is_empty() {
                continue;
            }
            let Ok(rank) = Matcher::architecture(os, &architecture).judge(&image.platform) else {
                continue;
            };
            match best.get(&architecture) {
                // Of equals the first wins.
                Some((held, _)) if *held <= rank => {}
                _ => {
                    best.insert(architecture, (rank, image));
                }
            }
        }
        best.into_iter()
            .map(|(architecture, (_, image))| (architecture, image))
            .collect()
    }
}
