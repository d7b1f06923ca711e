//! What images are for, by the registries that have them.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use importer::{platforms_within, told};
use moka::sync::Cache;
use oci::{Client, Freshness, Image, Keyring, Roots, Routes, Settings};
use placement::{Knowledge, Uninspectable, Used};
use platform::{AddressPolicy, Digest, Reference, Source};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How old an answer about a tag may be if nodes do not ask about it either, once they have the image.
const USUAL: Duration = Duration::from_mins(10);
/// How old it may be if nodes ask every time.
const ALWAYS: Duration = Duration::from_mins(1);
/// Digests whose platforms are remembered: each is a few hundred bytes.
const DIGESTS: u64 = 50_000;
/// Registries that are remembered. Users name them, so that there may be any number.
const HOSTS: u64 = 10_000;
/// How many questions a registry is asked at a time. One that does not answer keeps no others waiting.
const AT_A_TIME: usize = 16;
/// How long an image is looked at, with all that is tried again.
const LONGEST: Duration = Duration::from_secs(20);
/// For how long a registry that failed is taken to be out of order, if nobody has asked it again.
const MEMORY: Duration = Duration::from_secs(30);

/// Registries, and what they said; clones share everything.
///
/// Nobody is told what was read with somebody else's credentials: what an image is for is remembered by
/// its digest, and who asks has to have seen the digest under the name of the image themselves.
#[derive(Clone)]
pub struct Registries {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// What nodes show to registries, whoever the pod is of.
    nodes: Keyring,
    platforms: Cache<Digest, Knowledge>,
    outages: Cache<String, Outage>,
    desks: Cache<String, Arc<Semaphore>>,
}

/// A registry that is out of order.
#[derive(Debug, Clone)]
struct Outage {
    since: Instant,
    last: Instant,
    /// What it said last, or that it said nothing.
    message: Arc<str>,
}

/// Why nobody could look at an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What is known of it, therefore.
    pub known: Uninspectable,
    /// How long the registry wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// As what is known of an image.
    pub fn knowledge(&self) -> Knowledge {
        Knowledge::Uninspectable(self.known.clone())
    }
}

impl fmt::Debug for Registries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registries")
            .field("client", &self.inner.client)
            .finish_non_exhaustive()
    }
}

impl Default for Registries {
    /// All registries at addresses that need no permission, by TLS and what the system believes, with what pods
    /// bring along and nothing else.
    fn default() -> Self {
        let settings = Settings::for_service(Roots::of_system(), AddressPolicy::default());
        let client = Client::new(settings, Routes::direct());
        Self::new(client, Keyring::anonymous())
    }
}

impl Registries {
    /// Registries as this client reaches them. `nodes` is what nodes show to registries besides what pods
    /// bring along.
    pub fn new(client: Client, nodes: Keyring) -> Self {
        Self {
            inner: Arc::new(Inner {
                client,
                nodes,
                platforms: Cache::new(DIGESTS),
                outages: Cache::new(HOSTS),
                desks: Cache::new(HOSTS),
            }),
        }
    }

    /// The client, for other jobs that read images which objects name: with the same addresses, mirrors and trust.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// What nodes show to registries.
    pub(crate) fn nodes(&self) -> &Keyring {
        &self.inner.nodes
    }

    /// How often which registry was asked.
    pub fn counts(&self) -> &oci::Counts {
        self.inner.client.counts()
    }

    /// What an image is for, if that can be told without asking anybody.
    pub fn known(&self, used: &Used, keyring: &Keyring) -> Option<Knowledge> {
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

    /// What an image is for. Who asks the same at the same time shares the question.
    pub async fn look(&self, used: &Used, keyring: &Arc<Keyring>) -> Result<Knowledge, Failure> {
        let reference: Reference = match used.image.parse() {
            Ok(reference) => reference,
            Err(error) => return Ok(unreadable(&error)),
        };
        let host = reference.host().to_string();
        let desk = self
            .inner
            .desks
            .get_with(host.clone(), || Arc::new(Semaphore::new(AT_A_TIME)));
        // Nobody closes it.
        let _turn = desk.acquire().await;
        let asking = self.ask(used, reference, keyring);
        let looked = tokio::time::timeout(LONGEST, asking).await;
        let looked = looked.unwrap_or_else(|_| Err(late(&host)));
        match &looked {
            Err(failure) if failure.known.passing => self.failed(host, &failure.known.message),
            _ => self.inner.outages.invalidate(&host),
        }
        looked
    }

    async fn ask(
        &self,
        used: &Used,
        reference: Reference,
        keyring: &Arc<Keyring>,
    ) -> Result<Knowledge, Failure> {
        let client = &self.inner.client;
        let freshness = freshness(used);
        let content = client
            .resolve(&reference, keyring, freshness)
            .await
            .map_err(|error| Failure {
                known: Uninspectable {
                    message: told(&error),
                    passing: error.is_transient(),
                },
                retry_after: error.retry_after(),
            })?;
        if let Some(known) = self.inner.platforms.get(&content.digest) {
            return Ok(known);
        }
        let source = Source::Registry(reference);
        let inspected = async {
            let image = Image::open(&source, client, Arc::clone(keyring)).await?;
            platforms_within(&image, &used.image, freshness).await
        };
        let inspection = inspected.await.map_err(|error| Failure {
            known: Uninspectable {
                message: told(&error),
                passing: error.is_transient(),
            },
            retry_after: error.retry_after(),
        })?;
        let known = if inspection.platforms.is_empty() {
            Knowledge::Anywhere
        } else {
            let platforms = inspection.platforms.into_iter();
            Knowledge::Platforms(platforms.map(|entry| entry.platform).collect())
        };
        // What was not all there may be there the next time.
        if inspection.complete {
            let digest = inspection.digest.clone();
            self.inner.platforms.insert(digest, known.clone());
        }
        Ok(known)
    }

    fn failed(&self, host: String, message: &str) {
        let now = Instant::now();
        let before = self.inner.outages.get(&host);
        let since = match before.filter(|it| now.duration_since(it.last) < MEMORY) {
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

    /// What is said of an image whose registry has been out of order for so long already that nobody
    /// needs to wait for it again.
    pub fn given_up(&self, used: &Used, patience: Duration) -> Option<Knowledge> {
        let reference: Reference = used.image.parse().ok()?;
        let host = reference.host().to_string();
        let outage = self.inner.outages.get(&host)?;
        let now = Instant::now();
        let lasts = now.duration_since(outage.last) < MEMORY;
        (lasts && now.duration_since(outage.since) >= patience).then(|| {
            let message = format!(
                "{host} has been out of order for {} s: {}",
                now.duration_since(outage.since).as_secs(),
                outage.message
            );
            Knowledge::Uninspectable(Uninspectable {
                message,
                passing: true,
            })
        })
    }
}

fn freshness(used: &Used) -> Freshness {
    Freshness::Within(if used.always { ALWAYS } else { USUAL })
}

fn late(host: &str) -> Failure {
    Failure {
        known: Uninspectable {
            message: format!("{host} does not answer"),
            passing: true,
        },
        retry_after: None,
    }
}

/// A kubelet will say the same.
fn unreadable(error: &platform::ReferenceError) -> Knowledge {
    Knowledge::Uninspectable(Uninspectable {
        message: told(error),
        passing: false,
    })
}
