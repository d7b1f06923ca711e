//! The registry client.
//!
//! A request passes [`Routes`](crate::Routes) (endpoints, in order) -> [`Keyring`] (credentials, in order) -> caches
//! -> single-flight -> authentication and retries -> verification. Cached content is bound to the
//! credential it was read with: it is never returned for another one.

mod blob;
mod manifest;
mod post;
mod refusal;
mod request;
mod web;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use platform::{Digest, Reference};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::time::Instant;

use crate::auth::{Demand, Grant, Token};
use crate::counts::Counts;
use crate::credentials::{Credential, CredentialId, Keyring};
use crate::error::{Cause, Error, Operation};
use crate::flights::Flights;
use crate::mirrors::Endpoint;
use crate::network::Network;
use crate::settings::Settings;
use crate::transport::Transport;

pub use blob::BlobStream;
pub use post::Post;
pub use web::{FileVersion, Headers, WebFile};

/// Upper bound of cached challenges, tokens and failures; each is small.
const MAX_CACHED_ENTRIES: usize = 10_000;

/// Shards of the document cache. Each holds its part of the bytes, and a document that exceeds it would never be cached;
/// the default number grows with the cores.
const DOCUMENT_SHARDS: usize = 4;
/// Size of most manifests, with key and entry: the initial number of entries follows from it.
const USUAL_DOCUMENT_BYTES: u64 = 4096;

/// An index, a manifest, or another document, with verified digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its digest.
    pub digest: Digest,
    /// The `Content-Type` the registry sent.
    pub content_type: Option<String>,
    /// Its bytes.
    pub bytes: Bytes,
}

/// How old a cached digest of a tag may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// As old as [`Settings::tag_ttl`].
    Usual,
    /// As old as this.
    Within(Duration),
    /// The registry is contacted.
    Now,
}

/// A registry client; clones share caches and connections.
///
/// Its futures are boxed here. The compiler generates code for the body of an `async fn` in every crate that awaits it,
/// and this one contains the whole HTTP and TLS client: six crates were compiled with a copy each.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// An endpoint with one of the credentials that may be used there.
#[derive(Debug, Clone)]
struct Candidate {
    place: Arc<Endpoint>,
    credential: Option<Arc<Credential>>,
    key: CandidateKey,
}

/// The identity of a candidate in caches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CandidateKey {
    place: Arc<str>,
    credential: CredentialId,
}

/// A requested document, as key of caches and requests in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DocumentKey {
    candidate: CandidateKey,
    operation: Operation,
    /// A tag or a digest.
    name: String,
}

/// A request for a document.
struct DocumentRequest<'a> {
    operation: Operation,
    reference: &'a Reference,
    /// A tag or a digest.
    name: String,
    freshness: Freshness,
}

impl<'a> DocumentRequest<'a> {
    fn new(operation: Operation, reference: &'a Reference, freshness: Freshness) -> Self {
        Self {
            operation,
            reference,
            name: reference.manifest(),
            freshness,
        }
    }
}

/// The cached state of a tag.
#[derive(Debug, Clone)]
struct Tag {
    digest: Digest,
    etag: Option<String>,
    seen: Instant,
}

struct Inner {
    settings: Arc<Settings>,
    transport: Arc<Transport>,
    counts: Arc<Counts>,
    /// The last challenge of each host, by scheme and host.
    demands: Cache<String, (Demand, String)>,
    tokens: Cache<Grant, Token>,
    /// Until when a host asked a credential to pause (`Retry-After`).
    pauses: Cache<(String, CredentialId), Instant>,
    /// Hosts that are allowed to lack TLS, and do.
    without_tls: Cache<String, ()>,
    documents: Cache<(CandidateKey, Digest), Arc<Content>, ContentBytes>,
    tags: Cache<(CandidateKey, String), Tag>,
    /// The last known versions of web files, by address and headers.
    files: Cache<(WebFile, CredentialId), FileVersion>,
    misses: Cache<DocumentKey, (Cause, Instant)>,
    reading: Flights<DocumentKey, Result<Arc<Content>, Cause>>,
    checking: Flights<DocumentKey, Result<Digest, Cause>>,
    granting: Flights<Grant, Result<Token, Cause>>,
}

