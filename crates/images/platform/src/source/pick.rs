//! Picks an image of a layout: an entry of its `index.json`.

use super::Pick;
use crate::digest::Digest;
use crate::document::{Descriptor, Index};
use crate::excerpt::excerpt;

/// The annotation with the name of an image in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// The annotation Docker and containerd add: the full name, where `ref.name` is the tag.
const IMAGE_NAME: &str = "io.containerd.image.name";

/// Upper bound of names listed in an error.
const MAX_LISTED: usize = 16;

/// The picked image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picked<'a> {
    /// One entry: an index or a manifest.
    Entry(&'a Descriptor),
    /// `index.json` itself is the index of one image, whose entries differ by platform.
    Whole,
}

/// Why no image could be picked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickError {
    /// The layout is empty.
    #[error("picking an image of a layout: its index.json lists none")]
    Empty,
    /// There are several, and the source names none.
    #[error("picking an image of a layout: it has several, name one after a colon: {}", .names.join(", "))]
    Several {
        /// The names in the layout, shortened.
        names: Vec<String>,
    },
    /// No image has this name.
    #[error("picking an image of a layout: none is named {name}; there are {}", .names.join(", "))]
    Name {
        /// The name.
        name: String,
        /// The names in the layout, shortened.
        names: Vec<String>,
    },
    /// No image has this digest.
    #[error("picking an image of a layout: its index.json does not list {digest}")]
    Digest {
        /// The digest.
        digest: Digest,
    },
}

impl Pick {
    /// Finds the image in the `index.json` of a layout. Of two with one name, the first is picked.
    pub fn find<'a>(&self, index: &'a Index) -> Result<Picked<'a>, PickError> {
        let images = || {
            index
                .manifests
                .iter()
                .filter(|entry| entry.no_image().is_none())
        };
        match self {
            Self::Digest(digest) => images()
                .find(|entry| entry.digest == *digest)
                .map(Picked::Entry)
                .ok_or_else(|| PickError::Digest {
                    digest: digest.clone(),
                }),
            Self::Name(name) => [REF_NAME, IMAGE_NAME]
                .into_iter()
                .find_map(|key| images().find(|entry| entry.annotations.get(key) == Some(name)))
                .map(Picked::Entry)
                .ok_or_else(|| PickError::Name {
                    name: excerpt(name),
                    names: names(images()),
                }),
            Self::Only => {
                let mut all = images();
                match (all.next(), all.next()) {
                    (None, _) => Err(PickError::Empty),
                    (Some(entry), None) => Ok(Picked::Entry(entry)),
                    _ if images().all(is_of_a_whole) => Ok(Picked::Whole),
                    _ => Err(PickError::Several {
                        names: names(images()),
                    }),
                }
            }
        }
    }
}

/// An entry with a platform and without a name is one platform of a single image.
fn is_of_a_whole(entry: &Descriptor) -> bool {
    entry.stated_platform().is_some() && !entry.annotations.contains_key(REF_NAME)
}

fn names<'a>(images: impl Iterator<Item = &'a Descriptor>) -> Vec<String> {
    let mut names: Vec<String> = images
        .filter_map(|entry| entry.annotations.get(REF_NAME))
        .take(MAX_LISTED)
        .map(|name| excerpt(name))
        .collect();
    if names.is_empty() {
        names.push("no names".to_owned());
    }
    names
}
