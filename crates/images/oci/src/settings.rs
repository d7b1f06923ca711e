//! Settings of the client, with defaults for use in a cluster.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use platform::AddressPolicy;

use crate::trust::{Roots, Tls};

/// Timeouts, limits and policies of a client.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The timeout for connecting, including TLS.
    pub connect_timeout: Duration,
    /// The timeout from a request to its response headers.
    pub header_timeout: Duration,
    /// The timeout from one chunk of a body to the next.
    pub stall_timeout: Duration,
    /// The maximum number of redirects.
    pub redirects: usize,
    /// The maximum size of an index or manifest (4 MiB is the specification's).
    pub manifest_limit: u64,
    /// The maximum size of a blob read at once, such as a config.
    pub document_limit: u64,
    /// The maximum size of a streamed blob.
    pub blob_limit: u64,
    /// The retry policy.
    pub retry: Retry,
    /// How long the digest of a tag is cached under [`Freshness::Usual`](crate::Freshness::Usual).
    pub tag_ttl: Duration,
    /// How long a 404 or denied access is cached.
    pub negative_ttl: Duration,
    /// The size of the document cache in bytes.
    pub cache_bytes: u64,
    /// The number of cached tags.
    pub cache_tags: usize,
    /// Token servers (`host[:port]`) that registries may name although they are at an internal address
    /// or lack TLS.
    pub trusted_realms: Vec<String>,
    /// Which addresses may be connected to. Checked after name resolution, for every connection.
    pub addresses: AddressPolicy,
    /// Whether archives and folders may be opened.
    pub local_files: bool,
    /// CA certificates for all hosts.
    pub roots: Roots,
    /// CA and client certificates of single hosts (`host[:port]`).
    pub tls: BTreeMap<String, Tls>,
}

impl Settings {
    /// For a program run by a user: it may reach and open whatever the user could without it.
    pub fn for_user(roots: Roots) -> Self {
        Self::new(roots, AddressPolicy::unrestricted(), true)
    }

    /// For a program that reads images named by others: a controller, a webhook, an importer pod. It
    /// opens no local file, as that would be a file of the pod, not of the object's author.
    pub fn for_service(roots: Roots, addresses: AddressPolicy) -> Self {
        Self::new(roots, addresses, false)
    }

    fn new(roots: Roots, addresses: AddressPolicy, local_files: bool) -> Self {
        Self {
            user_agent: format!("medley/{}", env!("CARGO_PKG_VERSION")),
            connect_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_mins(1),
            redirects: 10,
            // distribution accepts no larger manifest (`maxManifestBodySize` in `registry/handlers/manifests.go`), so
            // none exists in a registry built on it.
            manifest_limit: 4 << 20,
            document_limit: 8 << 20,
            blob_limit: 1 << 40,
            retry: Retry::default(),
            tag_ttl: Duration::from_mins(1),
            // Short: an image that is pushed a moment after its pod was created should not be missing for minutes.
            // Long enough that a ReplicaSet of a hundred pods with a wrong tag causes one request.
            negative_ttl: Duration::from_secs(15),
            cache_bytes: 64 << 20,
            cache_tags: 10_000,
            trusted_realms: Vec::new(),
            addresses,
            local_files,
            roots,
            tls: BTreeMap::new(),
        }
    }
}

/// The retry policy.
#[derive(Clone)]
pub struct Retry {
    /// Attempts per registry.
    pub attempts: u32,
    /// Attempts per mirror; further endpoints follow after it.
    pub mirror_attempts: u32,
    /// How often an interrupted blob is resumed without significant progress in between.
    pub resumes: u32,
    /// The first wait; it doubles with every failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// A `Retry-After` longer than this is not waited for but returned to the caller.
    pub patience: Duration,
    /// The source of jitter: a number in 0..1.
    pub chance: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 4,
            mirror_attempts: 2,
            resumes: 6,
            first: Duration::from_millis(250),
            longest: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            chance: Arc::new(fastrand::f64),
        }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("mirror_attempts", &self.mirror_attempts)
            .field("first", &self.first)
            .field("longest", &self.longest)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl Retry {
    /// The wait after this many failures (from 1): between half and all of a duration that doubles.
    pub fn wait(&self, failures: u32) -> Duration {
        let doubled = 2_u32
            .checked_pow(failures.saturating_sub(1))
            .and_then(|factor| self.first.checked_mul(factor))
            .unwrap_or(self.longest)
            .min(self.longest);
        let chance = (self.chance)();
        // NaN counts as no jitter.
        let chance = if chance.is_nan() {
            0.0
        } else {
            chance.clamp(0.0, 1.0)
        };
        doubled.mul_f64(0.5 + chance / 2.0)
    }
}
