//! How registries and web servers are reached: with the credentials, certificates and headers that an
//! image or a file names.

use std::collections::HashMap;
use std::sync::Arc;

use golden_images::cdi::failure::{Failure, Reason};
use golden_images::cdi::poll::{Question, Web};
use importer::{WebOptions, told};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use oci::{Client, Keyring, Roots, Routes, Settings, Tls};
use parking_lot::Mutex;
use platform::{AddressPolicy, Source};

use super::world::World;

/// Clients with certificates of their own that are kept.
const MOST: usize = 64;

/// Clients of registries and web servers; clones share them, and what they remember.
#[derive(Clone)]
pub(super) struct Registries {
    world: World,
    addresses: AddressPolicy,
    for_images: Arc<Mutex<Clients>>,
    /// Web servers have to prove who they are, whatever registries need not.
    for_files: Arc<Mutex<Clients>>,
}

/// Clients by the certificates that they believe, and of whom; most need none. All are for these
/// registries without proof.
#[derive(Default)]
struct Clients {
    insecure: Vec<String>,
    by_certificates: HashMap<(String, Vec<u8>), Client>,
}

/// An image or a file that can be asked for.
pub(super) struct Reached {
    pub(super) source: Source,
    pub(super) client: Client,
    pub(super) keyring: Arc<Keyring>,
    pub(super) web: WebOptions,
}

impl Registries {
    /// `addresses` is the administrator's: sources are named by tenants.
    pub(super) fn new(world: World, addresses: &AddressPolicy) -> Self {
        Self {
            world,
            addresses: addresses.clone(),
            for_images: Arc::default(),
            for_files: Arc::default(),
        }
    }

    /// How the image or the file of a question is reached.
    pub(super) async fn reach(&self, question: &Question) -> Result<Reached, Failure> {
        let source: Source = question
            .url
            .parse()
            .map_err(|error| Failure::new(Reason::ImportFailed, told(&error)))?;
        // An archive or a folder would be one of this process, not of the tenant that names it: it is refused
        // here, before a secret is read for it, and by the client as well.
        let fits = match source {
            Source::Registry(_) => question.web.is_none(),
            Source::Web(_) => question.web.is_some(),
            Source::Archive(_) | Source::Folder(_) => false,
        };
        if !fits {
            let url = &question.url;
            let message = format!(
                "source {url:?} is not imported: docker:// is accepted for registry, http:// and https:// for http"
            );
            return Err(Failure::new(Reason::ImportFailed, message));
        }
        let is_file = matches!(source, Source::Web(_));
        let host = source.host();
        let keyring = self.keyring(question, host.as_deref()).await?;
        let certificates = self.certificates(question).await?;
        let client = if is_file {
            self.client(&self.for_files, Vec::new(), certificates, host.as_deref())?
        } else {
            let insecure = self.world.insecure().await.map_err(unavailable)?;
            self.client(&self.for_images, insecure, certificates, host.as_deref())?
        };
        Ok(Reached {
            source,
            client,
            keyring: Arc::new(keyring),
            web: match &question.web {
                Some(web) => self.web(&question.namespace, web).await?,
                None => WebOptions::default(),
            },
        })
    }

    /// What is known of a file, with the headers that are in secrets.
    async fn web(&self, namespace: &str, web: &Web) -> Result<WebOptions, Failure> {
        let mut lines = web.headers.clone();
        for name in &web.secret_headers {
            let secret = self.secret(namespace, name).await?;
            for value in secret.data.unwrap_or_default().into_values() {
                // What is no text is no header: nothing is sent that somebody did not mean.
                let line = String::from_utf8(value.0).unwrap_or_default();
                lines.push(line.trim_end().to_owned());
            }
        }
        let lines = lines.iter().map(String::as_str);
        WebOptions::read(web.checksum.as_deref(), lines)
            .map_err(|why| Failure::new(Reason::ImportFailed, why))
    }

    /// A secret that has to be there.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, Failure> {
        let secrets: Api<Secret> = Api::namespaced(self.world.manager.client(), namespace);
        let secret = secrets.get_opt(name).await.map_err(unavailable)?;
        secret.ok_or_else(|| {
            Failure::new(
                Reason::PullUnauthorized,
                format!("secret {namespace}/{name} is not there"),
            )
        })
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
        let secret = self.secret(namespace, name).await?;
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

    /// A client that believes these certificates of a host; one that is there already if there is one.
    fn client(
        &self,
        clients: &Mutex<Clients>,
        insecure: Vec<String>,
        certificates: Vec<u8>,
        host: Option<&str>,
    ) -> Result<Client, Failure> {
        let key = match host.filter(|_| !certificates.is_empty()) {
            Some(host) => (host.to_owned(), certificates),
            None => (String::new(), Vec::new()),
        };
        let mut clients = clients.lock();
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
        let mut settings = Settings::for_service(Roots::of_system(), self.addresses.clone());
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
}

fn routes(insecure: &[String]) -> Routes {
    let all = insecure.iter();
    all.fold(Routes::direct(), Routes::with_insecure)
}

/// The cluster did not answer: as good as no registry.
fn unavailable(error: impl std::error::Error) -> Failure {
    Failure::new(Reason::ImportFailed, told(&error))
}
