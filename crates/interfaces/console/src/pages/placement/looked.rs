//! What registries said of images, for one user and for a while.
//!
//! Registries are asked when somebody wants to know, without credentials: what an account of the cluster may
//! pull is not for everybody who sees its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use importer::knowledge;
use machinery::time::human_duration;
use oci::{Client, Keyring, Roots, Routes, Settings};
use parking_lot::Mutex;
use placement::Knowledge;
use platform::{AddressPolicy, Source};

/// How long registries have.
const PATIENCE: Duration = Duration::from_secs(20);
/// So many images are asked about at once.
const MOST: usize = 200;

/// What was said.
#[derive(Default)]
pub(crate) struct Looked {
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    known: BTreeMap<String, Knowledge>,
    at: Option<Instant>,
}

/// A registry, and how it answers.
pub(super) struct Registry {
    pub(super) host: String,
    pub(super) images: usize,
    pub(super) failed: usize,
    /// What it said last that was no answer.
    pub(super) failure: String,
}

impl Looked {
    /// Asks registries, those that are named without TLS; what came of it, in a sentence.
    pub(super) async fn ask(
        &self,
        images: BTreeSet<String>,
        insecure: Vec<String>,
        addresses: &AddressPolicy,
    ) -> String {
        let all = images.len();
        // A name that is a path would be read from this machine.
        let remote = |name: &String| host(name).is_some();
        let images: BTreeSet<String> = images.into_iter().filter(remote).take(MOST).collect();
        let asked = images.len();
        let mut settings = Settings::for_service(Roots::of_system(), addresses.clone());
        // Somebody waits for the answer.
        settings.retry.attempts = 1;
        let routes = insecure.into_iter();
        let routes = routes.fold(Routes::direct(), Routes::with_insecure);
        let client = Client::new(settings, routes);
        let keyring = Arc::new(Keyring::anonymous());
        let looking = knowledge(images, &client, &keyring);
        let Ok(known) = tokio::time::timeout(PATIENCE, looking).await else {
            return format!(
                "Registries did not answer within {} seconds.",
                PATIENCE.as_secs()
            );
        };
        *self.said.lock() = Said {
            known,
            at: Some(Instant::now()),
        };
        let images = if asked == 1 { "image" } else { "images" };
        match all - asked {
            0 => format!("Registries were asked about {asked} {images}."),
            rest => format!("Registries were asked about {asked} {images}; {rest} were left out."),
        }
    }

    /// What images are for.
    pub(super) fn known(&self) -> BTreeMap<String, Knowledge> {
        self.said.lock().known.clone()
    }

    /// How long ago they were asked.
    pub(super) fn age(&self) -> Option<String> {
        let elapsed = self.said.lock().at?.elapsed();
        jiff::SignedDuration::try_from(elapsed)
            .ok()
            .map(human_duration)
    }

    /// How registries answer, by host.
    pub(super) fn registries(&self) -> Vec<Registry> {
        let said = self.said.lock();
        let mut registries: BTreeMap<String, Registry> = BTreeMap::new();
        for (image, known) in &said.known {
            let Some(host) = host(image) else { continue };
            let registry = registries.entry(host.clone()).or_insert_with(|| Registry {
                host,
                images: 0,
                failed: 0,
                failure: String::new(),
            });
            registry.images += 1;
            if let Knowledge::Uninspectable(why) = known {
                registry.failed += 1;
                registry.failure.clone_from(&why.message);
            }
        }
        registries.into_values().collect()
    }
}

/// The registry of an image; none for what is in no registry.
fn host(image: &str) -> Option<String> {
    let source: Source = image.parse().ok()?;
    source.reference().map(|it| it.host().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_from_this_machine() {
        assert_eq!(host("quay.io/x/y:1").as_deref(), Some("quay.io"));
        assert_eq!(host("nginx").as_deref(), Some("docker.io"));
        assert_eq!(host("oci-archive:/etc/passwd"), None);
        assert_eq!(host("oci:/etc"), None);
    }
}
