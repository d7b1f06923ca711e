//! Callers: whether a review comes from the API server.
//!
//! Any pod that reaches the socket can send a review, with any namespace, pod and user in it. Information that the
//! caller could not read itself (pull secrets, and what registries return with them) is therefore used only for callers
//! that have proven to be the API server, by a client certificate:
//!
//! ```text
//! certificate of --client-ca, name accepted ---> Verified
//! none, or another ----------------------------> Unverified, or rejected where certificates are required
//! ```
//!
//! kube-apiserver presents a client certificate only where the `kubeConfigFile` of its AdmissionConfiguration names one
//! for the webhook (k8s.io/apiserver, pkg/util/webhook/authentication.go); many clusters have none. So callers without
//! one get an answer, but one that contains no secret information.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use runtime::Absent as _;
use serving::PeerCertificates;
use serving::certificates::{ClientAuthorities, Rejection};
use tracing::{info, warn};

use crate::error::Error;

/// How often files are read again.
const FILE_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// How often the ConfigMap is read again. CAs are rotated over days.
const CONFIG_MAP_REFRESH_INTERVAL: Duration = Duration::from_mins(1);

/// Timeout of the first read, which delays the start; the next one follows soon.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Key of the ConfigMap: the CA of the certificates with which API servers proxy requests to aggregated servers.
const PROXY_CA: &str = "requestheader-client-ca-file";
/// Key of the ConfigMap: the common names allowed for those, as a JSON array; empty allows all.
const PROXY_NAMES: &str = "requestheader-allowed-names";
/// Key of the ConfigMap: the CA of all client certificates of the cluster, including kubelets and users.
const CLIENT_CA: &str = "client-ca-file";

/// Identity of the sender of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caller {
    /// Holds a client certificate that only API servers have.
    Verified,
    /// Any process that reaches the socket, possibly the API server.
    #[default]
    Unverified,
}

/// Source of the CA of client certificates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientCa {
    /// None: no caller can be verified.
    #[default]
    None,
    /// PEM.
    Pem(String),
    /// A file, read again when it changes.
    File(PathBuf),
    /// A ConfigMap with the keys of `kube-system/extension-apiserver-authentication`. While it cannot be read, no
    /// caller is verified.
    ConfigMap {
        /// Namespace of the ConfigMap.
        namespace: String,
        /// Name of the ConfigMap.
        name: String,
    },
}

/// How callers are verified.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientVerification {
    /// CA of accepted certificates.
    pub authority: ClientCa,
    /// Accepted common names. Empty accepts all that the CA signs, or for a ConfigMap those that it lists.
    pub names: Vec<String>,
    /// Whether to reject reviews of other callers instead of answering them without secrets.
    pub required: bool,
}

/// Verifies callers; clones share the current CA.
#[derive(Clone)]
pub(crate) struct Callers {
    shared: Arc<Shared>,
}

struct Shared {
    settings: ClientVerification,
    current: ArcSwapOption<(Authorities, ClientAuthorities)>,
    /// Whether it was logged that callers cannot be verified.
    logged: AtomicBool,
}

/// CAs in PEM, and accepted common names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authorities {
    pem: String,
    names: Vec<String>,
}

impl Callers {
    pub(crate) fn new(settings: ClientVerification) -> Self {
        Self {
            shared: Arc::new(Shared {
                settings,
                current: ArcSwapOption::empty(),
                logged: AtomicBool::new(false),
            }),
        }
    }

    /// Reads the CA for the first time. A missing file is an error, because an administrator configured it; a ConfigMap
    /// that the cluster may lack is retried in the background.
    pub(crate) async fn load(&self, client: &Client) -> Result<(), Error> {
        if !self.is_from_cluster() {
            return self.refresh(client).await;
        }
        let why = match tokio::time::timeout(FIRST_READ_TIMEOUT, self.refresh(client)).await {
            Ok(Ok(())) => return Ok(()),
            // Not fatal: verification only decides whether pull secrets are used, and an operator that does not start
            // for want of it would be worse than one that answers without them.
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {FIRST_READ_TIMEOUT:?}"),
        };
        warn!(why, "cannot read the client CA; no caller can be verified");
        Ok(())
    }

    /// Keeps the CA current while it is polled.
    pub(crate) async fn follow(self, client: Client) {
        let every = match self.shared.settings.authority {
            ClientCa::None | ClientCa::Pem(_) => return std::future::pending().await,
            ClientCa::File(_) => FILE_REFRESH_INTERVAL,
            ClientCa::ConfigMap { .. } => CONFIG_MAP_REFRESH_INTERVAL,
        };
        loop {
            tokio::time::sleep(every).await;
            if let Err(error) = self.refresh(&client).await {
                warn!(%error, "cannot read the client CA again; keeping the previous one");
            }
        }
    }

