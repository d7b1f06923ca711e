//! Requests to the identity provider, with the HTTP client that is also used for clusters: with its
//! proxies, and the CA certificates of the system or of a file.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::config::{Cluster, Context, KubeConfigOptions, Kubeconfig, NamedCluster, NamedContext};
use kube::{Client, Config};
use tokio::sync::Mutex;

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Length limit of responses; documents of providers have some KiB.
const MAX_RESPONSE: usize = 256 * 1024;

/// Clients, by host.
pub(super) struct Web {
    authority: Option<PathBuf>,
    clients: Mutex<HashMap<String, Client>>,
}

impl Web {
    /// Requests that trust the CA certificates in this file instead of the system's.
    pub(super) fn new(authority: Option<PathBuf>) -> Self {
        Self {
            authority,
            clients: Mutex::default(),
        }
    }

    /// Sends a request. Redirects are not followed: a provider names its endpoints.
    pub(super) async fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let url = request.uri().clone();
        let client = self.client(&url).await?;
        send(client, request)
            .await
            .map_err(|why| format!("{} {why}", host(&url)))
    }

    /// Forgets the connections, and reads CA certificates again.
    pub(super) async fn reset(&self) {
        self.clients.lock().await.clear();
    }

    async fn client(&self, url: &Uri) -> Result<Client, String> {
        let host = host(url);
        let mut clients = self.clients.lock().await;
        if let Some(client) = clients.get(&host) {
            return Ok(client.clone());
        }
        let mut origin = url.clone().into_parts();
        // Requests have the whole path.
        origin.path_and_query = Some(PathAndQuery::from_static("/"));
        let origin = Uri::from_parts(origin).map_err(|error| error.to_string())?;
        let mut config = match &self.authority {
            None => Config::new(origin),
            Some(authority) => trusting(&origin, authority).await?,
        };
        // A code and a refresh token can be used once.
        config.default_retry = false;
        let builder = runtime::client::builder(config).map_err(|error| error.to_string())?;
        let client = builder.build();
        clients.insert(host, client.clone());
        Ok(client)
    }
}

/// Sends a request with a client of its host.
pub(super) async fn send(
    client: Client,
    request: Request<Vec<u8>>,
) -> Result<(StatusCode, Vec<u8>), String> {
    let exchange = async {
        let response = client.send(request.map(Body::from)).await;
        let response = response.map_err(|error| format!("cannot be reached: {error}"))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_RESPONSE)
            .collect()
            .await;
        let body = body.map_err(|error| format!("did not send a complete answer: {error}"))?;
        Ok((status, body.to_bytes().to_vec()))
    };
    match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
        Ok(answer) => answer,
        Err(_) => Err(format!(
            "did not answer within {} seconds",
            REQUEST_TIMEOUT.as_secs()
        )),
    }
}

fn host(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default();
    let authority = url.authority().map_or("", |it| it.as_str());
    format!("{scheme}://{authority}")
}

/// The configuration for a server with a certificate of these CAs, as a kubeconfig has it.
async fn trusting(origin: &Uri, authority: &std::path::Path) -> Result<Config, String> {
    let name = || "provider".to_owned();
    let kubeconfig = Kubeconfig {
        clusters: vec![NamedCluster {
            name: name(),
            cluster: Some(Cluster {
                server: Some(origin.to_string()),
                certificate_authority: Some(authority.to_string_lossy().into_owned()),
                ..Cluster::default()
            }),
            ..NamedCluster::default()
        }],
        contexts: vec![NamedContext {
            name: name(),
            context: Some(Context {
                cluster: name(),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(|error| {
        format!(
            "the CA certificates {} cannot be used: {error}",
            authority.display()
        )
    })
}
