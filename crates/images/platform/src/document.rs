//! What registries keep beside blobs: indexes, manifests and configs.
//!
//! ```text
//! Index --manifests[]--> Manifest --config--> ImageConfig (platform, labels)
//!    `--> Index ...         `--layers[]--> blobs
//! ```
//!
//! Documents are read from bytes whose digest was checked by the caller. Their types are the same for OCI
//! and for Docker, whose words differ only in the media types. Unknown fields are ignored.

mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded;
use crate::digest::Digest;
use crate::media::{Kind, MediaType};
use crate::platform::Platform;

pub use read::{DocumentError, read, read_config};

/// The most bytes of an index or a manifest that are read: what registries are told to accept at most.
pub const MAX_MANIFEST: usize = 4 * 1024 * 1024;

/// The most bytes of a config that are read.
pub const MAX_CONFIG: usize = 8 * 1024 * 1024;

/// The most entries of an index.
pub const MAX_ENTRIES: usize = 4096;

/// The most layers of an image. Overlay file systems stop far earlier.
pub const MAX_LAYERS: usize = 1024;

/// The most labels, annotations or variables of anything.
pub const MAX_LABELS: usize = 4096;

/// Docker's mark of entries that say something of another entry.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// Docker's name of that other entry.
const REFERENCE_DIGEST: &str = "vnd.docker.reference.digest";

/// What stands in a registry under a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Several images, of which one is to be chosen.
    Index(Index),
    /// One image.
    Manifest(Box<Manifest>),
}

/// The schema of all documents that are read. In JSON it is the number 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schema2;

impl Serialize for Schema2 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(2)
    }
}

/// A list of manifests: an OCI index or a Docker manifest list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Always 2.
    pub schema_version: Schema2,
    /// Which of the two it is; unsaid in some indexes of OCI.
    #[serde(skip_serializing_if = "MediaType::is_empty")]
    pub media_type: MediaType,
    /// The entries, in order.
    pub manifests: Vec<Descriptor>,
    /// What else is said of the whole.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: Schema2,
    /// Whether it is of OCI or of Docker; unsaid in some manifests of OCI.
    #[serde(skip_serializing_if = "MediaType::is_empty")]
    pub media_type: MediaType,
    /// What it is, if it is no image.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub artifact_type: String,
    /// The config: an [`ImageConfig`], if it is an image.
    pub config: Descriptor,
    /// The layers, the lowest first.
    pub layers: Vec<Descriptor>,
    /// What else is said of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The name of some content, and what is known of it beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is. Unknown types are no error, but nothing is done with them.
    #[serde(default)]
    pub media_type: MediaType,
    /// Its name.
    pub digest: Digest,
    /// How many bytes it has.
    pub size: u64,
    /// What it is for, if it is an entry of an index that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// What it is, if it is no image.
    #[serde(
        default,
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub artifact_type: String,
    /// What else is said of it.
    #[serde(
        default,
        deserialize_with = "bounded::map::<MAX_LABELS, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: BTreeMap<String, String>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What is needed of an image's config.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageConfig {
    /// What the image is for.
    pub platform: Platform,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
    /// Environment of its processes, as `NAME=value`.
    pub env: Vec<String>,
    /// Who its processes run as: `user`, `uid`, `user:group` or nothing.
    pub user: String,
    /// Digests of the layers when they are unpacked, the lowest first.
    pub diff_ids: Vec<Digest>,
}

/// Why an entry of an index is no image that could be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoImage {
    /// It attests something about another entry.
    Attestation,
    /// Its platform is `unknown/unknown`.
    UnknownPlatform,
    /// It is an artifact of some other type.
    Artifact,
    /// Its media type is not one of an index or a manifest.
    MediaType,
}

impl Descriptor {
    /// The platform, if it says anything: one without operating system and architecture does not.
    pub fn stated_platform(&self) -> Option<&Platform> {
        self.platform
            .as_ref()
            .filter(|platform| !platform.architecture.is_empty())
    }

    /// Why this entry of an index is no image, if it is none.
    pub fn no_image(&self) -> Option<NoImage> {
        let marked = |key| self.annotations.contains_key(key);
        if marked(REFERENCE_TYPE) || marked(REFERENCE_DIGEST) {
            return Some(NoImage::Attestation);
        }
        if self.platform.as_ref().is_some_and(Platform::is_unknown) {
            return Some(NoImage::UnknownPlatform);
        }
        // Lists of referrers repeat the type of the config here, which for images is this one.
        let of_image = MediaType::read(&self.artifact_type).kind() == Kind::Config;
        if !self.artifact_type.is_empty() && !of_image {
            return Some(NoImage::Artifact);
        }
        match self.media_type.kind() {
            Kind::Index | Kind::Manifest => None,
            Kind::Unknown if self.media_type.is_empty() => None,
            Kind::Config | Kind::Unsupported | Kind::Unknown => Some(NoImage::MediaType),
        }
    }
}

impl Manifest {
    /// What this is, if it is no image: `artifactType`, or a config that is none of an image.
    pub fn artifact(&self) -> Option<&str> {
        let config = &self.config.media_type;
        let of_image = MediaType::read(&self.artifact_type).kind() == Kind::Config;
        if !self.artifact_type.is_empty() && !of_image {
            return Some(&self.artifact_type);
        }
        match config {
            MediaType::OciConfig | MediaType::DockerConfig => None,
            // The first clients of schema 2 did not say what a config is.
            MediaType::Other(name) if name.is_empty() || name == "application/octet-stream" => None,
            other => Some(other.as_str()),
        }
    }

    /// How many bytes the layers have as they are stored; none if nobody has so many.
    pub fn size(&self) -> Option<u64> {
        self.layers
            .iter()
            .try_fold(0u64, |sum, layer| sum.checked_add(layer.size))
    }

    /// Layers with the digests that they have unpacked. An image whose config has another number of
    /// them contradicts itself.
    pub fn layers_of<'a>(
        &'a self,
        config: &'a ImageConfig,
    ) -> Result<impl Iterator<Item = (&'a Descriptor, &'a Digest)>, DocumentError> {
        if self.layers.len() != config.diff_ids.len() {
            return Err(DocumentError::Layers {
                layers: self.layers.len(),
                diff_ids: config.diff_ids.len(),
            });
        }
        Ok(self.layers.iter().zip(&config.diff_ids))
    }
}
