//! Traces for an OpenTelemetry collector: reconciles, admission requests and imports, one span
//! each.
//!
//! The OpenTelemetry SDK queues spans and sends them in batches from a thread of its own, so that
//! emitting a span never blocks: spans that the collector does not accept in time are dropped. Its
//! environment variables (`OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_...`) apply.
//! The encoding is OTLP's JSON over HTTP, which every collector accepts (port 4318).

mod send;
mod status;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use http::{Request, Uri};
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_http::{HeaderInjector, HttpClient};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SdkTracerProvider, SpanProcessor};
use tracing::{Metadata, Span, Subscriber, debug};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use self::send::Sender;
use self::status::ErrorStatus;

/// Timeout of the last requests when the process ends.
// A collector that is gone must not keep the process past the grace period of its pod.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The export, or why there is none; unset without a collector.
static EXPORT: OnceLock<Result<SdkTracerProvider, String>> = OnceLock::new();

/// Trace export flags.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceArguments {
    /// OpenTelemetry collector to send traces to with OTLP over HTTP, such as http://HOST:4318.
    /// [default: no traces]
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
}

impl TraceArguments {
    /// The tracing layer that exports spans, if there is a collector.
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let endpoint = self.endpoint()?;
        let export = EXPORT
            .get_or_init(|| export(endpoint).map_err(|error| format!("{error:#}")))
            .as_ref();
        global::set_text_map_propagator(TraceContextPropagator::new());
        export.ok().map(layer)
    }

    /// The running export, if there is a collector. Call after logging has started.
    pub(crate) fn start(&self) -> anyhow::Result<Option<Sending>> {
        match self.endpoint().and_then(|_| EXPORT.get()) {
            None => Ok(None),
            Some(Ok(provider)) => Ok(Some(Sending { provider })),
            Some(Err(error)) => Err(anyhow!(error.clone())),
        }
    }

    fn endpoint(&self) -> Option<&str> {
        let endpoint = self.otlp_endpoint.as_deref();
        endpoint.filter(|endpoint| !endpoint.is_empty())
    }
}

/// The running export.
pub(crate) struct Sending {
    provider: &'static SdkTracerProvider,
}

impl Sending {
    /// Sends the remaining spans, within a short timeout.
    pub(crate) async fn finish(self) {
        let last = move || self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
        match tokio::task::spawn_blocking(last).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "the last spans are lost"),
            Err(error) => debug!(%error, "the last spans are lost"),
        }
    }
}

/// Names the current span in the headers of a request (`traceparent`), so that the spans of the
/// server become part of its trace.
pub(crate) fn propagate<B>(mut request: Request<B>) -> Request<B> {
    let mut context = Span::current().context();
    // Spans that are not exported have no context; the request then belongs to the one around them.
    if !context.span().span_context().is_valid() {
        context = Context::current();
    }
    let mut headers = HeaderInjector(request.headers_mut());
    global::get_text_map_propagator(|it| it.inject_context(&context, &mut headers));
    request
}

/// Whether a span is exported: libraries have many of their own.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == runtime::TRACE_TARGET
}

fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("medley"))
        // The attributes are the fields of the spans; where they are in our source is noise.
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(is_exported))
}

fn export(endpoint: &str) -> anyhow::Result<SdkTracerProvider> {
    let what = || format!("--otlp-endpoint {endpoint:?}; expected http://HOST:PORT");
    let url: Uri = endpoint.parse().with_context(what)?;
    let scheme = url.scheme_str();
    ensure!(matches!(scheme, Some("http" | "https")), what());
    let exporter = exporter(endpoint, Sender::new(url).with_context(what)?)?;
    let processor = BatchSpanProcessor::builder(exporter).build();
    Ok(provider(processor))
}

fn exporter(endpoint: &str, client: impl HttpClient + 'static) -> anyhow::Result<SpanExporter> {
    SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_http_client(client)
        .build()
        .context("exporting traces")
}

fn provider(processor: impl SpanProcessor + 'static) -> SdkTracerProvider {
    SdkTracerProvider::builder()
        .with_resource(resource())
        .with_span_processor(ErrorStatus::new(processor))
        .build()
}

/// What emits the spans; the environment has the last word.
fn resource() -> Resource {
    let own = [
        ("service.name", "medley".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        (
            "service.instance.id",
            crate::host::hostname().unwrap_or_default(),
        ),
    ];
    let resource = Resource::builder_empty()
        .with_attributes(own.map(|(key, value)| KeyValue::new(key, value)))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name),
        _ => resource,
    }
    .build()
}
