//! Image documents: indexes, manifests and configs.
//!
//! ```text
//! Index --manifests[]--> Manifest --config--> ImageConfig (platform, labels)
//!    `--> Index ...         `--layers[]--> blobs
//! ```
//!
//! Documents are parsed from bytes whose digest the caller has verified. OCI and Docker documents share
//! these types; they differ only in media types. Unknown fields are ignored.

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

/// Upper bound of an index or manifest: the OCI distribution specification's limit.
pub const MAX_MANIFEST: usize = 4 * 1024 * 1024;

/// Upper bound of a config.
pub const MAX_CONFIG: usize = 8 * 1024 * 1024;

/// Upper bound of entries of an index.
pub const MAX_ENTRIES: usize = 4096;

/// Upper bound of layers. Overlay file systems support far fewer.
pub const MAX_LAYERS: usize = 1024;

/// Upper bound of labels, annotations or variables.
pub const MAX_LABELS: usize = 4096;

/// Docker's annotation of entries that refer to another entry, such as attestations.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// Docker's annotation with the digest of that other entry.
const REFERENCE_DIGEST: &str = "vnd.docker.reference.digest";

/// The document a tag refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Several images to choose from.
    Index(Index),
    /// One image.
    Manifest(Box<Manifest>),
}

/// The schema version of all supported documents: the number 2.
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
    /// The media type; empty in some OCI indexes.
    #[serde(skip_serializing_if = "MediaType::is_empty")]
    pub media_type: MediaType,
    /// The entries, in order.
    pub manifests: Vec<Descriptor>,
    /// Its annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The manifest of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: Schema2,
    /// The media type; empty in some OCI manifests.
    #[serde(skip_serializing_if = "MediaType::is_empty")]
    pub media_type: MediaType,
    /// The artifact type; empty for images.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub artifact_type: String,
    /// The config: an [`ImageConfig`], if it is an image.
    pub config: Descriptor,
    /// The layers, lowest first.
    pub layers: Vec<Descriptor>,
    /// Its annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A reference to content by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type. Unknown types are accepted but not used.
    #[serde(default)]
    pub media_type: MediaType,
    /// Its digest.
    pub digest: Digest,
    /// The size in bytes.
    pub size: u64,
    /// The platform, for an index entry that states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// The artifact type; empty for images.
    #[serde(
        default,
        deserialize_with = "null_is_empty",
        skip_serializing_if = "String::is_empty"
    )]
    pub artifact_type: String,
    /// Its annotations.
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

/// The used part of an image config.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageConfig {
    /// The platform of the image.
    pub platform: Platform,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
    /// Environment of its processes, as `NAME=value`.
    pub env: Vec<String>,
    /// The user its processes run as: `user`, `uid`, `user:group` or empty.
    pub user: String,
    /// The digests of the unpacked layers, lowest first.
    pub diff_ids: Vec<Digest>,
}

/// Why an index entry is not an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoImage {
    /// It is an attestation of another entry.
    Attestation,
    /// Its platform is `unknown/unknown`.
    UnknownPlatform,
    /// It is an artifact of another type.
    Artifact,
    /// Its media type is neither an index nor a manifest.
    MediaType,
}

impl Descriptor {
    /// The platform, unless it lacks both operating system and architecture.
    pub fn stated_platform(&self) -> Option<&Platform> {
        self.platform
            .as_ref()
            .filter(|platform| !platform.architecture.is_empty())
    }

    /// Why this index entry is not an image; `None` if it is one.
    pub fn no_image(&self) -> Option<NoImage> {
        let marked = |key| self.annotations.contains_key(key);
        if marked(REFERENCE_TYPE) || marked(REFERENCE_DIGEST) {
            return Some(NoImage::Attestation);
        }
        if self.platform.as_ref().is_some_and(Platform::is_unknown) {
            return Some(NoImage::UnknownPlatform);
        }
        // Referrer lists repeat the config's media type here, which for images is this one.
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
    /// The artifact type, if this is not an image: `artifactType`, or the media type of a config that
    /// is not an image config.
    pub fn artifact(&self) -> Option<&str> {
        let config = &self.config.media_type;
        let of_image = MediaType::read(&self.artifact_type).kind() == Kind::Config;
        if !self.artifact_type.is_empty() && !of_image {
            return Some(&self.artifact_type);
        }
        match config {
            MediaType::OciConfig | MediaType::DockerConfig => None,
            // The first clients of schema 2 did not set the media type of the config.
            MediaType::Other(name) if name.is_empty() || name == "application/octet-stream" => None,
            other => Some(other.as_str()),
        }
    }

    /// The total compressed size of the layers; `None` on overflow.
    pub fn size(&self) -> Option<u64> {
        self.layers
            .iter()
            .try_fold(0u64, |sum, layer| sum.checked_add(layer.size))
    }

    /// The layers with their diff-ids. An image whose config has another number of them is
    /// inconsistent.
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
