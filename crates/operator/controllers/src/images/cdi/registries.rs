//! Access to registries and web servers, with the credentials, certificates and headers that a source names.

use std::collections::HashMap;
use std::sync::Arc;

use egress::ProxySettings;
use golden_images::cdi::failure::{Failure, Reason};
use golden_images::cdi::poll::{PollQuery, Web};
use golden_images::cdi::proxy::{ImportProxy, NAMESPACES};
use importer::WebOptions;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use oci::{Client, Keyring, Network, Routes, Settings, Tls, error_chain};
use parking_lot::Mutex;
use platform::{AddressPolicy, Source};
use runtime::Error;

use super::view::ImportView;

/// Cached clients with certificates of their own; beyond this the cache is cleared.
const MAX_CACHED_CLIENTS: usize = 64;

/// Clients of registries and web servers, with their caches; shared by clones.
#[derive(Clone)]
pub(super) struct Registries {
    view: ImportView,
    addresses: AddressPolicy,
    /// The client of the whole process: its mirrors, proxies and CA certificates apply here as well.
    shared: Client,
    replaced: Arc<Mutex<Option<Replaced>>>,
    for_images: Arc<Mutex<Clients>>,
    /// Clients for files: the insecure registries of CDI's configuration do not apply to web servers.
    for_files: Arc<Mutex<Clients>>,
}

/// The network of imports while CDI's configuration replaces the proxy.
struct Replaced {
    shared: Arc<Network>,
    proxy: ImportProxy,
    authority: Option<String>,
    network: Arc<Network>,
}

/// Clients by trusted certificates and host; most sources need none. All skip verification for the same registries.
#[derive(Default)]
struct Clients {
    insecure: Vec<String>,
    /// The network of the shared client when these were made.
    network: Arc<Network>,
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
    pub(super) fn new(view: ImportView, addresses: &AddressPolicy, shared: &Client) -> Self {
        Self {
            view,
            shared: shared.clone(),
            replaced: Arc::default(),
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
        let network = self.network().await.map_err(unavailable)?;
        let host_name = host.as_deref();
        let client = if is_file {
            let (clients, insecure) = (&self.for_files, Vec::new());
            self.client(clients, insecure, network, certificates, host_name)?
        } else {
            // Read for each poll: CDI's configuration takes effect without a restart,
            // and the cached object costs nothing.
            let insecure = self.view.insecure().await.map_err(unavailable)?;
            let clients = &self.for_images;
            self.client(clients, insecure, network, certificates, host_name)?
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

    /// The network of imports: that of this process, with the proxy of CDI's configuration if there is one.
    pub(super) async fn network(&self) -> Result<Arc<Network>, Error> {
        let shared = self.shared.network();
        let Some(proxy) = self.view.import_proxy().await? else {
            return Ok(shared);
        };
        let authority = match proxy.trusted_ca.as_deref().filter(|it| !it.is_empty()) {
            Some(name) => Some(self.proxy_authority(name).await?),
            None => None,
        };
        let mut known = self.replaced.lock();
        if let Some(known) = known.as_ref()
            && Arc::ptr_eq(&known.shared, &shared)
            && known.proxy == proxy
            && known.authority == authority
        {
            return Ok(Arc::clone(&known.network));
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let invalid =
            |why: String| Error::Invalid(format!("spec.importProxy of the CDIConfig: {why}"));
        let mut network = Network::clone(&shared);
        network.proxies = ProxySettings::new(
            &text(&proxy.http),
            &text(&proxy.https),
            &text(&proxy.no_proxy),
        )
        .map_err(|error| invalid(error.to_string()))?;
        if let Some(pem) = &authority {
            let added = network.authorities.add_authorities(pem.as_bytes());
            added.map_err(|why| invalid(format!("trustedCAProxy: {why}")))?;
        }
        let network = Arc::new(network);
        *known = Some(Replaced {
            shared,
            proxy,
            authority,
            network: Arc::clone(&network),
        });
        Ok(network)
    }

    /// The CA certificates of the proxy, from the namespace of CDI.
    async fn proxy_authority(&self, name: &str) -> Result<String, Error> {
        for namespace in NAMESPACES {
            let maps: Api<ConfigMap> = Api::namespaced(self.view.manager.client(), namespace);
            let found = maps.get_opt(name).await;
            let operation = format!("reading ConfigMap {namespace}/{name}");
            if let Some(map) = found.map_err(Error::api(operation))? {
                let all: Vec<String> = map.data.unwrap_or_default().into_values().collect();
                return Ok(all.join("\n"));
            }
        }
        Err(Error::Invalid(format!(
            "spec.importProxy.trustedCAProxy of the CDIConfig: ConfigMap {name} not found in {}",
            NAMESPACES.join(" or ")
        )))
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
        network: Arc<Network>,
        certificates: Vec<u8>,
        host: Option<&str>,
    ) -> Result<Client, Failure> {
        let key = match host.filter(|_| !certificates.is_empty()) {
            Some(host) => (host.to_owned(), certificates),
            None => (String::new(), Vec::new()),
        };
        let mut clients = clients.lock();
        if clients.by_certificates.len() > MAX_CACHED_CLIENTS {
            clients.by_certificates.clear();
        }
        if clients.insecure != insecure || !Arc::ptr_eq(&clients.network, &network) {
            for client in clients.by_certificates.values() {
                client.set_network(with_insecure(&network, &insecure));
            }
            clients.insecure = insecure;
            clients.network = network;
        }
        if let Some(known) = clients.by_certificates.get(&key) {
            return Ok(known.clone());
        }
        let mut settings =
            Settings::for_service(self.shared.settings().roots.clone(), self.addresses.clone());
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
        let client = Client::new(settings, with_insecure(&clients.network, &clients.insecure));
        clients.by_certificates.insert(key, client.clone());
        Ok(client)
    }
}

/// The network, with the insecure registries of CDI's configuration.
fn with_insecure(network: &Network, insecure: &[String]) -> Network {
    let mut network = network.clone();
    let all = insecure.iter();
    network.routes = all.fold(network.routes, Routes::with_insecure);
    network
}

/// An unavailable API server counts like an unavailable registry.
fn unavailable(error: impl std::error::Error) -> Failure {
    Failure::new(Reason::ImportFailed, error_chain(&error))
}
