//! The check on a socket: TLS, HTTP/1.1 and HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use certificates::Tls;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use jiff::Timestamp;
use listener::{Incoming, Limits, PATIENCE, stopped, text};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{Instrument as _, Span, field, info_span};

use crate::review::{self, Door, Reviewer};

/// API servers keep their connections: these are more than there are. Who has asked waits for an answer
/// no longer than this.
const LIMITS: Limits = Limits {
    clients: 256,
    streams: Some(100),
    drain: Duration::from_secs(10),
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
    mut stopping: watch::Receiver<bool>,
) {
    let answer = move |request: Request<Incoming>| {
        let reviewer = reviewer.clone();
        let span = info_span!(
            target: chassis::TRACED, "admission",
            otel.kind = "server", path = request.uri().path(), status = field::Empty,
        );
        async move {
            let answer = respond(&reviewer, request).await;
            Span::current().record("status", answer.status().as_u16());
            answer
        }
        .instrument(span)
    };
    listener::serve(
        listener,
        Some(tls.of_listener()),
        LIMITS,
        answer,
        stopped(&mut stopping),
    )
    .await;
}

async fn respond(reviewer: &Reviewer, request: Request<Incoming>) -> Response<Full<Bytes>> {
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
        if request.uri().path() != METRICS {
            return text(StatusCode::OK, "ok");
        }
        if let Some(keeper) = reviewer.keeper.get()
            && let Some(refusal) = keeper.refusal(request.headers(), "get", METRICS).await
        {
            return refusal.map(|message| Full::new(message.into()));
        }
        return typed(
            reviewer.placements.metrics(),
            chassis::metrics::CONTENT_TYPE,
        );
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
    match review::answer_at(reviewer, door, &body, Timestamp::now()).await {
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
