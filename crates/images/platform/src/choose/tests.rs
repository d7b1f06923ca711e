//! A registry in memory, and what is chosen from it.

mod choosing;
mod golang;
mod laws;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::document::{Document, ImageConfig, read, read_config};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// Content by its digest.
#[derive(Default)]
struct Registry {
    content: BTreeMap<Digest, Vec<u8>>,
    fetched: usize,
}

impl Registry {
    fn push(&mut self, value: &Value) -> Digest {
        let bytes = value.to_string().into_bytes();
        let digest = Digest::sha256(&bytes);
        self.content.insert(digest.clone(), bytes);
        digest
    }

    /// An image for a platform, identified by its name.
    fn image(&mut self, name: &str, platform: &str) -> Digest {
        let config = serde_json::to_value(platform_of(platform)).unwrap();
        let config = self.push(&config);
        self.push(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": { "mediaType": CONFIG, "digest": config, "size": 1 },
            "layers": [],
            "annotations": { "name": name },
        }))
    }

    fn index(&mut self, entries: &[Value]) -> Digest {
        self.push(&json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries }))
    }

    fn document(&self, digest: &Digest) -> Document {
        read(&self.content[digest], None).unwrap()
    }

    /// Looks for an image, fetching whatever is asked for.
    fn search(&mut self, root: &Digest, matcher: Matcher) -> Result<Found, NoMatch> {
        let mut search = Search::new(matcher);
        let document = self.document(root);
        let mut step = search.begin(root.clone(), document);
        loop {
            step = match step {
                SearchStep::Found(found) => return Ok(*found),
                SearchStep::Missing(why) => return Err(*why),
                SearchStep::Fetch(fetch) => match self.fetch(&fetch) {
                    Some(Fetched::Document(document)) => search.document(document),
                    Some(Fetched::Config(config)) => search.config(config),
                    None => search.unavailable(),
                },
            };
        }
    }

    fn discover(&mut self, root: &Digest) -> Listing {
        let mut discovery = Discovery::new();
        let document = self.document(root);
        let mut step = discovery.begin(root.clone(), document);
        loop {
            step = match step {
                DiscoveryStep::Listed(listing) => return listing,
                DiscoveryStep::Fetch(fetch) => match self.fetch(&fetch) {
                    Some(Fetched::Document(document)) => discovery.document(document),
                    Some(Fetched::Config(config)) => discovery.config(config),
                    None => discovery.unavailable(),
                },
            };
        }
    }

    fn fetch(&mut self, fetch: &Fetch) -> Option<Fetched> {
        self.fetched += 1;
        match fetch {
            Fetch::Document(entry) => {
                let sent = Some(entry.media_type.as_str()).filter(|sent| !sent.is_empty());
                let document = read(self.content.get(&entry.digest)?, sent).unwrap();
                Some(Fetched::Document(document))
            }
            Fetch::Config(entry) => {
                let config = read_config(self.content.get(&entry.digest)?).unwrap();
                Some(Fetched::Config(config))
            }
        }
    }
}

enum Fetched {
    Document(Document),
    Config(ImageConfig),
}

fn platform_of(text: &str) -> Platform {
    text.parse().unwrap()
}

/// An entry that states its platform.
fn stated(digest: &Digest, platform: &str) -> Value {
    let mut entry = silent(digest);
    entry["platform"] = serde_json::to_value(platform_of(platform)).unwrap();
    entry
}

/// An entry without a platform.
fn silent(digest: &Digest) -> Value {
    json!({ "mediaType": MANIFEST, "digest": digest, "size": 1 })
}

/// An entry that is another index.
fn nested(digest: &Digest) -> Value {
    json!({ "mediaType": INDEX, "digest": digest, "size": 1 })
}

/// What BuildKit puts beside every image.
fn attestation(of: &Digest) -> Value {
    let mut entry = silent(&Digest::sha256(b"attestation"));
    entry["platform"] = json!({ "os": "unknown", "architecture": "unknown" });
    entry["annotations"] = json!({
        "vnd.docker.reference.type": "attestation-manifest",
        "vnd.docker.reference.digest": of,
    });
    entry
}
