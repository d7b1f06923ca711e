//! Lookup of content by name: generated on first use, and the same every time.
//!
//! Manifests and configs are small and kept. Of the layers only the last few are kept; others are
//! generated again on request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use platform::{Digest, MediaType};

use super::catalog::{IMAGES, Image, repository};
use super::component::StaticImage;
use super::holdings::{Holdings, Revision, Revisions};
use super::image::{Layer, LayerMetadata, Published, Recipe, publish};

/// Number of cached layers.
const CACHED_LAYERS: usize = 16;

/// A manifest or index as it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) digest: Digest,
    pub(super) media_type: MediaType,
    pub(super) bytes: Bytes,
}

/// A reference to a manifest: a tag, or a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Name {
    Tag(String),
    Digest(Digest),
}

/// All content the registry can serve.
pub(super) struct Library {
    /// Images that never change.
    shelf: Vec<StaticImage>,
    holdings: Mutex<Arc<Holdings>>,
    made: Mutex<Generated>,
}

/// Content generated so far.
#[derive(Default)]
struct Generated {
    published: HashMap<(&'static str, Revision), Arc<Published>>,
    metadata: HashMap<Recipe, LayerMetadata>,
    /// The most recently used layers, newest first.
    layers: VecDeque<(Recipe, Layer)>,
}

impl Library {
    pub(super) fn new(holdings: Holdings, shelf: Vec<StaticImage>) -> Self {
        Self {
            shelf,
            holdings: Mutex::new(Arc::new(holdings)),
            made: Mutex::default(),
        }
    }

    /// The current revisions.
    pub(super) fn holdings(&self) -> Arc<Holdings> {
        Arc::clone(&self.holdings.lock())
    }

    /// Replaces the current revisions.
    pub(super) fn hold(&self, holdings: Holdings) {
        *self.holdings.lock() = Arc::new(holdings);
    }

    /// All repositories, in order.
    pub(super) fn repositories(&self) -> Vec<&'static str> {
        let mut all: Vec<&str> = IMAGES.iter().map(|image| image.repository).collect();
        all.extend(self.shelf.iter().map(|it| it.repository));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The tags of a repository, in order; `None` for an unknown repository. Every revision has a
    /// tag of its own, besides the moving one.
    pub(super) fn tags(&self, name: &str) -> Option<Vec<String>> {
        let holdings = self.holdings();
        let mut tags = Vec::new();
        for image in repository(name) {
            tags.push(image.tag.to_owned());
            let revisions = holdings.of(image)?.newest_first();
            tags.extend(revisions.map(|it| revision_tag(image, it)));
        }
        let shelved = self.shelved(name).filter_map(|it| it.tag.clone());
        tags.extend(shelved);
        tags.sort_unstable();
        (!tags.is_empty()).then_some(tags)
    }

    /// The unchanging images of a repository.
    fn shelved(&self, of: &str) -> impl Iterator<Item = &StaticImage> {
        self.shelf.iter().filter(move |it| it.repository == of)
    }

    fn shelved_document(&self, of: &str, name: &Name) -> Option<Document> {
        self.shelved(of).find_map(|shelved| {
            let wanted = match name {
                Name::Digest(digest) => digest,
                Name::Tag(tag) if shelved.tag.as_ref() == Some(tag) => {
                    shelved.image.root.as_ref()?
                }
                Name::Tag(_) => return None,
            };
            shelved.image.find(wanted)
        })
    }

