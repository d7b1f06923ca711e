//! Requests to the collector, with the HTTP client that is also used for clusters.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::{Client, Config};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::{Builder, Runtime};
use tracing::{debug, warn};

/// Timeout of a request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest response that is read.
const MAX_RESPONSE: usize = 1 << 20;

/// Sends requests on a runtime of its own: spans are exported from before the program's runtime
/// starts until after it has ended.
pub(super) struct Sender {
    runtime: Runtime,
    client: Client,
    failed: AtomicBool,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl Sender {
    /// Sends to the host of `url`.
    pub(super) fn new(url: Uri) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otlp")
            .enable_all()
            .build()
            .context("starting the async runtime")?;
        let mut host = url.into_parts();
        // Requests have the whole path.
        host.path_and_query = Some(PathAndQuery::from_static("/"));
        let config = Config::new(Uri::from_parts(host)?);
        let client = {
            let _inside = runtime.enter();
            runtime::client::builder(config)?.build()
        };
        Ok(Self {
            runtime,
            client,
            failed: AtomicBool::new(false),
        })
    }

    /// Reports the first of several failures in a row.
    fn note(&self, failure: Option<String>) {
        // One warning per outage: the exporter sends a batch every few seconds, for as long as the
        // collector is down.
        let failed = self.failed.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if failed => debug!(error, "spans are lost"),
            Some(error) => warn!(
                error,
                "traces cannot be sent; spans are lost until they can"
            ),
            None => {}
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // The SDK's thread has no runtime: the timer, too, has to be created on ours.
        let sent = self.runtime.spawn(async move {
            tokio::time::timeout(REQUEST_TIMEOUT, send(client, request)).await
        });
        let response = match sent.await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => Err(format!("no answer in {} s", REQUEST_TIMEOUT.as_secs()).into()),
            Err(error) => Err(error.into()),
        };
        self.note(match &response {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => {
                let body = String::from_utf8_lossy(response.body());
                let status = response.status();
                Some(format!("the collector answered {status}: {}", body.trim()))
            }
            Err(error) => Some(error.to_string()),
        });
        response
    }
}

async fn send(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let response = client.send(request.map(Body::from)).await?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, MAX_RESPONSE).collect().await?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}
