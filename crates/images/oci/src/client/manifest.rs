//! Indexes, manifests and small blobs: read, checked and kept.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use platform::{Digest, Reference};
use tokio::time::Instant;

use super::ask::Ask;
use super::{Content, Inner, Seat, Tag};
use crate::error::{Cause, Operation};

/// All that a registry may answer with. A registry that misses the type of an image here says that
/// there is no such image.
const TYPES: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// Where registries say what the digest is.
const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// Longer tags of versions are not kept.
const LONGEST_ETAG: usize = 512;

/// What came of reading a manifest.
enum Read {
    Same,
    Other(Content, Option<String>),
}

impl Inner {
    /// Reads a manifest, or finds that the one that is known is still right.
    pub(super) async fn read(
        self: Arc<Self>,
        seat: Seat,
        reference: Reference,
    ) -> Result<Arc<Content>, Cause> {
        if let Some(digest) = reference.digest() {
            let name = digest.to_string();
            return match self.get(&seat, &name, Some(digest), None).await? {
                Read::Other(content, _) => Ok(self.keep(&seat, content)),
                Read::Same => Err(unasked()),
            };
        }
        let name = reference.manifest();
        let key = (seat.key.clone(), name.clone());
        let known = self
            .tags
            .get(&key)
            .and_then(|tag| self.kept(&seat, &tag.digest).map(|content| (tag, content)));
        let mut condition = None;
        if let Some((tag, content)) = known {
            match self.head(&seat, &name).await? {
                Some(digest) if digest == tag.digest => {
                    self.saw(&seat, &name, digest, tag.etag);
                    return Ok(content);
                }
                Some(_) => {}
                // Nothing was said: reading tells, and costs little if it is the same.
                None => condition = tag.etag.clone().map(|etag| (etag, tag, content)),
            }
        }
        let etag = condition.as_ref().map(|(etag, ..)| etag.as_str());
        match (self.get(&seat, &name, None, etag).await?, condition) {
            (Read::Other(content, etag), _) => {
                self.saw(&seat, &name, content.digest.clone(), etag);
                Ok(self.keep(&seat, content))
            }
            (Read::Same, Some((etag, tag, content))) => {
                self.saw(&seat, &name, tag.digest, Some(etag));
                Ok(content)
            }
            (Read::Same, None) => Err(unasked()),
        }
    }

    /// The digest that a tag has now.
    pub(super) async fn digest_of(
        self: Arc<Self>,
        seat: Seat,
        reference: Reference,
    ) -> Result<Digest, Cause> {
        let name = reference.manifest();
        if let Some(digest) = self.head(&seat, &name).await? {
            let known = self.tags.get(&(seat.key.clone(), name.clone()));
            let etag = known
                .filter(|tag| tag.digest == digest)
                .and_then(|tag| tag.etag);
            self.saw(&seat, &name, digest.clone(), etag);
            return Ok(digest);
        }
        Ok(self.read(seat, reference).await?.digest.clone())
    }

    fn saw(&self, seat: &Seat, name: &str, digest: Digest, etag: Option<String>) {
        let tag = Tag {
            digest,
            etag: etag.filter(|etag| etag.len() <= LONGEST_ETAG),
            seen: Instant::now(),
        };
        self.tags.insert((seat.key.clone(), name.to_owned()), tag);
    }

    /// Asks for the digest of a tag. `None` if the registry does not say.
    async fn head(&self, seat: &Seat, name: &str) -> Result<Option<Digest>, Cause> {
        let ask = Ask {
            operation: Operation::Check,
            method: Method::HEAD,
            path: format!("manifests/{name}"),
            headers: vec![(ACCEPT, HeaderValue::from_static(TYPES))],
        };
        let answer = self
            .persist(&seat.place, || self.ask(seat, &ask).boxed())
            .await;
        match answer {
            Ok(answer) => Ok(answer.header(DIGEST).and_then(|digest| digest.parse().ok())),
            // Some do not know the question.
            Err(Cause::Server {
                code: 405 | 501, ..
            }) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    async fn get(
        &self,
        seat: &Seat,
        name: &str,
        digest: Option<&Digest>,
        etag: Option<&str>,
    ) -> Result<Read, Cause> {
        let mut headers = vec![(ACCEPT, HeaderValue::from_static(TYPES))];
        if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
            headers.push((IF_NONE_MATCH, etag));
        }
        let ask = Ask {
            operation: Operation::Manifest,
            method: Method::GET,
            path: format!("manifests/{name}"),
            headers,
        };
        let limit = self.settings.manifest_limit;
        self.persist(&seat.place, || {
            async {
                let answer = self.ask(seat, &ask).await?;
                if answer.parts.status == StatusCode::NOT_MODIFIED {
                    return Ok(Read::Same);
                }
                let said: Option<Digest> =
                    answer.header(DIGEST).and_then(|digest| digest.parse().ok());
                let etag = answer.header(ETAG).map(str::to_owned);
                let content_type = answer.header(CONTENT_TYPE).map(str::to_owned);
                let bytes = answer.read(limit).await?;
                // What was asked for counts, else what was said, else what came.
                let digest = match digest.or(said.as_ref()) {
                    Some(digest) => verified(digest, &bytes)?,
                    None => Digest::sha256(&bytes),
                };
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

    /// Reads a small blob as a whole.
    pub(super) async fn read_blob(
        self: Arc<Self>,
        seat: Seat,
        digest: Digest,
        size: u64,
    ) -> Result<Arc<Content>, Cause> {
        let ask = Ask {
            operation: Operation::Blob,
            method: Method::GET,
            path: format!("blobs/{digest}"),
            headers: Vec::new(),
        };
        let content = self
            .persist(&seat.place, || {
                async {
                    let answer = self.ask(&seat, &ask).await?;
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
        Ok(self.keep(&seat, content))
    }
}

fn verified(digest: &Digest, bytes: &Bytes) -> Result<Digest, Cause> {
    digest
        .verify(bytes)
        .map_err(|mismatch| Cause::DigestMismatch {
            expected: mismatch.expected,
            actual: mismatch.actual,
        })?;
    Ok(digest.clone())
}

fn unasked() -> Cause {
    Cause::Invalid("the server says that nothing changed, which was not asked".to_owned())
}
