//! Traces for an OpenTelemetry collector: reconciles, admission requests and imports, one span
//! each.
//!
//! Uses the JSON encoding of OTLP over HTTP, which every collector accepts (port 4318). The
//! existing HTTP client is enough for it, so no OpenTelemetry crates are needed. Emitting a span
//! never blocks: spans that the collector does not accept in time are dropped.

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

/// Capacity of the queue of unsent spans; spans beyond it are dropped.
const QUEUE_CAPACITY: usize = 4096;
/// Spans per request.
const MAX_SPANS_PER_REQUEST: usize = 512;
/// Batch window: spans that end within it go out in one request.
const BATCH_WINDOW: Duration = Duration::from_secs(1);
/// Timeout of a request to the collector.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the last request when the process ends.
const FINAL_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The queue between the subscriber and the sender; taken when sending starts.
static SPANS: OnceLock<Mutex<Option<mpsc::Receiver<Span>>>> = OnceLock::new();

/// Trace export flags.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceArguments {
    /// OpenTelemetry collector to send traces to, by OTLP over HTTP: http://HOST:4318.
    /// [default: no traces]
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
}

impl TraceArguments {
    /// The tracing layer that collects spans, if there is a collector.
    pub(crate) fn collect(&self) -> Option<Collect> {
        self.endpoint()?;
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        SPANS.set(Mutex::new(Some(receiver))).ok()?;
        Some(Collect::new(sender))
    }

    /// Starts sending, if there is a collector. Call within a runtime, after logging has started.
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

/// The running sender.
pub(crate) struct Sending {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Sending {
    /// Sends the remaining spans, within a short timeout.
    pub(crate) async fn finish(self) {
        let _ = self.stop.send(());
        if tokio::time::timeout(FINAL_REQUEST_TIMEOUT, self.task)
            .await
            .is_err()
        {
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
                count = spans.recv_many(&mut batch, MAX_SPANS_PER_REQUEST) => ends = count == 0,
                _ = &mut stopped => ends = true,
            }
        }
        if !ends {
            tokio::select! {
                () = tokio::time::sleep(BATCH_WINDOW) => {}
                _ = &mut stopped => ends = true,
            }
        }
        while batch.len() < MAX_SPANS_PER_REQUEST
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
        let answer_body = answer.into_body().collect().await;
        let answer_body =
            answer_body.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
        if status.is_success() {
            return Ok(());
        }
        let answer_body = String::from_utf8_lossy(&answer_body);
        Err(format!(
            "the collector answered {status}: {}",
            answer_body.trim()
        ))
    };
    match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
        Ok(answered) => answered,
        Err(_) => Err(format!("no answer in {} s", REQUEST_TIMEOUT.as_secs())),
    }
}

/// The spans in OTLP's JSON encoding.
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
