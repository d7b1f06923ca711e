//! The check on a socket: TLS, HTTP/1.1 and HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use jiff::Timestamp;
use serving::certificates::{Rejection, Tls};
use serving::{Incoming, Limits, PATIENCE, PeerCertificates, stopped, text};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{Instrument as _, Span, field, info_span};

use crate::health::Health;
use crate::review::{self, Door, Reviewer};

/// API servers keep their connections, one for each request under way where they speak HTTP/1.1 (to Services they
/// do): these are more than a burst of pods needs. Who has asked waits for an answer no longer than this.
const LIMITS: Limits = Limits {
    clients: 1024,
    per_address: 256,
    streams: Some(100),
    drain: Duration::from_secs(10),
};
/// A few Prometheus are not more.
const METRICS_LIMITS: Limits = Limits {
    clients: 64,
    per_address: 32,
    streams: Some(10),
    drain: Duration::ZERO,
};
/// The largest review: what fits in etcd twice, before and after.
const LARGEST: usize = 3 << 20;

/// Where the numbers are.
const METRICS: &str = "/metrics";

/// Answers until it is stopped, then lets running answers end.
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
            target: runtime::TRACED, "admission",
            otel.kind = "server", path = request.uri().path(), status = field::Empty,
        );
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

/// Shows metrics and nothing else, until it is stopped.
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
                _ => text(StatusCode::NOT_FOUND, "there is GET /metrics\n"),
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

/// The metrics, for those who may see them.
async fn metrics(reviewer: &Reviewer, headers: &HeaderMap) -> Response<Full<Bytes>> {
    if let Some(keeper) = reviewer.keeper.get()
        && let Some(refusal) = keeper.refusal(headers, "get", METRICS).await
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
    let door = Door::at(request.uri().path());
    let needed = match (&door, request.uri().path()) {
        (Some(_), _) => Method::POST,
        (None, "/livez" | "/healthz" | "/readyz" | METRICS) => Method::GET,
        _ => {
            return text(
                StatusCode::NOT_FOUND,
                "there are /admit, /cpu-models, /placement, /livez, /healthz, /readyz and /metrics\n",
            );
        }
    };
    if request.method() != needed {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "another method is needed\n");
        if let Ok(method) = HeaderValue::from_str(needed.as_str()) {
            refusal.headers_mut().insert(ALLOW, method);
        }
        return refusal;
    }
    let Some(door) = door else {
        if let Some(probe) = health.answer(&request) {
            return probe;
        }
        return metrics(reviewer, request.headers()).await;
    };
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
    let body = Limited::new(request.into_body(), LARGEST).collect();
    let body = match tokio::time::timeout(PATIENCE, body).await {
        Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the body does not come\n"),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "a review has at most 3 MiB\n",
            );
        }
        Ok(Err(_)) => return text(StatusCode::BAD_REQUEST, "the body ends early\n"),
        Ok(Ok(body)) => body.to_bytes(),
    };
    match review::answer_at(reviewer, door, caller, &body, Timestamp::now()).await {
        Ok(review) => typed(review.to_string(), "application/json"),
        Err(refusal) => text(StatusCode::SERVICE_UNAVAILABLE, refusal.message),
    }
}

fn typed(body: String, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
