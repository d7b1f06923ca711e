//! Finds out what there is: all images of an index, and what they are for.

use std::collections::BTreeMap;

use super::walk::{Event, Fetch, Image, Trouble, Walk};
use crate::digest::Digest;
use crate::document::{Document, ImageConfig};
use crate::matcher::{Matcher, Rank};

/// A walk through all of an index, step by step: whoever discovers fetches what it asks for.
#[derive(Debug, Clone)]
pub struct Discovery {
    walk: Walk,
    images: Vec<Image>,
}

/// What comes next in a discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiscoveryStep {
    /// Fetch this, and give it to [`Discovery::document`] or [`Discovery::config`]. If it is not there,
    /// call [`Discovery::unavailable`].
    Fetch(Fetch),
    /// This is all.
    Listed(Listing),
}

/// All images that there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The images, in the order of the index.
    pub images: Vec<Image>,
    /// How many entries are no images.
    pub skipped: usize,
    /// Whether everything was seen: not so if something was missing, or too much.
    pub complete: bool,
}

impl Discovery {
    /// A discovery of everything.
    pub fn new() -> Self {
        Self {
            walk: Walk::new(None),
            images: Vec::new(),
        }
    }

    /// Begins with what stands under the tag, and its digest.
    pub fn begin(&mut self, digest: Digest, document: Document) -> DiscoveryStep {
        let event = self.walk.begin(digest, document);
        self.step(event)
    }

    /// Goes on with the document that was asked for.
    pub fn document(&mut self, document: Document) -> DiscoveryStep {
        let event = self.walk.document(document);
        self.step(event)
    }

    /// Goes on with the config that was asked for.
    pub fn config(&mut self, config: ImageConfig) -> DiscoveryStep {
        let event = self.walk.config(config);
        self.step(event)
    }

    /// Goes on without what was asked for.
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
                            Some(Trouble::Unavailable(_) | Trouble::TooMuch)
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
    /// The best image for every architecture of an operating system, by [`Matcher::architecture`]. Images
    /// that say no operating system count as of this one.
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
