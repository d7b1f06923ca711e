//! The client of registries.
//!
//! A question goes: [`Routes`] (where to ask, in order) -> [`Keyring`] (as whom, in order) -> caches ->
//! one request for all who ask the same at the same time -> authentication, retries -> verification.
//! Whatever is kept is kept for the credential that it was read with: another one is never answered
//! with it.

mod ask;
mod blob;
mod manifest;
mod refusal;
mod web;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use moka::sync::Cache;
use parking_lot::RwLock;
use platform::{Digest, Reference};
use tokio::time::Instant;

use crate::auth::{Demand, Grant, Token};
use crate::counts::Counts;
use crate::credentials::{Credential, CredentialId, Keyring};
use crate::error::{Cause, Error, Operation};
use crate::flights::Flights;
use crate::mirrors::{Endpoint, Routes};
use crate::settings::Settings;
use crate::transport::Transport;

pub use blob::BlobStream;
pub use web::{FileVersion, Headers, WebFile};

/// Hosts whose demands are remembered, tokens, failures: each is small.
const REMEMBERED: u64 = 10_000;

/// An index, a manifest, or another document, whose digest has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its name.
    pub digest: Digest,
    /// What the registry said that it is.
    pub content_type: Option<String>,
    /// Itself.
    pub bytes: Bytes,
}

/// How old an answer about a tag may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Not older than the life of tags in the settings.
    Usual,
    /// Not older than this.
    Within(Duration),
    /// The registry is asked.
    Now,
}

/// A client of registries; clones share everything.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// One place, as one of those who may ask.
#[derive(Debug, Clone)]
struct Seat {
    place: Arc<Endpoint>,
    credential: Option<Arc<Credential>>,
    key: SeatKey,
}

/// What tells seats apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SeatKey {
    place: Arc<str>,
    credential: CredentialId,
}

/// Something to ask for, in caches and among what is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wanted {
    seat: SeatKey,
    operation: Operation,
    /// A tag or a digest.
    name: String,
}

/// What somebody wants to know.
struct Question<'a> {
    operation: Operation,
    reference: &'a Reference,
    /// A tag or a digest.
    name: String,
    freshness: Freshness,
}

impl<'a> Question<'a> {
    fn new(operation: Operation, reference: &'a Reference, freshness: Freshness) -> Self {
        Self {
            operation,
            reference,
            name: reference.manifest(),
            freshness,
        }
    }
}

/// What is remembered about a tag.
#[derive(Debug, Clone)]
struct Tag {
    digest: Digest,
    etag: Option<String>,
    seen: Instant,
}

struct Inner {
    settings: Arc<Settings>,
    routes: RwLock<Arc<Routes>>,
    transport: Arc<Transport>,
    counts: Arc<Counts>,
    /// What hosts wanted to see when they were last asked, by scheme and host.
    demands: Cache<String, (Demand, String)>,
    tokens: Cache<Grant, Token>,
    /// Until when a host wants to be left alone by whom.
    pauses: Cache<(String, CredentialId), Instant>,
    /// Hosts that need no TLS and have none.
    without_tls: Cache<String, ()>,
    documents: Cache<(SeatKey, Digest), Arc<Content>>,
    tags: Cache<(SeatKey, String), Tag>,
    /// What web servers said of files, by address and headers.
    files: Cache<(WebFile, CredentialId), FileVersion>,
    misses: Cache<Wanted, (Cause, Instant)>,
    reading: Flights<Wanted, Result<Arc<Content>, Cause>>,
    checking: Flights<Wanted, Result<Digest, Cause>>,
    granting: Flights<Grant, Result<Token, Cause>>,
}