/// Weighs documents by their size.
#[derive(Debug, Clone)]
struct ContentBytes;

impl Weighter<(CandidateKey, Digest), Arc<Content>> for ContentBytes {
    fn weight(&self, _: &(CandidateKey, Digest), content: &Arc<Content>) -> u64 {
        // 512 bytes for key and entry: without them a million tiny documents would weigh nothing and exceed the memory
        // that the limit promises.
        u64::try_from(content.bytes.len().saturating_add(512)).unwrap_or(u64::MAX)
    }
}

fn document_cache(bytes: u64) -> Cache<(CandidateKey, Digest), Arc<Content>, ContentBytes> {
    let entries = usize::try_from(bytes / USUAL_DOCUMENT_BYTES).unwrap_or(usize::MAX);
    let mut options = OptionsBuilder::new();
    options
        .estimated_items_capacity(entries)
        .weight_capacity(bytes)
        .shards(DOCUMENT_SHARDS);
    match options.build() {
        Ok(options) => Cache::with_options(
            options,
            ContentBytes,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        ),
        // Fails only without the two capacities, which are set above.
        Err(_) => Cache::with_weighter(entries, bytes, ContentBytes),
    }
}

impl Client {
    /// A client; no request is sent yet.
    pub fn new(settings: Settings, network: impl Into<Network>) -> Self {
        let settings = Arc::new(settings);
        let counts = Arc::new(Counts::default());
        let transport = Transport::new(Arc::clone(&settings), network.into(), Arc::clone(&counts));
        let inner = Inner {
            transport: Arc::new(transport),
            counts,
            demands: Cache::new(MAX_CACHED_ENTRIES),
            tokens: Cache::new(MAX_CACHED_ENTRIES),
            pauses: Cache::new(MAX_CACHED_ENTRIES),
            without_tls: Cache::new(MAX_CACHED_ENTRIES),
            documents: document_cache(settings.cache_bytes),
            tags: Cache::new(settings.cache_tags),
            files: Cache::new(MAX_CACHED_ENTRIES),
            misses: Cache::new(MAX_CACHED_ENTRIES),
            reading: Flights::default(),
            checking: Flights::default(),
            granting: Flights::default(),
            settings,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Replaces mirrors, proxies and CA certificates; effective from the next request on.
    pub fn set_network(&self, network: impl Into<Network>) {
        self.inner.transport.set_network(network.into());
    }

    /// The current mirrors, proxies and CA certificates.
    pub fn network(&self) -> Arc<Network> {
        self.inner.transport.network()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Whether archives and folders may be opened with this client.
    pub(crate) fn opens_local_files(&self) -> bool {
        self.inner.settings.local_files
    }

    /// The number of requests per host.
    pub fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    /// The index or manifest of a reference. One named by digest is requested at most once; one named
    /// by tag when the cached digest is too old, and then with a conditional request that costs little
    /// if it is unchanged.
    pub fn resolve<'a>(
        &'a self,
        reference: &'a Reference,
        keyring: &'a Keyring,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Arc<Content>, Error>> {
        Box::pin(async move {
            let inner = &self.inner;
            let request = DocumentRequest::new(Operation::Manifest, reference, freshness);
            let known = |candidate: &Candidate| inner.known(candidate, reference, freshness);
            let fetch =
                |inner: Arc<Inner>, candidate| inner.read(candidate, reference.clone()).boxed();
            inner
                .answer(&request, keyring, known, &inner.reading, fetch)
                .await
        })
    }

    /// The cached index or manifest, if it is fresh enough. Content read with another credential is not
    /// returned.
    pub fn known(
        &self,
        reference: &Reference,
        keyring: &Keyring,
        freshness: Freshness,
    ) -> Option<Arc<Content>> {
        let inner = &self.inner;
        let candidates = inner
            .candidates(reference, keyring, Operation::Manifest)
            .ok()?;
        let mut candidates = candidates.iter();
        candidates.find_map(|candidate| inner.known(candidate, reference, freshness))
    }

    /// The digest of a tag, without reading its manifest. HEAD requests do not count against pull
    /// quotas.
    pub fn check<'a>(
        &'a self,
        reference: &'a Reference,
        keyring: &'a Keyring,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Digest, Error>> {
        Box::pin(async move {
            if let Some(digest) = reference.digest() {
                return Ok(digest.clone());
            }
            let inner = &self.inner;
            let request = DocumentRequest::new(Operation::Check, reference, freshness);
            let known = |candidate: &Candidate| {
                let tag = inner.fresh_tag(candidate, &request.name, freshness)?;
                Some(tag.digest)
            };
            let fetch = |inner: Arc<Inner>, candidate| {
                inner.digest_of(candidate, reference.clone()).boxed()
            };
            inner
                .answer(&request, keyring, known, &inner.checking, fetch)
                .await
        })
    }

    /// A small blob, such as the config of an image: read at once, verified and cached.
    pub fn document<'a>(
        &'a self,
        reference: &'a Reference,
        digest: &'a Digest,
        size: u64,
        keyring: &'a Keyring,
    ) -> BoxFuture<'a, Result<Arc<Content>, Error>> {
        Box::pin(async move {
            let operation = Operation::Blob;
            let pinned = reference.with_digest(digest.clone());
            let inner = &self.inner;
            let limit = inner.settings.document_limit;
            if size > limit {
                let found = Some(size);
                let place = reference.host().as_str();
                return Err(Cause::TooLarge { limit, found }.at(
                    operation,
                    pinned.to_string(),
                    place,
                ));
            }
            let request = DocumentRequest::new(operation, &pinned, Freshness::Usual);
            let known = |candidate: &Candidate| inner.cached_document(candidate, digest);
            let fetch = |inner: Arc<Inner>, candidate| {
                inner.read_blob(candidate, digest.clone(), size).boxed()
            };
            inner
                .answer(&request, keyring, known, &inner.reading, fetch)
                .await
        })
    }

    /// A blob as a stream from an offset. Read from 0, it ends with an error unless the digest matches;
    /// an interrupted transfer resumes where it stopped.
    pub fn blob(
        &self,
        reference: &Reference,
        digest: &Digest,
        size: u64,
        keyring: &Keyring,
        offset: u64,
    ) -> Result<BlobStream, Error> {
        let pinned = reference.with_digest(digest.clone());
        let limit = self.inner.settings.blob_limit;
        if size > limit {
            let found = Some(size);
            let place = reference.host().as_str();
            let cause = Cause::TooLarge { limit, found };
            return Err(cause.at(Operation::Blob, pinned.to_string(), place));
        }
        let candidates = self.inner.candidates(&pinned, keyring, Operation::Blob)?;
        Ok(blob::open(
            Arc::clone(&self.inner),
            candidates,
            pinned,
            size,
            offset,
        ))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

impl Candidate {
    fn wants(&self, operation: Operation, name: &str) -> DocumentKey {
        DocumentKey {
            candidate: self.key.clone(),
            operation,
            name: name.to_owned(),
        }
    }
}

impl Inner {
    /// All pairs of endpoint and credential to try, in order.
    // Anonymous only if no credential matches: kubelet also tries all matching credentials and does not fall back to
    // none, so an image that a node could not pull is not inspected either.
    fn candidates(
        &self,
        reference: &Reference,
        keyring: &Keyring,
        operation: Operation,
    ) -> Result<Vec<Candidate>, Error> {
        let network = self.transport.network();
        let places = network.routes.endpoints(reference).map_err(|cause| {
            cause.at(operation, reference.to_string(), reference.host().as_str())
        })?;
        let mut candidates = Vec::new();
        for place in places {
            let credentials = keyring.find(&place.known_as, &place.repository);
            let name: Arc<str> = format!(
                "{:?} {}{}/{} {}",
                place.security,
                place.host,
                place.base,
                place.repository,
                place.namespace.as_deref().unwrap_or_default()
            )
            .into();
            let place = Arc::new(place);
            let mut add = |credential: Option<&Credential>| {
                candidates.push(Candidate {
                    place: Arc::clone(&place),
                    credential: credential.cloned().map(Arc::new),
                    key: CandidateKey {
                        place: Arc::clone(&name),
                        credential: CredentialId::of(credential),
                    },
                });
            };
            if credentials.is_empty() {
                add(None);
            }
            for credential in credentials {
                add(Some(credential));
            }
        }
        Ok(candidates)
    }

    /// The result of a request: a cached one, else that of the first candidate that has one. Concurrent
    /// equal requests to a candidate share one execution.
    ///
    /// Candidates are tried in order: the next credential when access is denied or nothing is found,
    /// the next endpoint on any error.
    async fn answer<T: Clone>(
        self: &Arc<Self>,
        request: &DocumentRequest<'_>,
        keyring: &Keyring,
        known: impl Fn(&Candidate) -> Option<T>,
        flights: &Flights<DocumentKey, Result<T, Cause>>,
        fetch: impl Fn(Arc<Self>, Candidate) -> BoxFuture<'static, Result<T, Cause>>,
    ) -> Result<T, Error> {
        let DocumentRequest {
            operation,
            reference,
            ref name,
            freshness,
        } = *request;
        let candidates = self.candidates(reference, keyring, operation)?;
        // All caches before the first request: a mirror that lacks the image must not be asked again while the
        // registry's answer is still fresh.
        if let Some(known) = candidates.iter().find_map(known) {
            return Ok(known);
        }
        let mut failed: Vec<(String, Cause)> = Vec::new();
        let mut given_up: Option<Arc<str>> = None;
        for candidate in &candidates {
            if given_up.as_ref() == Some(&candidate.key.place) {
                continue;
            }
            let wanted = candidate.wants(operation, name);
            let result = if let Some(cause) = self.recent_failure(&wanted, freshness) {
                Err(cause)
            } else {
                let fetch = || fetch(Arc::clone(self), candidate.clone());
                flights.join(wanted.clone(), fetch).await
            };
            match result {
                Ok(found) => return Ok(found),
                Err(cause) => {
                    let about_access =
                        matches!(cause, Cause::NotFound { .. } | Cause::Unauthorized { .. });
                    if about_access {
                        let until = Instant::now() + self.settings.negative_ttl;
                        // Reporting a cached failure again must not extend its lifetime.
                        if self.recent_failure(&wanted, Freshness::Usual).is_none() {
                            self.misses.insert(wanted, (cause.clone(), until));
                        }
                    } else {
                        // A host that cannot be reached fails for every credential; trying the next one would wait
                        // for another timeout. Only an answer about access makes the next credential worth a request.
                        given_up = Some(Arc::clone(&candidate.key.place));
                    }
                    failed.push((candidate.place.host.clone(), cause));
                }
            }
        }
        Err(Error::of(operation, reference.to_string(), failed))
    }

    /// A recent failure that a new request would repeat.
    fn recent_failure(&self, wanted: &DocumentKey, freshness: Freshness) -> Option<Cause> {
        if freshness == Freshness::Now {
            return None;
        }
        self.misses
            .get(wanted)
            .filter(|(_, until)| Instant::now() < *until)
            .map(|(cause, _)| cause)
    }

    /// A document this candidate has read before.
    fn cached_document(&self, candidate: &Candidate, digest: &Digest) -> Option<Arc<Content>> {
        self.documents.get(&(candidate.key.clone(), digest.clone()))
    }

    /// A cached tag that is fresh enough.
    fn fresh_tag(&self, candidate: &Candidate, tag: &str, freshness: Freshness) -> Option<Tag> {
        let life = match freshness {
            Freshness::Usual => self.settings.tag_ttl,
            Freshness::Within(life) => life,
            Freshness::Now => return None,
        };
        self.tags
            .get(&(candidate.key.clone(), tag.to_owned()))
            .filter(|tag| tag.seen.elapsed() < life)
    }

    /// The cached result, without a request.
    fn known(
        &self,
        candidate: &Candidate,
        reference: &Reference,
        freshness: Freshness,
    ) -> Option<Arc<Content>> {
        if let Some(digest) = reference.digest() {
            return self.cached_document(candidate, digest);
        }
        let tag = self.fresh_tag(candidate, &reference.manifest(), freshness)?;
        self.cached_document(candidate, &tag.digest)
    }

    fn keep(&self, candidate: &Candidate, content: Content) -> Arc<Content> {
        let key = (candidate.key.clone(), content.digest.clone());
        let content = Arc::new(content);
        self.documents.insert(key, Arc::clone(&content));
        content
    }
}
