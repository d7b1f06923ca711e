//! The platforms of images, read from registries and cached.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oci::resolve::platforms_within;
use oci::{Client, Freshness, Image, Keyring, Network, Roots, Routes, Settings, error_chain};
use placement::{ImageUse, Inspection, Uninspectable};
use platform::{AddressPolicy, Digest, Reference, Source};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::inspect::inspection_of;

/// How old the digest of a tag may be if the pull policy lets nodes use an image they have.
const TAG_TTL: Duration = Duration::from_mins(10);
/// How old it may be with pull policy `Always`.
const TAG_TTL_PULL_ALWAYS: Duration = Duration::from_mins(1);
/// Digests whose platforms are cached: a few hundred bytes each.
const MAX_DIGESTS: usize = 50_000;
/// Registries whose state is cached. Users name them in pods, so the number needs a bound.
const MAX_HOSTS: usize = 10_000;
/// Concurrent requests per registry. The limit is per host, so that a slow registry does not delay
/// others.
const REQUESTS_PER_HOST: usize = 16;
/// How long the inspection of an image may take, with all retries.
// Longer than an admission request may wait: the caller gives up first and gates the pod, and the inspection goes on
// and fills the cache for the controller.
const INSPECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a failed registry counts as unavailable if it is not contacted again.
const OUTAGE_TTL: Duration = Duration::from_secs(30);

/// Registries and the cache of their responses; clones share it.
///
/// Results read with one pod's credentials do not leak to another pod: platforms are cached by digest,
/// and a caller has to resolve the digest from the image name with its own credentials first.
#[derive(Clone)]
pub struct Registries {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// The network that the process is configured with, before that of the cluster is added.
    own_network: Arc<Network>,
    /// The node's credentials for registries, used for all pods.
    nodes: Keyring,
    platforms: Cache<Digest, Inspection>,
    outages: Cache<String, Outage>,
    host_permits: Cache<String, Arc<Semaphore>>,
}

/// An unavailable registry.
#[derive(Debug, Clone)]
struct Outage {
    since: Instant,
    last: Instant,
    /// The last error, or that it did not answer.
    message: Arc<str>,
}

/// Why an image could not be inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What is known about the image then.
    pub known: Uninspectable,
    /// The registry's `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl fmt::Debug for Registries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registries")
            .field("client", &self.inner.client)
            .finish_non_exhaustive()
    }
}

impl Default for Registries {
    /// Registries at public addresses, with TLS and the system's CA certificates, and only the
    /// credentials of pods.
    fn default() -> Self {
        let settings = Settings::for_service(Roots::of_system(), AddressPolicy::default());
        let client = Client::new(settings, Routes::direct());
        Self::new(client, Keyring::anonymous())
    }
}

impl Registries {
    /// Registries reached with this client. `nodes` are the node's credentials, used besides those of
    /// pods.
    pub fn new(client: Client, nodes: Keyring) -> Self {
        Self {
            inner: Arc::new(Inner {
                own_network: client.network(),
                client,
                nodes,
                platforms: Cache::new(MAX_DIGESTS),
                outages: Cache::new(MAX_HOSTS),
                host_permits: Cache::new(MAX_HOSTS),
            }),
        }
    }

    /// The client, for other controllers that read images named in objects: same address rules, mirrors
    /// and CAs.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The network that the process is configured with.
    pub(crate) fn own_network(&self) -> &Network {
        &self.inner.own_network
    }

    /// The node's credentials.
    pub(crate) fn nodes(&self) -> &Keyring {
        &self.inner.nodes
    }

    /// The number of requests per registry.
    pub fn counts(&self) -> &oci::Counts {
        self.inner.client.counts()
    }

    /// The platforms of an image if they are cached.
    pub fn known(&self, used: &ImageUse, keyring: &Keyring) -> Option<Inspection> {
        let reference: Reference = match used.image.parse() {
            Ok(reference) => reference,
            Err(error) => return Some(unreadable(&error)),
        };
        let content = self
            .inner
            .client
            .known(&reference, keyring, freshness(used))?;
        self.inner.platforms.get(&content.digest)
    }

