//! A plain HTTPS client for a server on a socket: no retries, no additional headers.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use anyhow::Context as _;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::cluster::{Answer, boxed};

/// A connection pool to one server.
#[derive(Clone)]
pub(crate) struct Remote {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    authority: Authority,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Remote {
    /// A client for the server and user of a kubeconfig.
    pub(crate) async fn new(kubeconfig: &str) -> anyhow::Result<Self> {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).context("reading a kubeconfig")?;
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .context("using a kubeconfig")?;
        let authority = config
            .cluster_url
            .authority()
            .cloned()
            .context("a kubeconfig without a server")?;
        let connector = config.rustls_https_connector().context("setting up TLS")?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self {
            client,
            authority,
            headers: Vec::new(),
        })
    }

    /// The same with impersonation headers.
    pub(crate) fn impersonating(&self, user: &str, groups: &[&str]) -> anyhow::Result<Self> {
        let mut remote = self.clone();
        let mut add = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).context("a name no header can hold")?;
            remote.headers.push((HeaderName::from_static(name), value));
            anyhow::Ok(())
        };
        add("impersonate-user", user)?;
        for group in groups {
            add("impersonate-group", group)?;
        }
        Ok(remote)
    }

    fn address(&self, uri: &Uri) -> Result<Uri, http::Error> {
        let path = uri
            .path_and_query()
            .cloned()
            .unwrap_or(PathAndQuery::from_static("/"));
        Uri::builder()
            .scheme(Scheme::HTTPS)
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()
    }
}

impl tower::Service<Request<Body>> for Remote {
    type Response = Response<Answer>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let remote = self.clone();
        Box::pin(async move {
            *request.uri_mut() = remote.address(request.uri())?;
            for (name, value) in &remote.headers {
                request.headers_mut().append(name.clone(), value.clone());
            }
            let response = remote.client.request(request).await?;
            Ok(response.map(boxed))
        })
    }
}
