//! Access to registries and web servers, with the credentials, certificates and headers that a source names.

use std::collections::HashMap;
use std::sync::Arc;

use golden_images::cdi::failure::{Failure, Reason};
use golden_images::cdi::poll::{PollQuery, Web};
use importer::WebOptions;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use oci::{Client, Keyring, Roots, Routes, Settings, Tls, error_chain};
use parking_lot::Mutex;
use platform::{AddressPolicy, Source};

use super::view::ImportView;

/// Cached clients with certificates of their own; beyond this the cache is cleared.
const MAX_CACHED_CLIENTS: usize = 64;

/// Clients of registries and web servers, with their caches; shared by clones.
#[derive(Clone)]
pub(super) struct Registries {
    view: ImportView,
    addresses: AddressPolicy,
    for_images: Arc<Mutex<Clients>>,
    /// Clients for files: the insecure registries of CDI's configuration do not apply to web servers.
    for_files: Arc<Mutex<Clients>>,
}

/// Clients by trusted certificates and host; most sources need none. All skip verification for the same registries.
#[derive(Default)]
struct Clients {
    insecure: Vec<String>,
    by_certificates: HashMap<(String, Vec<u8>), Client>,
}

/// Access to an image or a file.
pub(super) struct SourceAccess {
    pub(super) source: Source,
    pub(super) client: Client,
    pub(super) keyring: Arc<Keyring>,
    pub(super) web: WebOptions,
}

impl Registries {
    /// `addresses` is the administrator's policy: tenants name the sources.
    pub(super) fn new(view: ImportView, addresses: &AddressPolicy) -> Self {
        Self {
            view,
            addresses: addresses.clone(),
            for_images: Arc::default(),
            for_files: Arc::default(),
        }
    }

    /// Resolves the credentials, certificates and headers of a source.
    pub(super) async fn reach(&self, question: &PollQuery) -> Result<SourceAccess, Failure> {
        let source: Source = question
            .url
            .parse()
            .map_err(|error| Failure::new(Reason::ImportFailed, error_chain(&error)))?;
        // A local archive or folder would be one of this process, not of the tenant that names it. It is rejected here
        // before any secret is read, and again by the client.
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
            // Read for each poll: CDI's configuration takes effect without a restart,
            // and the cached object costs nothing.
            let insecure = self.view.insecure().await.map_err(unavailable)?;
            self.client(&self.for_images, insecure, certificates, host.as_deref())?
        };
        Ok(SourceAccess {
            source,
            client,
            keyring: Arc::new(keyring),
            web: match &question.web {
                Some(web) => self.web(&question.namespace, web).await?,
                None => WebOptions::default(),
            },
        })
    }

    /// Options of a file, with the headers from secrets.
    async fn web(&self, namespace: &str, web: &Web) -> Result<WebOptions, Failure> {
        let mut lines = web.headers.clone();
        for name in &web.secret_headers {
            let secret = self.secret(namespace, name).await?;
            for value in secret.data.unwrap_or_default().into_values() {
                // A value that is not UTF-8 cannot be a header; send none.
                let line = String::from_utf8(value.0).unwrap_or_default();
                lines.push(line.trim_end().to_owned());
            }
        }
        let lines = lines.iter().map(String::as_str);
        WebOptions::read(web.checksum.as_deref(), lines)
            .map_err(|why| Failure::new(Reason::ImportFailed, why))
    }

    /// A secret; an error if it does not exist.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, Failure> {
        let secrets: Api<Secret> = Api::namespaced(self.view.manager.client(), namespace);
        let secret = secrets.get_opt(name).await.map_err(unavailable)?;
        secret.ok_or_else(|| {
            Failure::new(
                Reason::PullUnauthorized,
                format!("secret {namespace}/{name} not found"),
            )
        })
    }

    async fn keyring(&self, question: &PollQuery, host: Option<&str>) -> Result<Keyring, Failure> {
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

    /// All certificates of the ConfigMap, as PEM.
    async fn certificates(&self, question: &PollQuery) -> Result<Vec<u8>, Failure> {
        let Some(name) = &question.certificates else {
            return Ok(Vec::new());
        };
        let namespace = &question.namespace;
        let maps: Api<ConfigMap> = Api::namespaced(self.view.manager.client(), namespace);
        let Some(map) = maps.get_opt(name).await.map_err(unavailable)? else {
            return Err(Failure::new(
                Reason::ImportFailed,
                format!("ConfigMap {namespace}/{name} with certificates not found"),
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

    /// A cached or new client that trusts these certificates for a host.
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
        if clients.insecure != insecure || clients.by_certificates.len() > MAX_CACHED_CLIENTS {
            for client in clients.by_certificates.values() {
                client.set_routes(routes(&insecure));
            }
            if clients.by_certificates.len() > MAX_CACHED_CLIENTS {
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

/// An unavailable API server counts like an unavailable registry.
fn unavailable(error: impl std::error::Error) -> Failure {
    Failure::new(Reason::ImportFailed, error_chain(&error))
}