    /// A manifest or index. It may have to be generated, which takes a moment.
    pub(super) fn document(&self, of: &str, name: &Name) -> std::io::Result<Option<Document>> {
        if let Some(shelved) = self.shelved_document(of, name) {
            return Ok(Some(shelved));
        }
        let holdings = self.holdings();
        for image in repository(of) {
            let Some(revisions) = holdings.of(image) else {
                continue;
            };
            for revision in revisions.newest_first() {
                let wanted = match name {
                    Name::Tag(tag) => {
                        let newest = revision == revisions.newest();
                        if !(newest && tag == image.tag || *tag == revision_tag(image, revision)) {
                            continue;
                        }
                        self.published(image, revision)?.root.clone()
                    }
                    Name::Digest(digest) => Some(digest.clone()),
                };
                let published = self.published(image, revision)?;
                let found = wanted.and_then(|wanted| published.find(&wanted));
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// A config, an attestation or a layer. It may have to be generated, which takes a moment.
    pub(super) fn blob(&self, of: &str, wanted: &Digest) -> std::io::Result<Option<Bytes>> {
        let mut shelved = self.shelved(of).flat_map(|it| &it.image.blobs);
        if let Some((_, bytes)) = shelved.find(|(digest, _)| digest == wanted) {
            return Ok(Some(bytes.clone()));
        }
        let holdings = self.holdings();
        for image in repository(of) {
            let revisions = holdings.of(image).map(Revisions::newest_first);
            for revision in revisions.into_iter().flatten() {
                let published = self.published(image, revision)?;
                let blob = published.blobs.iter().find(|(digest, _)| digest == wanted);
                if let Some((_, bytes)) = blob {
                    return Ok(Some(bytes.clone()));
                }
                let layer = published.layers.iter().find(|(digest, _)| digest == wanted);
                if let Some((_, recipe)) = layer {
                    let layer = self.made.lock().layer(*recipe)?;
                    return Ok(Some(layer.bytes));
                }
            }
        }
        Ok(None)
    }

    /// A revision of an image, generated on first use.
    fn published(
        &self,
        image: &'static Image,
        revision: &Revision,
    ) -> std::io::Result<Arc<Published>> {
        let key = (image.name, revision.clone());
        // Held while a revision is generated: concurrent pulls of it wait for one result.
        let mut made = self.made.lock();
        if let Some(published) = made.published.get(&key) {
            return Ok(Arc::clone(published));
        }
        let published = publish(image, revision, |recipe| made.metadata(recipe))?;
        let published = Arc::new(published);
        // Content of dropped revisions is evicted, so that memory is bounded.
        let holdings = self.holdings();
        made.published
            .retain(|(name, old), _| is_held(&holdings, name, old));
        made.published.insert(key, Arc::clone(&published));
        let used: Vec<Recipe> = made
            .published
            .values()
            .flat_map(|it| it.layers.iter().map(|(_, recipe)| *recipe))
            .collect();
        made.metadata.retain(|recipe, _| used.contains(recipe));
        Ok(published)
    }
}

impl Published {
    fn find(&self, wanted: &Digest) -> Option<Document> {
        let mut documents = self.documents.iter();
        let (digest, media_type, bytes) = documents.find(|(digest, ..)| digest == wanted)?;
        Some(Document {
            digest: digest.clone(),
            media_type: media_type.clone(),
            bytes: bytes.clone(),
        })
    }
}

fn is_held(holdings: &Holdings, name: &str, revision: &Revision) -> bool {
    let image = super::catalog::image(name);
    let revisions = image.and_then(|image| holdings.of(image));
    revisions.is_some_and(|all| all.newest_first().any(|it| it == revision))
}

/// The tag of a revision: `9-2`.
fn revision_tag(image: &Image, revision: &Revision) -> String {
    format!("{}-{}", image.tag, revision.number)
}

impl Generated {
    fn metadata(&mut self, recipe: Recipe) -> std::io::Result<LayerMetadata> {
        if let Some(metadata) = self.metadata.get(&recipe) {
            return Ok(metadata.clone());
        }
        let metadata = self.layer(recipe)?.metadata;
        self.metadata.insert(recipe, metadata.clone());
        Ok(metadata)
    }

    fn layer(&mut self, recipe: Recipe) -> std::io::Result<Layer> {
        if let Some(at) = self.layers.iter().position(|(it, _)| *it == recipe)
            && let Some(kept) = self.layers.remove(at)
        {
            let layer = kept.1.clone();
            self.layers.push_front(kept);
            return Ok(layer);
        }
        let layer = recipe.make()?;
        self.layers.push_front((recipe, layer.clone()));
        self.layers.truncate(CACHED_LAYERS);
        Ok(layer)
    }
}

/// The tags after `last`, for pagination.
pub(super) fn page(
    all: Vec<String>,
    after: Option<&str>,
    most: Option<usize>,
) -> (Vec<String>, bool) {
    let mut rest: Vec<String> = all
        .into_iter()
        .filter(|it| after.is_none_or(|after| it.as_str() > after))
        .collect();
    let more = most.is_some_and(|most| rest.len() > most);
    rest.truncate(most.unwrap_or(usize::MAX));
    (rest, more)
}

#[cfg(test)]
mod tests;
