//! Reads, verifies and caches indexes, manifests and small blobs.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use platform::{Digest, Reference};
use tokio::time::Instant;

use super::request::RegistryRequest;
use super::{Candidate, Content, Inner, Tag};
use crate::error::{Cause, Operation};

/// All accepted media types. A registry answers 404 for an image whose type is missing here.
const TYPES: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// The header with the digest.
const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// Longer entity tags are not cached.
const MAX_ETAG_BYTES: usize = 512;

/// The result of reading a manifest.
enum Read {
    Same,
    Other(Content, Option<String>),
}

impl Inner {
    /// Reads a manifest, or finds the cached one unchanged.
    pub(super) async fn read(
        self: Arc<Self>,
        candidate: Candidate,
        reference: Reference,
    ) -> Result<Arc<Content>, Cause> {
        if let Some(digest) = reference.digest() {
            let name = digest.to_string();
            return match self.get(&candidate, &name, Some(digest), None).await? {
                Read::Other(content, _) => Ok(self.keep(&candidate, content)),
                Read::Same => Err(unasked()),
            };
        }
        let name = reference.manifest();
        let key = (candidate.key.clone(), name.clone());
        let known = self.tags.get(&key).and_then(|tag| {
            self.cached_document(&candidate, &tag.digest)
                .map(|content| (tag, content))
        });
        let mut condition = None;
        // HEAD before GET although it may be one request more: Docker Hub counts GETs of manifests as pulls and
        // limits them, HEADs are free.
        if let Some((tag, content)) = known {
            match self.head(&candidate, &name).await? {
                Some(digest) if digest == tag.digest => {
                    self.saw(&candidate, &name, digest, tag.etag);
                    return Ok(content);
                }
                Some(_) => {}
                // The registry did not send a digest: a conditional GET tells, and costs little if it
                // is unchanged.
                None => condition = tag.etag.clone().map(|etag| (etag, tag, content)),
            }
        }
        let etag = condition.as_ref().map(|(etag, ..)| etag.as_str());
        match (self.get(&candidate, &name, None, etag).await?, condition) {
            (Read::Other(content, etag), _) => {
                self.saw(&candidate, &name, content.digest.clone(), etag);
                Ok(self.keep(&candidate, content))
            }
            (Read::Same, Some((etag, tag, content))) => {
                self.saw(&candidate, &name, tag.digest, Some(etag));
                Ok(content)
            }
            (Read::Same, None) => Err(unasked()),
        }
    }

    /// The current digest of a tag.
    pub(super) async fn digest_of(
        self: Arc<Self>,
        candidate: Candidate,
        reference: Reference,
    ) -> Result<Digest, Cause> {
        let name = reference.manifest();
        if let Some(digest) = self.head(&candidate, &name).await? {
            let known = self.tags.get(&(candidate.key.clone(), name.clone()));
            let etag = known
                .filter(|tag| tag.digest == digest)
                .and_then(|tag| tag.etag);
            self.saw(&candidate, &name, digest.clone(), etag);
            return Ok(digest);
        }
        Ok(self.read(candidate, reference).await?.digest.clone())
    }

    fn saw(&self, candidate: &Candidate, name: &str, digest: Digest, etag: Option<String>) {
        let tag = Tag {
            digest,
            etag: etag.filter(|etag| etag.len() <= MAX_ETAG_BYTES),
            seen: Instant::now(),
        };
        self.tags
            .insert((candidate.key.clone(), name.to_owned()), tag);
    }

    /// The digest of a tag by HEAD. `None` if the registry does not send it.
    async fn head(&self, candidate: &Candidate, name: &str) -> Result<Option<Digest>, Cause> {
        let request = RegistryRequest {
            operation: Operation::Check,
            method: Method::HEAD,
            path: format!("manifests/{name}"),
            headers: vec![(ACCEPT, HeaderValue::from_static(TYPES))],
        };
        let answer = self
            .retry_at_endpoint(&candidate.place, || self.send(candidate, &request).boxed())
            .await;
        match answer {
            Ok(answer) => Ok(answer.header(DIGEST).and_then(|digest| digest.parse().ok())),
            // Some registries do not support HEAD.
            Err(Cause::Server {
                code: 405 | 501, ..
            }) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    async fn get(
        &self,
        candidate: &Candidate,
        name: &str,
        digest: Option<&Digest>,
        etag: Option<&str>,
    ) -> Result<Read, Cause> {
        let mut headers = vec![(ACCEPT, HeaderValue::from_static(TYPES))];
        if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
            headers.push((IF_NONE_MATCH, etag));
        }
        let request = RegistryRequest {
            operation: Operation::Manifest,
            method: Method::GET,
            path: format!("manifests/{name}"),
            headers,
        };
        let limit = self.settings.manifest_limit;
        self.retry_at_endpoint(&candidate.place, || {
            async {
                let answer = self.send(candidate, &request).await?;
                if answer.parts.status == StatusCode::NOT_MODIFIED {
                    return Ok(Read::Same);
                }
                let said: Option<Digest> =
                    answer.header(DIGEST).and_then(|digest| digest.parse().ok());
                let etag = answer.header(ETAG).map(str::to_owned);
                let content_type = answer.header(CONTENT_TYPE).map(str::to_owned);
                let bytes = answer.read(limit).await?;
                // The requested digest counts, else the one in the header, else that of the content.
                // The header is verified but not trusted: with a tag there is nothing else to compare with, and a
                // registry behind a broken proxy is found out here and not at the pull of a node.
                let digest = match digest.or(said.as_ref()) {
                    Some(digest) => verified(digest, &bytes)?,
                    None => Digest::sha256(&bytes),
                };
                // Parsed before it is cached: a captive portal that answers 200 with HTML would otherwise be the
                // image for as long as the tag is fresh.
                platform::document::read(&bytes, content_type.as_deref()).map_err(|error| {
                    Cause::Invalid(crate::error::clean(&error.to_string(), &[]))
                })?;
                let content = Content {
                    digest,
                    content_type,
                    bytes,
                };
                Ok(Read::Other(content, etag))
            }
            .boxed()
        })
        .await
    }

    /// Reads a small blob at once.
    pub(super) async fn read_blob(
        self: Arc<Self>,
        candidate: Candidate,
        digest: Digest,
        size: u64,
    ) -> Result<Arc<Content>, Cause> {
        let request = RegistryRequest {
            operation: Operation::Blob,
            method: Method::GET,
            path: format!("blobs/{digest}"),
            headers: Vec::new(),
        };
        let content = self
            .retry_at_endpoint(&candidate.place, || {
                async {
                    let answer = self.send(&candidate, &request).await?;
                    let content_type = answer.header(CONTENT_TYPE).map(str::to_owned);
                    let bytes = answer.read(size).await?;
                    let found = bytes.len() as u64;
                    if found < size {
                        return Err(Cause::Truncated {
                            expected: size,
                            found,
                        });
                    }
                    let digest = verified(&digest, &bytes)?;
                    Ok(Content {
                        digest,
                        content_type,
                        bytes,
                    })
                }
                .boxed()
            })
            .await?;
        Ok(self.keep(&candidate, content))
    }
}

fn verified(digest: &Digest, bytes: &Bytes) -> Result<Digest, Cause> {
    digest.verify(bytes)?;
    Ok(digest.clone())
}

fn unasked() -> Cause {
    Cause::Invalid("the server answered 304 to an unconditional request".to_owned())
}
