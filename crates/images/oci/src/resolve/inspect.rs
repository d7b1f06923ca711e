//! Lists the platforms of an image.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use platform::{Digest, Discovery, DiscoveryStep, Document, MediaType, Platform, document};
use serde::{Deserialize, Serialize};

use super::Error;
use super::choose::{Fetched, fetch_requested, malformed, manifest, read};
use crate::{Cause, Freshness, Image};

/// Upper bound of images whose manifests are read: an index can list thousands.
const MAX_DETAILED_IMAGES: usize = 64;

/// Concurrent requests per image.
const CONCURRENT_READS: usize = 4;

/// How much of an image is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Only what determines the platforms: for an index, the index alone.
    Platforms,
    /// Also the manifest and config of every image: two requests each.
    Details,
}

/// An image and its platforms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The image name as given.
    pub image: String,
    /// The digest of the index, or of the manifest if there is no index.
    pub digest: Digest,
    /// The media type of that document.
    pub media_type: MediaType,
    /// Whether it is an index from which an architecture can be chosen.
    pub is_index: bool,
    /// The images.
    pub platforms: Vec<Entry>,
    /// The number of index entries that are not images, such as attestations.
    pub skipped: usize,
    /// Whether everything could be read and no limit was exceeded.
    pub complete: bool,
}

/// The image of one platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The platform.
    pub platform: Platform,
    /// The digest of its manifest.
    pub digest: Digest,
    /// The media type of its manifest.
    pub media_type: MediaType,
    /// Details from manifest and config; `None` if they were not requested, are missing in the
    /// registry, or exceed the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// Details from the manifest and config of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The compressed size of the layers in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The number of layers.
    pub layers: usize,
    /// The creation time in the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The platform in the config, if it differs from that in the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<String>,
}

/// The only field of a config that other code does not read.
#[derive(Deserialize)]
struct Created {
    created: Option<String>,
}

/// Reads all of an image. `name` is the name it was requested by.
pub async fn inspect(image: &Image, name: &str) -> Result<Inspection, Error> {
    read_platforms(image, name, Depth::Details, Freshness::Now).await
}

/// Like [`inspect`], but reads only what determines the platforms: one request for an index.
pub async fn platforms(image: &Image, name: &str) -> Result<Inspection, Error> {
    platforms_within(image, name, Freshness::Now).await
}

/// Like [`platforms`], with the given freshness of the tag.
pub async fn platforms_within(
    image: &Image,
    name: &str,
    freshness: Freshness,
) -> Result<Inspection, Error> {
    read_platforms(image, name, Depth::Platforms, freshness).await
}

async fn read_platforms(
    image: &Image,
    name: &str,
    depth: Depth,
    freshness: Freshness,
) -> Result<Inspection, Error> {
    let content = image.resolve(freshness).await?;
    let document = read(name, &content)?;
    let (media_type, is_index) = match &document {
        Document::Index(index) => (index.media_type.clone(), true),
        Document::Manifest(manifest) => (manifest.media_type.clone(), false),
    };
    let mut discovery = Discovery::new();
    let mut step = discovery.begin(content.digest.clone(), document);
    let listing = loop {
        step = match step {
            DiscoveryStep::Listed(listing) => break listing,
            DiscoveryStep::Fetch(fetch) => match fetch_requested(image, name, &fetch).await? {
                None => discovery.unavailable(),
                Some(Fetched::Document(document)) => discovery.document(document),
                Some(Fetched::Config(config)) => discovery.config(*config),
            },
        };
    };
    let entries = listing.images.into_iter().enumerate();
    let platforms = stream::iter(entries.map(|(place, found)| async move {
        // Documents that were read to determine the platform are reported at any depth.
        let is_read = found.manifest.is_some() && found.config.is_some();
        let details = if is_read || (depth == Depth::Details && place < MAX_DETAILED_IMAGES) {
            details(image, name, &found).await?
        } else {
            None
        };
        Ok::<_, Error>(Entry {
            platform: found.platform,
            digest: found.digest,
            media_type: found.media_type,
            details,
        })
    }))
    .buffered(CONCURRENT_READS)
    .try_collect()
    .await?;
    Ok(Inspection {
        image: name.to_owned(),
        digest: content.digest.clone(),
        media_type,
        is_index,
        platforms,
        skipped: listing.skipped,
        complete: listing.complete,
    })
}

/// Reads the details of an image, if it exists. Documents read before come from the cache.
async fn details(
    image: &Image,
    name: &str,
    found: &platform::Image,
) -> Result<Option<Details>, Error> {
    let is_missing = |error: &crate::Error| matches!(error.cause, Cause::NotFound { .. });
    let manifest = match &found.manifest {
        Some(manifest) => (**manifest).clone(),
        None => match manifest(image, name, &found.digest).await {
            Err(Error::Registry(error)) if is_missing(&error) => return Ok(None),
            answer => answer?,
        },
    };
    let content = match image.document(&manifest.config).await {
        Err(error) if is_missing(&error) => return Ok(None),
        answer => answer?,
    };
    let config = document::read_config(&content.bytes)
        .map_err(|source| malformed(name, &content.digest, source))?;
    // The config has been parsed as JSON before; an invalid date is left out.
    let created = serde_json::from_slice::<Created>(&content.bytes);
    Ok(Some(Details {
        size: manifest.size(),
        layers: manifest.layers.len(),
        created: created.ok().and_then(|it| it.created),
        contradiction: found.check(&config).err().map(|it| it.found.to_string()),
        labels: config.labels,
    }))
}
