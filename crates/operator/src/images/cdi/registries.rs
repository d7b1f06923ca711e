//! How registries are reached: with the credentials and certificates that an image names.

use std::collections::HashMap;
use std::sync::Arc;

use golden::cdi::failure::{Failure, Reason};
use golden::cdi::poll::Question;
use importer::told;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use oci::{Client, Keyring, Roots, Routes, Settings, Tls};
use parking_lot::Mutex;
use platform::Source;

use super::world::World;

/// Clients with certificates of their own that are kept.
const MOST: usize = 64;

/// Clients of registries; clones share them, and what they remember.
#[derive(Clone)]
pub(super) struct Registries {
    world: World,
    clients: Arc<Mutex<Clients>>,
}

/// Clients by the certificates that they believe, and of whom; most need none. All are for these
/// registries without proof.
struct Clients {
    insecure: Vec<String>,
    by_certificates: HashMap<(String, Vec<u8>), Client>,
}

/// An image that can be asked for.
pub(super) struct Reached {
    pub(super) source: Source,
    pub(super) client: Client,
    pub(super) keyring: Arc<Keyring>,
}

impl Registries {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            clients: Arc::new(Mutex::new(Clients {
                insecure: Vec::new(),
                by_certificates: HashMap::new(),
            })),
        }
    }

    /// How the image of a question is reached.
    pub(super) async fn reach(&self, question: &Question) -> Result<Reached, Failure> {
        let source: Source = question
            .url
            .parse()
            .map_err(|error| Failure::new(Reason::ImportFailed, told(&error)))?;
        let host = source.reference().map(|it| it.host().to_string());
        let keyring = self.keyring(question, host.as_deref()).await?;
        let certificates = self.certificates(question).await?;
        let insecure = self.world.insecure().await.map_err(unavailable)?;
        let client = self.client(insecure, certificates, host.as_deref())?;
        Ok(Reached {
            source,
            client,
            keyring: Arc::new(keyring),
        })
    }

    fn client(
        &self,
        insecure: Vec<String>,
        certificates: Vec<u8>,
        host: Option<&str>,
    ) -> Result<Client, Failure> {
        let key = match host.filter(|_| !certificates.is_empty()) {
            Some(host) => (host.to_owned(), certificates),
            None => (String::new(), Vec::new()),
        };
        let mut clients = self.clients.lock();
        if clients.insecure != insecure || clients.by_certificates.len() > MOST {
            for client in clients.by_certificates.values() {
                client.set_routes(routes(&insecure));
            }
            if clients.by_certificates.len() > MOST {
                clients.by_certificates.clear();
            }
            clients.insecure = insecure;
        }
        if let Some(known) = clients.by_certificates.get(&key) {
            return Ok(known.clone());
        }
        let mut settings = Settings::new(Roots::of_system());
        let (host, certificates) = &key;
        if !certificates.is_empty() {
            let tls = Tls::authorities(certificates).map_err(|why| {
                Failure::new(
                    Reason::ImportFailed,
                    format!("reading the certificates for {host}: {why}"),
                )
            })?;
            settings.tls.insert(host.clone(), tls);
        }
        let client = Client::new(settings, routes(&clients.insecure));
        clients.by_certificates.insert(key, client.clone());
        Ok(client)
    }

    async fn keyring(&self, question: &Question, host: Option<&str>) -> Result<Keyring, Failure> {
        let mut keyring = Keyring::anonymous();
        let (Some(name), Some(host)) = (&question.secret, host) else {
            return Ok(keyring);
        };
        let namespace = &question.namespace;
        let denied = |why: &str| {
            Failure::new(
                Reason::PullUnauthorized,
                format!("secret {namespace}/{name} {why}"),
            )
        };
        let secrets: Api<Secret> = Api::namespaced(self.world.manager.client(), namespace);
        let secret = secrets.get_opt(name).await.map_err(unavailable)?;
        let Some(secret) = secret else {
            return Err(denied("is not there"));
        };
        let data = secret.data.unwrap_or_default();
        let data = data
            .into_iter()
            .map(|(key, value)| (key, value.0))
            .collect();
        let kind = secret.type_.unwrap_or_default();
        match keyring.add_secret(&kind, &data, host) {
            Ok(true) => Ok(keyring),
            Ok(false) => Err(denied(
                "has no credentials; accessKeyId and secretKey, or a pull secret, are accepted",
            )),
            Err(error) => Err(denied(&format!("cannot be read: {error}"))),
        }
    }

    /// All certificates of the config map, in PEM.
    async fn certificates(&self, question: &Question) -> Result<Vec<u8>, Failure> {
        let Some(name) = &question.certificates else {
            return Ok(Vec::new());
        };
        let namespace = &question.namespace;
        let maps: Api<ConfigMap> = Api::namespaced(self.world.manager.client(), namespace);
        let Some(map) = maps.get_opt(name).await.map_err(unavailable)? else {
            return Err(Failure::new(
                Reason::ImportFailed,
                format!("config map {namespace}/{name} with certificates is not there"),
            ));
        };
        let mut all = Vec::new();
        for (key, text) in map.data.unwrap_or_default() {
            if matches!(key.rsplit_once('.'), Some((_, "crt" | "pem"))) {
                all.extend_from_slice(text.as_bytes());
                all.push(b'\n');
            }
        }
        Ok(all)
    }
}

fn routes(insecure: &[String]) -> Routes {
    let all = insecure.iter();
    all.fold(Routes::direct(), Routes::with_insecure)
}

/// The cluster did not answer: as good as no registry.
fn unavailable(error: impl std::error::Error) -> Failure {
    Failure::new(Reason::ImportFailed, told(&error))
}
