//! Registry lookups, kept for one session.
//!
//! The console asks registries only on request and without credentials: images that an account of
//! the cluster may pull are not for every user who sees its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster_view::placement::inspect_images;
use machinery::time::human_duration;
use oci::{Client, Keyring, Network, Routes, Settings};
use parking_lot::Mutex;
use placement::Inspection;
use platform::Source;

use crate::Options;

/// Timeout of all lookups.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(20);
/// Images per request.
const MAX_IMAGES: usize = 200;

/// The results.
#[derive(Default)]
pub(crate) struct RegistryLookups {
    lookups: Mutex<Lookups>,
}

#[derive(Default)]
struct Lookups {
    known: BTreeMap<String, Inspection>,
    at: Option<Instant>,
}

/// A registry, and its state.
pub(super) struct Registry {
    pub(super) host: String,
    pub(super) images: usize,
    pub(super) failed: usize,
    /// Its last error.
    pub(super) failure: String,
}

impl RegistryLookups {
    /// Asks the registries, the named ones without TLS; returns a summary.
    pub(super) async fn ask(
        &self,
        images: BTreeSet<String>,
        insecure: Vec<String>,
        options: &Options,
    ) -> String {
        let all = images.len();
        // A name that is a path would be read from this host.
        let remote = |name: &String| host(name).is_some();
        let images: BTreeSet<String> = images.into_iter().filter(remote).take(MAX_IMAGES).collect();
        let asked = images.len();
        let roots = options.registries.settings().roots.clone();
        let mut settings = Settings::for_service(roots, options.addresses.clone());
        // A user waits for the answer, so failed lookups are not retried.
        settings.retry.attempts = 1;
        let mut network = Network::clone(&options.registries.network());
        let insecure = insecure.into_iter();
        network.routes = insecure.fold(network.routes, Routes::with_insecure);
        let client = Client::new(settings, network);
        // Without credentials: the console has none of its own, and pull secrets may be readable by
        // the user without being theirs to use from here.
        let keyring = Arc::new(Keyring::anonymous());
        let looking = inspect_images(images, &client, &keyring);
        let Ok(known) = tokio::time::timeout(LOOKUP_TIMEOUT, looking).await else {
            return format!(
                "Registries did not answer within {} seconds.",
                LOOKUP_TIMEOUT.as_secs()
            );
        };
        *self.lookups.lock() = Lookups {
            known,
            at: Some(Instant::now()),
        };
        let images = if asked == 1 { "image" } else { "images" };
        match all - asked {
            0 => format!("Registries were queried for {asked} {images}."),
            rest => format!("Registries were queried for {asked} {images}; {rest} were skipped."),
        }
    }

    /// The known platforms of images.
    pub(super) fn known(&self) -> BTreeMap<String, Inspection> {
        self.lookups.lock().known.clone()
    }

    /// Age of the lookups.
    pub(super) fn age(&self) -> Option<String> {
        let elapsed = self.lookups.lock().at?.elapsed();
        jiff::SignedDuration::try_from(elapsed)
            .ok()
            .map(human_duration)
    }

    /// State of the registries, by host.
    pub(super) fn registries(&self) -> Vec<Registry> {
        let lookups = self.lookups.lock();
        let mut registries: BTreeMap<String, Registry> = BTreeMap::new();
        for (image, known) in &lookups.known {
            let Some(host) = host(image) else { continue };
            let registry = registries.entry(host.clone()).or_insert_with(|| Registry {
                host,
                images: 0,
                failed: 0,
                failure: String::new(),
            });
            registry.images += 1;
            if let Inspection::Uninspectable(why) = known {
                registry.failed += 1;
                registry.failure.clone_from(&why.message);
            }
        }
        registries.into_values().collect()
    }
}

/// The registry of an image; `None` if it is not in a registry.
fn host(image: &str) -> Option<String> {
    let source: Source = image.parse().ok()?;
    source.reference().map(|it| it.host().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_paths_are_not_read() {
        assert_eq!(host("quay.io/x/y:1").as_deref(), Some("quay.io"));
        assert_eq!(host("nginx").as_deref(), Some("docker.io"));
        assert_eq!(host("oci-archive:/etc/passwd"), None);
        assert_eq!(host("oci:/etc"), None);
    }
}