impl Client {
    /// A client. Nothing is asked yet.
    pub fn new(settings: Settings, routes: Routes) -> Self {
        let settings = Arc::new(settings);
        let counts = Arc::new(Counts::default());
        let documents = Cache::builder()
            .max_capacity(settings.cache_bytes)
            .weigher(|_: &(SeatKey, Digest), content: &Arc<Content>| {
                u32::try_from(content.bytes.len().saturating_add(512)).unwrap_or(u32::MAX)
            })
            .build();
        let inner = Inner {
            transport: Arc::new(Transport::new(Arc::clone(&settings), Arc::clone(&counts))),
            routes: RwLock::new(Arc::new(routes)),
            counts,
            demands: Cache::new(REMEMBERED),
            tokens: Cache::new(REMEMBERED),
            pauses: Cache::new(REMEMBERED),
            without_tls: Cache::new(REMEMBERED),
            documents,
            tags: Cache::new(settings.cache_tags),
            files: Cache::new(REMEMBERED),
            misses: Cache::new(REMEMBERED),
            reading: Flights::default(),
            checking: Flights::default(),
            granting: Flights::default(),
            settings,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Changes where images come from, from the next question on.
    pub fn set_routes(&self, routes: Routes) {
        *self.inner.routes.write() = Arc::new(routes);
    }

    /// Whether sources in archives and folders may be opened beside this client.
    pub(crate) fn opens_local_files(&self) -> bool {
        self.inner.settings.local_files
    }

    /// How often which host was asked.
    pub fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    /// The index or manifest that a reference names. One that is named by digest is asked for at most
    /// once; one that is named by tag when what is known is too old, and then in a way that costs
    /// little if it is still the same.
    pub async fn resolve(
        &self,
        reference: &Reference,
        keyring: &Keyring,
        freshness: Freshness,
    ) -> Result<Arc<Content>, Error> {
        let inner = &self.inner;
        let question = Question::new(Operation::Manifest, reference, freshness);
        let known = |seat: &Seat| inner.known(seat, reference, freshness);
        inner
            .answer(&question, keyring, known, &inner.reading, |inner, seat| {
                inner.read(seat, reference.clone()).boxed()
            })
            .await
    }

    /// The same, if it is known well enough to be told without asking anybody. What was read as
    /// somebody else is not known.
    pub fn known(
        &self,
        reference: &Reference,
        keyring: &Keyring,
        freshness: Freshness,
    ) -> Option<Arc<Content>> {
        let inner = &self.inner;
        let seats = inner.seats(reference, keyring, Operation::Manifest).ok()?;
        let mut seats = seats.iter();
        seats.find_map(|seat| inner.known(seat, reference, freshness))
    }

    /// The digest that a tag has, without reading what it names. Costs no quota where reading does.
    pub async fn check(
        &self,
        reference: &Reference,
        keyring: &Keyring,
        freshness: Freshness,
    ) -> Result<Digest, Error> {
        if let Some(digest) = reference.digest() {
            return Ok(digest.clone());
        }
        let inner = &self.inner;
        let question = Question::new(Operation::Check, reference, freshness);
        let known = |seat: &Seat| {
            let tag = inner.fresh(seat, &question.name, freshness)?;
            Some(tag.digest)
        };
        inner
            .answer(&question, keyring, known, &inner.checking, |inner, seat| {
                inner.digest_of(seat, reference.clone()).boxed()
            })
            .await
    }

    /// A blob that is a document, such as the configuration of an image: whole, checked, and kept.
    pub async fn document(
        &self,
        reference: &Reference,
        digest: &Digest,
        size: u64,
        keyring: &Keyring,
    ) -> Result<Arc<Content>, Error> {
        let operation = Operation::Blob;
        let pinned = reference.with_digest(digest.clone());
        let inner = &self.inner;
        let limit = inner.settings.document_limit;
        if size > limit {
            let found = Some(size);
            let place = reference.host().as_str();
            return Err(Cause::TooLarge { limit, found }.at(operation, pinned.to_string(), place));
        }
        let question = Question::new(operation, &pinned, Freshness::Usual);
        let known = |seat: &Seat| inner.kept(seat, digest);
        inner
            .answer(&question, keyring, known, &inner.reading, |inner, seat| {
                inner.read_blob(seat, digest.clone(), size).boxed()
            })
            .await
    }

    /// A blob as a stream, from an offset on. If it is read from its beginning, the end is an error
    /// unless the digest is right; what breaks off is asked for again from where it did.
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
        let seats = self.inner.seats(&pinned, keyring, Operation::Blob)?;
        Ok(blob::open(
            Arc::clone(&self.inner),
            seats,
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

impl Seat {
    fn wants(&self, operation: Operation, name: &str) -> Wanted {
        Wanted {
            seat: self.key.clone(),
            operation,
            name: name.to_owned(),
        }
    }
}

impl Inner {
    /// Everywhere and as everyone that may be asked, in order.
    fn seats(
        &self,
        reference: &Reference,
        keyring: &Keyring,
        operation: Operation,
    ) -> Result<Vec<Seat>, Error> {
        let routes = Arc::clone(&self.routes.read());
        let places = routes.endpoints(reference).map_err(|cause| {
            cause.at(operation, reference.to_string(), reference.host().as_str())
        })?;
        let mut seats = Vec::new();
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
                seats.push(Seat {
                    place: Arc::clone(&place),
                    credential: credential.cloned().map(Arc::new),
                    key: SeatKey {
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
        Ok(seats)
    }

    /// The answer to a question: one that is known, else that of the first seat that has one. Who asks
    /// the same of the same seat at the same time gets the same.
    ///
    /// Seats are tried in order: the next credential when access is denied or nothing is seen, the next
    /// place whatever goes wrong.
    async fn answer<T: Clone>(
        self: &Arc<Self>,
        question: &Question<'_>,
        keyring: &Keyring,
        known: impl Fn(&Seat) -> Option<T>,
        flights: &Flights<Wanted, Result<T, Cause>>,
        ask: impl Fn(Arc<Self>, Seat) -> BoxFuture<'static, Result<T, Cause>>,
    ) -> Result<T, Error> {
        let Question {
            operation,
            reference,
            ref name,
            freshness,
        } = *question;
        let seats = self.seats(reference, keyring, operation)?;
        if let Some(known) = seats.iter().find_map(known) {
            return Ok(known);
        }
        let mut failed: Vec<(String, Cause)> = Vec::new();
        let mut given_up: Option<Arc<str>> = None;
        for seat in &seats {
            if given_up.as_ref() == Some(&seat.key.place) {
                continue;
            }
            let wanted = seat.wants(operation, name);
            let result = if let Some(cause) = self.missed(&wanted, freshness) {
                Err(cause)
            } else {
                let ask = || ask(Arc::clone(self), seat.clone());
                flights.join(wanted.clone(), ask).await
            };
            match result {
                Ok(found) => return Ok(found),
                Err(cause) => {
                    let about_access =
                        matches!(cause, Cause::NotFound { .. } | Cause::Unauthorized { .. });
                    if about_access {
                        let until = Instant::now() + self.settings.miss_life;
                        // An old failure does not live longer because it is told again.
                        if self.missed(&wanted, Freshness::Usual).is_none() {
                            self.misses.insert(wanted, (cause.clone(), until));
                        }
                    } else {
                        given_up = Some(Arc::clone(&seat.key.place));
                    }
                    failed.push((seat.place.host.clone(), cause));
                }
            }
        }
        Err(Error::of(operation, reference.to_string(), failed))
    }

    /// What went wrong a short while ago, and would again.
    fn missed(&self, wanted: &Wanted, freshness: Freshness) -> Option<Cause> {
        if freshness == Freshness::Now {
            return None;
        }
        self.misses
            .get(wanted)
            .filter(|(_, until)| Instant::now() < *until)
            .map(|(cause, _)| cause)
    }

    /// A document that this seat has read before.
    fn kept(&self, seat: &Seat, digest: &Digest) -> Option<Arc<Content>> {
        self.documents.get(&(seat.key.clone(), digest.clone()))
    }

    /// A tag, if it is young enough.
    fn fresh(&self, seat: &Seat, tag: &str, freshness: Freshness) -> Option<Tag> {
        let life = match freshness {
            Freshness::Usual => self.settings.tag_life,
            Freshness::Within(life) => life,
            Freshness::Now => return None,
        };
        self.tags
            .get(&(seat.key.clone(), tag.to_owned()))
            .filter(|tag| tag.seen.elapsed() < life)
    }

    /// What is known without asking.
    fn known(
        &self,
        seat: &Seat,
        reference: &Reference,
        freshness: Freshness,
    ) -> Option<Arc<Content>> {
        if let Some(digest) = reference.digest() {
            return self.kept(seat, digest);
        }
        let tag = self.fresh(seat, &reference.manifest(), freshness)?;
        self.kept(seat, &tag.digest)
    }

    fn keep(&self, seat: &Seat, content: Content) -> Arc<Content> {
        let key = (seat.key.clone(), content.digest.clone());
        let content = Arc::new(content);
        self.documents.insert(key, Arc::clone(&content));
        content
    }
}
