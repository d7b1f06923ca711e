//! Traces for a collector of OpenTelemetry: reconciles, admission requests and imports, one span each.
//!
//! OTLP has an encoding in JSON over HTTP, and every collector takes it (port 4318). That is little enough
//! to be said here, by the HTTP client that is there anyway; no other crates come along. Telling never
//! waits: what a collector does not take in time is dropped.

mod collect;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use clap::Args;
use http::Uri;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

pub(crate) use collect::Collect;
use collect::Span;

/// Spans that may wait to be sent.
const WAITING: usize = 4096;
/// Spans in a request.
const MOST: usize = 512;
/// How long is waited for more spans, so that they are not sent one by one.
const TOGETHER: Duration = Duration::from_secs(1);
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take when the process ends.
const LAST: Duration = Duration::from_secs(2);

/// Spans on their way from where they end to where they are sent.
static SPANS: OnceLock<Mutex<Option<mpsc::Receiver<Span>>>> = OnceLock::new();

/// Where traces go.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceArguments {
    /// A collector of OpenTelemetry to send traces to, by OTLP over HTTP: http://HOST:4318.
    /// [default: no traces]
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
}

impl TraceArguments {
    /// What gathers spans, if they are to go anywhere.
    pub(crate) fn collect(&self) -> Option<Collect> {
        self.endpoint()?;
        let (sender, receiver) = mpsc::channel(WAITING);
        SPANS.set(Mutex::new(Some(receiver))).ok()?;
        Some(Collect::new(sender))
    }

    /// Begins to send, if there is somebody to send to. Call within a runtime, after logging has started.
    pub(crate) fn start(&self) -> anyhow::Result<Option<Sending>> {
        let Some(endpoint) = self.endpoint() else {
            return Ok(None);
        };
        let what = || format!("--otlp-endpoint {endpoint:?}; expected http://HOST:PORT");
        let url: Uri = endpoint.parse().with_context(what)?;
        let scheme = url.scheme_str();
        ensure!(matches!(scheme, Some("http" | "https")), what());
        let client = Client::try_from(Config::new(url)).with_context(what)?;
        let spans = SPANS.get().and_then(|spans| spans.lock().take());
        let (stop, stopped) = oneshot::channel();
        let task = spans.map(|spans| tokio::spawn(send(spans, client, stopped)));
        Ok(task.map(|task| Sending { task, stop }))
    }

    fn endpoint(&self) -> Option<&str> {
        let endpoint = self.otlp_endpoint.as_deref();
        endpoint.filter(|endpoint| !endpoint.is_empty())
    }
}

/// Spans are being sent.
pub(crate) struct Sending {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Sending {
    /// Sends what is left, for a moment.
    pub(crate) async fn finish(self) {
        let _ = self.stop.send(());
        if tokio::time::timeout(LAST, self.task).await.is_err() {
            debug!("the last spans are lost");
        }
    }
}

async fn send(mut spans: mpsc::Receiver<Span>, client: Client, mut stopped: oneshot::Receiver<()>) {
    let (mut failed, mut ends) = (false, false);
    loop {
        let mut batch = Vec::new();
        if !ends {
            tokio::select! {
                count = spans.recv_many(&mut batch, MOST) => ends = count == 0,
                _ = &mut stopped => ends = true,
            }
        }
        if !ends {
            tokio::select! {
                () = tokio::time::sleep(TOGETHER) => {}
                _ = &mut stopped => ends = true,
            }
        }
        while batch.len() < MOST
            && let Ok(span) = spans.try_recv()
        {
            batch.push(span);
        }
        if batch.is_empty() {
            if ends {
                return;
            }
            continue;
        }
        match post(&client, &batch).await {
            Ok(()) => failed = false,
            Err(error) if failed => debug!(error, "spans are lost"),
            Err(error) => {
                warn!(
                    error,
                    "traces cannot be sent; spans are lost until they can"
                );
                failed = true;
            }
        }
    }
}

async fn post(client: &Client, batch: &[Span]) -> Result<(), String> {
    let request = http::Request::post("/v1/traces")
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body(batch).to_string().into_bytes()))
        .map_err(|error| error.to_string())?;
    let answer = async {
        let answer = client
            .send(request)
            .await
            .map_err(|error| error.to_string())?;
        let status = answer.status();
        let said = answer.into_body().collect().await;
        let said = said.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
        if status.is_success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said);
        Err(format!("the collector says {status}: {}", said.trim()))
    };
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answered) => answered,
        Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
    }
}

/// Spans as OTLP has them in JSON.
fn body(batch: &[Span]) -> Value {
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let spans: Vec<Value> = batch.iter().map(Span::encoded).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": [
            text("service.name", "medley"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", &crate::host::hostname().unwrap_or_default()),
        ] },
        "scopeSpans": [{ "scope": { "name": "medley" }, "spans": spans }],
    }] })
}