    /// The platforms of an image. Concurrent callers share a request.
    pub async fn inspect(
        &self,
        used: &ImageUse,
        keyring: &Arc<Keyring>,
    ) -> Result<Inspection, Failure> {
        let reference: Reference = match used.image.parse() {
            Ok(reference) => reference,
            Err(error) => return Ok(unreadable(&error)),
        };
        let host = reference.host().to_string();
        let permits = || Ok::<_, Infallible>(Arc::new(Semaphore::new(REQUESTS_PER_HOST)));
        let Ok(permits) = self.inner.host_permits.get_or_insert_with(&host, permits);
        // The semaphore is never closed.
        // Waiting for a permit is outside of the timeout: a queue of inspections at a slow registry is no evidence
        // that the registry is unavailable.
        let _permit = permits.acquire().await;
        let asking = self.ask(used, reference, keyring);
        let looked = tokio::time::timeout(INSPECTION_TIMEOUT, asking).await;
        let looked = looked.unwrap_or_else(|_| Err(timed_out(&host)));
        match &looked {
            Err(failure) if failure.known.transient => self.failed(host, &failure.known.message),
            // 404 and 401 end an outage, too: the registry answered.
            _ => drop(self.inner.outages.remove(&host)),
        }
        looked
    }

    async fn ask(
        &self,
        used: &ImageUse,
        reference: Reference,
        keyring: &Arc<Keyring>,
    ) -> Result<Inspection, Failure> {
        let client = &self.inner.client;
        let freshness = freshness(used);
        let content = client
            .resolve(&reference, keyring, freshness)
            .await
            .map_err(|error| failure(&error, error.is_transient(), error.retry_after()))?;
        // By digest, after the tag was resolved with this pod's credentials: a user who may not pull an image cannot
        // learn its platforms from the cache of another.
        if let Some(known) = self.inner.platforms.get(&content.digest) {
            return Ok(known);
        }
        let source = Source::Registry(reference);
        let inspected = async {
            let image = Image::open(&source, client, Arc::clone(keyring)).await?;
            platforms_within(&image, &used.image, freshness).await
        };
        let inspection = inspected
            .await
            .map_err(|error| failure(&error, error.is_transient(), error.retry_after()))?;
        let (digest, complete) = (inspection.digest.clone(), inspection.complete);
        let known = inspection_of(inspection);
        // An incomplete inspection is not cached: the rest may be there the next time.
        if complete {
            self.inner.platforms.insert(digest, known.clone());
        }
        Ok(known)
    }

    fn failed(&self, host: String, message: &str) {
        let now = Instant::now();
        let before = self.inner.outages.get(&host);
        let since = match before.filter(|it| now.duration_since(it.last) < OUTAGE_TTL) {
            // A registry that fails again within `OUTAGE_TTL` continues its outage. Without that, `given_up` would
            // restart its clock with each pod and pods would wait for the full limit every time.
            Some(before) => before.since,
            None => now,
        };
        let outage = Outage {
            since,
            last: now,
            message: message.into(),
        };
        self.inner.outages.insert(host, outage);
    }

    /// The knowledge about an image whose registry has been unavailable for at least `outage_limit`, so
    /// that callers need not wait for it again.
    pub fn given_up(&self, used: &ImageUse, outage_limit: Duration) -> Option<Inspection> {
        let reference: Reference = used.image.parse().ok()?;
        let host = reference.host().to_string();
        let outage = self.inner.outages.get(&host)?;
        let now = Instant::now();
        let lasts = now.duration_since(outage.last) < OUTAGE_TTL;
        (lasts && now.duration_since(outage.since) >= outage_limit).then(|| {
            let message = format!(
                "{host} has been unavailable for {} s: {}",
                now.duration_since(outage.since).as_secs(),
                outage.message
            );
            Inspection::Uninspectable(Uninspectable {
                message,
                transient: true,
            })
        })
    }
}

fn freshness(used: &ImageUse) -> Freshness {
    Freshness::Within(if used.always {
        TAG_TTL_PULL_ALWAYS
    } else {
        TAG_TTL
    })
}

fn failure(
    error: &dyn std::error::Error,
    transient: bool,
    retry_after: Option<Duration>,
) -> Failure {
    let message = error_chain(error);
    Failure {
        known: Uninspectable { message, transient },
        retry_after,
    }
}

fn timed_out(host: &str) -> Failure {
    Failure {
        known: Uninspectable {
            message: format!("{host} does not answer"),
            transient: true,
        },
        retry_after: None,
    }
}

/// The image reference is invalid; the kubelet rejects it as well.
fn unreadable(error: &platform::ReferenceError) -> Inspection {
    Inspection::Uninspectable(Uninspectable {
        message: error_chain(error),
        transient: false,
    })
}
