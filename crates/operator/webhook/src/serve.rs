//! HTTPS server of the webhook: TLS, HTTP/1.1 and HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use jiff::Timestamp;
use opentelemetry::global;
use opentelemetry_http::HeaderExtractor;
use serving::certificates::{Rejection, Tls};
use serving::{CLIENT_TIMEOUT, Incoming, Limits, PeerCertificates, stopped, text};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{Instrument as _, Span, field, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::health::Health;
use crate::review::{self, Endpoint, Reviewer};

/// API servers keep connections open, one per request in flight where they use HTTP/1.1 (for Services they do): more
/// than a burst of pods needs. The drain time covers the longest answer.
const LIMITS: Limits = Limits {
    clients: 1024,
    per_address: 256,
    streams: Some(100),
    // The longest `timeoutSeconds` that we register. Endpoints are removed from the Service at SIGTERM, but API
    // servers keep their connections until then.
    drain: Duration::from_secs(10),
};
/// A few Prometheus servers.
const METRICS_LIMITS: Limits = Limits {
    clients: 64,
    per_address: 32,
    streams: Some(10),
    drain: Duration::ZERO,
};
/// Limit of a review: two objects of the size limit of etcd, old and new.
const MAX_REVIEW_BYTES: usize = 3 << 20;

/// Path of the metrics.
const METRICS: &str = "/metrics";

/// Serves until stopped, then drains requests in flight.
pub(crate) async fn listen(
    listener: TcpListener,
    tls: Tls,
    reviewer: Reviewer,
    health: Health,
    mut stopping: watch::Receiver<bool>,
) {
    let answer = move |request: Request<Incoming>| {
        let (reviewer, health) = (reviewer.clone(), health.clone());
        let span = info_span!(
            target: runtime::TRACE_TARGET, "admission",
            otel.kind = "server", path = request.uri().path(), status = field::Empty,
        );
        // An API server that traces its requests names its span. Fails if nothing is exported here.
        let headers = HeaderExtractor(request.headers());
        let caller = global::get_text_map_propagator(|it| it.extract(&headers));
        let _ = span.set_parent(caller);
        async move {
            let answer = respond(&reviewer, &health, request).await;
            Span::current().record("status", answer.status().as_u16());
            answer
        }
        .instrument(span)
    };
    serving::serve(
        listener,
        Some(tls.of_listener()),
        LIMITS,
        answer,
        stopped(&mut stopping),
    )
    .await;
}

/// Serves metrics only, until stopped.
pub(crate) async fn listen_metrics(
    listener: TcpListener,
    tls: Tls,
    reviewer: Reviewer,
    mut stopping: watch::Receiver<bool>,
) {
    let answer = move |request: Request<Incoming>| {
        let reviewer = reviewer.clone();
        async move {
            match (request.method(), request.uri().path()) {
                (&Method::GET, METRICS) => metrics(&reviewer, request.headers()).await,
                _ => text(StatusCode::NOT_FOUND, "not found; use GET /metrics\n"),
            }
        }
    };
    serving::serve(
        listener,
        Some(tls.of_listener()),
        METRICS_LIMITS,
        answer,
        stopped(&mut stopping),
    )
    .await;
}

/// The metrics, if the caller is authorized.
async fn metrics(reviewer: &Reviewer, headers: &HeaderMap) -> Response<Full<Bytes>> {
    if let Some(authorizer) = reviewer.metrics_authorizer.get()
        && let Some(refusal) = authorizer.refusal(headers, "get", METRICS).await
    {
        return refusal.map(|message| Full::new(message.into()));
    }
    typed(
        reviewer.placements.metrics(),
        runtime::metrics::CONTENT_TYPE,
    )
}

async fn respond(
    reviewer: &Reviewer,
    health: &Health,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let endpoint = Endpoint::at(request.uri().path());
    let needed = match (&endpoint, request.uri().path()) {
        (Some(_), _) => Method::POST,
        (None, "/livez" | "/healthz" | "/readyz" | METRICS) => Method::GET,
        _ => {
            return text(
                StatusCode::NOT_FOUND,
                "not found; paths: /admit, /cpu-models, /placement, /livez, /healthz, /readyz and /metrics\n",
            );
        }
    };
    if request.method() != needed {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        if let Ok(method) = HeaderValue::from_str(needed.as_str()) {
            refusal.headers_mut().insert(ALLOW, method);
        }
        return refusal;
    }
    let Some(endpoint) = endpoint else {
        if let Some(probe) = health.answer(&request) {
            return probe;
        }
        return metrics(reviewer, request.headers()).await;
    };
    // From the TLS connection. Headers and the body are under the control of the sender, including `userInfo`.
    let shown = request.extensions().get::<PeerCertificates>();
    let caller = match reviewer.callers.identify(shown) {
        Ok(caller) => caller,
        Err(rejection) => {
            let code = match rejection {
                Rejection::Missing => StatusCode::UNAUTHORIZED,
                Rejection::Unverified(_) | Rejection::Name { .. } => StatusCode::FORBIDDEN,
            };
            return text(code, format!("{rejection}\n"));
        }
    };
    let body = Limited::new(request.into_body(), MAX_REVIEW_BYTES).collect();
    let body = match tokio::time::timeout(CLIENT_TIMEOUT, body).await {
        Err(_) => {
            return text(
                StatusCode::REQUEST_TIMEOUT,
                "timed out reading the request body\n",
            );
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "a review is limited to 3 MiB\n",
            );
        }
        Ok(Err(_)) => return text(StatusCode::BAD_REQUEST, "cannot read the request body\n"),
        Ok(Ok(body)) => body.to_bytes(),
    };
    match review::answer_at(reviewer, endpoint, caller, &body, Timestamp::now()).await {
        Ok(review) => typed(review.to_string(), "application/json"),
        // A status other than 200 makes the API server treat the call as failed, so that `failurePolicy` decides;
        // `allowed: false` would override a policy of `Ignore`.
        Err(refusal) => text(StatusCode::SERVICE_UNAVAILABLE, refusal.message),
    }
}

fn typed(body: String, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
