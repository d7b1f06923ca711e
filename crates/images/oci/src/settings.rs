//! What can be set about the client, with the values that suit a cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use platform::AddressPolicy;

use crate::trust::{Roots, Tls};

/// How long, how much and how often.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the client calls itself.
    pub user_agent: String,
    /// For connecting, with TLS.
    pub connect_timeout: Duration,
    /// From a request to the headers of its answer.
    pub header_timeout: Duration,
    /// From one piece of a body to the next.
    pub stall_timeout: Duration,
    /// How many redirects are followed.
    pub redirects: usize,
    /// The largest index or manifest (4 MiB is the specification's).
    pub manifest_limit: u64,
    /// The largest blob that is read as a whole, such as a configuration.
    pub document_limit: u64,
    /// The largest blob that is streamed.
    pub blob_limit: u64,
    /// How failures are followed up.
    pub retry: Retry,
    /// How long a tag is believed to be what it was, where that is enough.
    pub tag_life: Duration,
    /// How long something that was not found, or was denied, is not asked for again.
    pub miss_life: Duration,
    /// Bytes of documents that are kept.
    pub cache_bytes: u64,
    /// Tags that are remembered.
    pub cache_tags: u64,
    /// Token servers (`host[:port]`) that registries may name although they are at an inner address
    /// or without TLS.
    pub trusted_realms: Vec<String>,
    /// Which addresses are connected to. It is decided after names are resolved, for every connection.
    pub addresses: AddressPolicy,
    /// Whether archives and folders are opened.
    pub local_files: bool,
    /// Authorities for all hosts.
    pub roots: Roots,
    /// Authorities and client certificates for one host each (`host[:port]`).
    pub tls: BTreeMap<String, Tls>,
}

impl Settings {
    /// For a program that a user runs: it reaches and opens what the user could reach and open without it.
    pub fn for_user(roots: Roots) -> Self {
        Self::new(roots, AddressPolicy::unrestricted(), true)
    }

    /// For a program that reads what others name: a controller, a webhook, a pod that imports. It opens no local
    /// file, since the file would be one of its own and not of the object's author.
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
            manifest_limit: 4 << 20,
            document_limit: 8 << 20,
            blob_limit: 1 << 40,
            retry: Retry::default(),
            tag_life: Duration::from_mins(1),
            miss_life: Duration::from_secs(15),
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

/// How failures are followed up.
#[derive(Clone)]
pub struct Retry {
    /// How often a registry is asked for the same before it is given up.
    pub attempts: u32,
    /// The same for mirrors, after which there is somebody else to ask.
    pub mirror_attempts: u32,
    /// How often the rest of a blob is asked for, without anything more to speak of having come.
    pub resumes: u32,
    /// The first wait; it doubles with every failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// A registry that asks for more time than this is not waited for: the caller is told.
    pub patience: Duration,
    /// Where chance comes from: a number from 0 up to 1.
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
    /// How long to wait after so many failures (from 1): between half and all of a time that doubles.
    pub fn wait(&self, failures: u32) -> Duration {
        let doubled = 2_u32
            .checked_pow(failures.saturating_sub(1))
            .and_then(|factor| self.first.checked_mul(factor))
            .unwrap_or(self.longest)
            .min(self.longest);
        let chance = (self.chance)();
        // Not a number is no chance.
        let chance = if chance.is_nan() {
            0.0
        } else {
            chance.clamp(0.0, 1.0)
        };
        doubled.mul_f64(0.5 + chance / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, 1, 125)]
    #[case(1.0, 1, 250)]
    #[case(1.0, 2, 500)]
    #[case(0.5, 3, 750)]
    #[case(1.0, 6, 8000)]
    #[case(1.0, 7, 10_000)]
    #[case(0.0, 4_000_000_000, 5000)]
    #[case(1.0, 0, 250)]
    // Whatever chance says.
    #[case(f64::INFINITY, 1, 250)]
    #[case(-7.0, 1, 125)]
    fn waits_double_up_to_a_limit(
        #[case] chance: f64,
        #[case] failures: u32,
        #[case] milliseconds: u64,
    ) {
        let retry = Retry {
            chance: Arc::new(move || chance),
            ..Retry::default()
        };
        assert_eq!(retry.wait(failures), Duration::from_millis(milliseconds));
    }
}
