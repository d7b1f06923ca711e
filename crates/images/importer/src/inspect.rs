//! What an image is there for: all platforms, with what is known of each.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use oci::{Cause, Freshness, Image};
use platform::{Digest, Discovery, DiscoveryStep, Document, MediaType, Platform, document};
use serde::{Deserialize, Serialize};

use crate::choose::{Fetched, fetched, malformed, manifest, read};
use crate::error::Error;

/// Images of which more is read than their index says: indexes can list thousands.
const MOST_READ: usize = 64;

/// How many are read at a time.
const AT_A_TIME: usize = 4;

/// How much is read of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// What tells the platforms: of an index, nothing else.
    Platforms,
    /// Also the manifest and the config of every image: two requests for each.
    Details,
}

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// The image as it was asked for.
    pub image: String,
    /// Of the index, or of the manifest if that is all.
    pub digest: Digest,
    /// What it is.
    pub media_type: MediaType,
    /// Whether there is an index, from which an architecture can be chosen.
    pub is_index: bool,
    /// The images.
    pub platforms: Vec<Entry>,
    /// How many entries of indexes are no images, but attestations and such.
    pub skipped: usize,
    /// Whether everything was there and was not too much.
    pub complete: bool,
}

/// An image for one platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What it is for.
    pub platform: Platform,
    /// Of its manifest.
    pub digest: Digest,
    /// What the manifest is.
    pub media_type: MediaType,
    /// What was read of it; none if that was not asked for, if the registry does not have it, or if it
    /// is one of too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// What the manifest and the config of an image say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Bytes of the layers as they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How many layers there are.
    pub layers: usize,
    /// When it was made, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What the config says to be for, if that is something else than the index says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<String>,
}

/// The one field of a config that nobody else wants.
#[derive(Deserialize)]
struct Created {
    created: Option<String>,
}

/// Looks at all of an image. `name` is how it was asked for.
pub async fn inspect(image: &Image, name: &str) -> Result<Inspection, Error> {
    look(image, name, Depth::Details, Freshness::Now).await
}

/// The same, but asks for no more than it takes to know the platforms: one request for an index.
pub async fn platforms(image: &Image, name: &str) -> Result<Inspection, Error> {
    platforms_within(image, name, Freshness::Now).await
}

/// The same, where what was read a while ago will do.
pub async fn platforms_within(
    image: &Image,
    name: &str,
    freshness: Freshness,
) -> Result<Inspection, Error> {
    look(image, name, Depth::Platforms, freshness).await
}

async fn look(
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
            DiscoveryStep::Fetch(fetch) => match fetched(image, name, &fetch).await? {
                None => discovery.unavailable(),
                Some(Fetched::Document(document)) => discovery.document(document),
                Some(Fetched::Config(config)) => discovery.config(*config),
            },
        };
    };
    let entries = listing.images.into_iter().enumerate();
    let platforms = stream::iter(entries.map(|(place, found)| async move {
        // What had to be read to know the platform is told whoever asked for it.
        let is_read = found.manifest.is_some() && found.config.is_some();
        let details = if is_read || (depth == Depth::Details && place < MOST_READ) {
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
    .buffered(AT_A_TIME)
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

/// Reads more of an image, unless it is not there. Documents that were read before come from the cache.
async fn details(
    image: &Image,
    name: &str,
    found: &platform::Image,
) -> Result<Option<Details>, Error> {
    let is_missing = |error: &oci::Error| matches!(error.cause, Cause::NotFound { .. });
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
    // That much was read as JSON just now; a date that is none is not known.
    let created = serde_json::from_slice::<Created>(&content.bytes);
    Ok(Some(Details {
        size: manifest.size(),
        layers: manifest.layers.len(),
        created: created.ok().and_then(|it| it.created),
        contradiction: found.check(&config).err().map(|it| it.found.to_string()),
        labels: config.labels,
    }))
}