    fn is_from_cluster(&self) -> bool {
        matches!(self.shared.settings.authority, ClientCa::ConfigMap { .. })
    }

    async fn refresh(&self, client: &Client) -> Result<(), Error> {
        let settings = &self.shared.settings;
        let fixed = |pem: String| Authorities {
            pem,
            names: settings.names.clone(),
        };
        let found = match &settings.authority {
            ClientCa::None => None,
            ClientCa::Pem(pem) => Some(fixed(pem.clone())),
            ClientCa::File(path) => {
                let read = std::fs::read_to_string(path);
                let pem = read.map_err(|source| serving::certificates::Error::File {
                    path: path.clone(),
                    source,
                })?;
                Some(fixed(pem))
            }
            ClientCa::ConfigMap { namespace, name } => {
                let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
                let found = api.get(name).await.not_found_as_none();
                let operation = format!("get ConfigMap {namespace}/{name}");
                let found = found.map_err(runtime::Error::api(operation))?;
                let data = found.and_then(|found| found.data).unwrap_or_default();
                from_config_map(&data, &settings.names)
                    .map_err(|why| Error::ClientCa(format!("{namespace}/{name}"), why))?
            }
        };
        let current = self.shared.current.load();
        if current.as_ref().map(|current| &current.0) == found.as_ref() {
            return Ok(());
        }
        let verifier = found.map(|found| {
            let verifier = ClientAuthorities::new(&found.pem, found.names.clone())?;
            Ok::<_, Error>(Arc::new((found, verifier)))
        });
        let verifier = verifier.transpose()?;
        if let Some(verifier) = &verifier {
            info!(names = ?verifier.0.names, "verifying callers by their client certificates");
        } else {
            warn!("the client CA was removed; no caller can be verified");
        }
        self.shared.current.store(verifier);
        Ok(())
    }

    /// Identifies a caller by its certificates; an error if the review is to be rejected.
    pub(crate) fn identify(&self, shown: Option<&PeerCertificates>) -> Result<Caller, Rejection> {
        let chain = shown.map(|shown| &*shown.0).unwrap_or_default();
        let current = self.shared.current.load();
        let rejection = match current.as_ref().map(|current| current.1.verify(chain)) {
            Some(Ok(_)) => return Ok(Caller::Verified),
            Some(Err(rejection)) => {
                if !self.shared.logged.swap(true, Ordering::Relaxed) {
                    info!(%rejection, "a caller is not verified; reviews like it are answered without pull secrets");
                }
                rejection
            }
            None => Rejection::Unverified("no client CA is known".to_owned()),
        };
        if self.shared.settings.required {
            return Err(rejection);
        }
        Ok(Caller::Unverified)
    }

    /// Readiness: an error if all reviews would be rejected.
    pub(crate) fn readiness(&self) -> Result<&'static str, String> {
        if self.shared.current.load().is_some() {
            return Ok("callers are verified");
        }
        if self.shared.settings.required {
            return Err("client certificates are required, and no client CA is known".to_owned());
        }
        Ok("no caller can be verified")
    }
}

/// The CA in a ConfigMap, for these names or those that it lists.
///
/// Kubelets and users have certificates of the cluster's client CA, so a name is needed to recognise API servers. The
/// proxy CA signs for API servers alone.
fn from_config_map(
    data: &BTreeMap<String, String>,
    names: &[String],
) -> Result<Option<Authorities>, String> {
    let authority = |key: &str| data.get(key).filter(|pem| !pem.trim().is_empty());
    let (proxies, clients) = (authority(PROXY_CA), authority(CLIENT_CA));
    if !names.is_empty() {
        let both: Vec<&str> = [proxies, clients]
            .into_iter()
            .flatten()
            .map(|pem| pem.trim())
            .collect();
        return Ok((!both.is_empty()).then(|| Authorities {
            pem: both.join("\n"),
            names: names.to_owned(),
        }));
    }
    let Some(proxies) = proxies else {
        return Ok(None);
    };
    let allowed = data.get(PROXY_NAMES).map_or("[]", String::as_str);
    let allowed: Vec<String> = serde_json::from_str(allowed).map_err(|error| {
        format!("{PROXY_NAMES} is {allowed:?}, not a JSON array of names: {error}")
    })?;
    // A cluster may use one CA for both. "Any name" of it would accept the certificate of every kubelet and user, so
    // this case needs explicit names.
    if allowed.is_empty() && clients.is_some_and(|clients| clients.trim() == proxies.trim()) {
        return Err(format!(
            "{PROXY_CA} is {CLIENT_CA}, which signs for kubelets and users, and {PROXY_NAMES} is empty; name API servers with --client-name"
        ));
    }
    Ok(Some(Authorities {
        pem: proxies.clone(),
        names: allowed,
    }))
}
