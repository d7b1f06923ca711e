//! Chooses the manifest of one platform: fetches the documents the search requests, and checks the
//! result.

use platform::choose::Fetch;
use platform::{
    Descriptor, Digest, Document, Found, ImageConfig, Manifest, Matcher, NoMatch, Platform, Search,
    SearchStep, Why, document,
};

use super::{Error, OS};
use crate::{Cause, Content, Freshness, Image};

/// The image of one architecture.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The digest the image name resolves to: of the index, or of the manifest if there is none.
    pub root: Digest,
    /// The manifest.
    pub digest: Digest,
    /// The platform of the manifest.
    pub platform: Platform,
    /// Why this manifest was chosen.
    pub why: Why,
    /// Its layers.
    pub manifest: Manifest,
    /// Its labels and diff-ids.
    pub config: ImageConfig,
}

impl Chosen {
    /// Its layers with their diff-ids, base first. `name` names the image in errors.
    pub fn layers(
        &self,
        name: &str,
    ) -> Result<impl Iterator<Item = (&Descriptor, &Digest)>, Error> {
        let layers = self.manifest.layers_of(&self.config);
        layers.map_err(|source| malformed(name, &self.digest, source))
    }
}

/// The result of a search for an image.
#[derive(Debug, Clone)]
pub struct SearchResult {
    /// The digest the image name resolves to.
    pub root: Digest,
    /// The image, or why none matches.
    pub found: Result<Box<Found>, Box<NoMatch>>,
}

/// Searches the image a matcher prefers, as a node that pulls it does. `name` names the image in
/// errors.
pub async fn seek(image: &Image, name: &str, matcher: Matcher) -> Result<SearchResult, Error> {
    let content = image.resolve(Freshness::Now).await?;
    let root = content.digest.clone();
    let document = read(name, &content)?;
    let mut search = Search::new(matcher);
    let mut step = search.begin(root.clone(), document);
    let found = loop {
        step = match step {
            SearchStep::Found(found) => break Ok(found),
            SearchStep::Missing(why) => break Err(why),
            SearchStep::Fetch(fetch) => match fetch_requested(image, name, &fetch).await? {
                None => search.unavailable(),
                Some(Fetched::Document(document)) => search.document(document),
                Some(Fetched::Config(config)) => search.config(*config),
            },
        };
    };
    Ok(SearchResult { root, found })
}

/// Chooses the image for an architecture. `name` names the image in errors.
pub async fn choose(image: &Image, name: &str, architecture: &str) -> Result<Chosen, Error> {
    choose_by(image, name, Matcher::architecture(OS, architecture)).await
}

/// Chooses the best image for a matcher. The tag is resolved at the registry; the documents behind it
/// are cached by the client, so that reading them again costs nothing.
pub async fn choose_by(image: &Image, name: &str, matcher: Matcher) -> Result<Chosen, Error> {
    let SearchResult { root, found } = seek(image, name, matcher).await?;
    let found = found.map_err(|source| Error::NoMatch {
        image: name.to_owned(),
        source,
    })?;
    let manifest = match found.image.manifest.clone() {
        Some(manifest) => *manifest,
        None => manifest(image, name, &found.image.digest).await?,
    };
    let config = match found.image.config.clone() {
        Some(config) => *config,
        None => config(image, name, &manifest).await?,
    };
    found
        .image
        .check(&config)
        .map_err(|source| Error::Platform {
            image: name.to_owned(),
            source: source.into(),
        })?;
    Ok(Chosen {
        root,
        digest: found.image.digest.clone(),
        platform: found.image.platform.clone(),
        why: found.why,
        manifest,
        config,
    })
}

/// A document a search requested.
pub(super) enum Fetched {
    Document(Document),
    Config(Box<ImageConfig>),
}

/// Fetches a document a search requests; `None` if it is missing, as in partial copies of an index.
pub(super) async fn fetch_requested(
    image: &Image,
    name: &str,
    fetch: &Fetch,
) -> Result<Option<Fetched>, Error> {
    let answer = match fetch {
        Fetch::Document(descriptor) => image.manifest(&descriptor.digest).await,
        Fetch::Config(descriptor) => image.document(descriptor).await,
    };
    let content = match answer {
        // Sparse mirrors hold an index without all of its children (`oc-mirror` copies chosen platforms). That is no
        // error as long as another entry matches.
        Err(error) if matches!(error.cause, Cause::NotFound { .. }) => return Ok(None),
        answer => answer?,
    };
    Ok(Some(match fetch {
        Fetch::Document(_) => Fetched::Document(read(name, &content)?),
        Fetch::Config(_) => {
            let config = document::read_config(&content.bytes);
            let config = config.map_err(|source| malformed(name, &content.digest, source))?;
            Fetched::Config(Box::new(config))
        }
    }))
}

pub(super) fn read(name: &str, content: &Content) -> Result<Document, Error> {
    document::read(&content.bytes, content.content_type.as_deref())
        .map_err(|source| malformed(name, &content.digest, source))
}

pub(super) fn malformed(name: &str, digest: &Digest, source: document::DocumentError) -> Error {
    Error::Document {
        what: digest.to_string(),
        image: name.to_owned(),
        source,
    }
}

/// Fetches the manifest of an index entry.
pub(super) async fn manifest(
    image: &Image,
    name: &str,
    digest: &Digest,
) -> Result<Manifest, Error> {
    let content = image.manifest(digest).await?;
    match read(name, &content)? {
        Document::Manifest(manifest) => Ok(*manifest),
        Document::Index(index) => {
            let found = index.media_type.as_str().to_owned();
            let source = document::DocumentError::MediaType { found };
            Err(malformed(name, digest, source))
        }
    }
}

async fn config(image: &Image, name: &str, manifest: &Manifest) -> Result<ImageConfig, Error> {
    let content = image.document(&manifest.config).await?;
    document::read_config(&content.bytes).map_err(|source| malformed(name, &content.digest, source))
}
