//! Whether the process is well, and its numbers, over plain HTTP.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 for as long as the process runs |
//! | `/readyz` | 200 when it works, or waits for its turn to; else 503 and what is missing |
//! | `/metrics` | OpenMetrics text |

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chassis::metrics::Metrics;
use chassis::{Manager, metrics};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use listener::{Incoming, Limits, text};
use parking_lot::Mutex;
use tokio::net::TcpListener;

/// A kubelet and a few Prometheus are not more, and speak no HTTP/2 without TLS. It never stops by
/// itself.
const LIMITS: Limits = Limits {
    clients: 64,
    streams: None,
    drain: Duration::ZERO,
};

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Another replica works; this one is ready to take over.
    StandingBy,
    /// Controllers are being started.
    Starting,
    /// Controllers run.
    Working,
}

/// How a process fares; clones share it.
#[derive(Clone)]
pub struct Health {
    manager: Manager,
    phase: Arc<Mutex<Phase>>,
}

impl Health {
    /// Of a process that stands by.
    pub fn new(manager: Manager) -> Self {
        Self {
            manager,
            phase: Arc::new(Mutex::new(Phase::StandingBy)),
        }
    }

    /// Says where the process is.
    pub fn enter(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// What is missing until the process is ready, if anything is.
    ///
    /// A replica that stands by is ready: a rollout that waits for the new one to lead would wait
    /// for the old one to go, which waits for the new one to be ready.
    pub fn missing(&self) -> Option<String> {
        match *self.phase.lock() {
            Phase::StandingBy => None,
            Phase::Starting => Some("the controllers are being started".to_owned()),
            Phase::Working => {
                let kinds: Vec<String> = self.manager.unsynced().into_iter().collect();
                (!kinds.is_empty()).then(|| format!("not listed yet: {}", kinds.join(", ")))
            }
        }
    }

    /// Answers on a socket for as long as it runs.
    pub async fn serve(self, listener: TcpListener) {
        serve(listener, move |method, path| self.answer(method, path)).await;
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            return refusal;
        }
        match path {
            "/healthz" => text(StatusCode::OK, "ok"),
            "/readyz" => match self.missing() {
                None => text(StatusCode::OK, "ok"),
                Some(missing) => text(StatusCode::SERVICE_UNAVAILABLE, missing + "\n"),
            },
            "/metrics" => told(self.manager.metrics()),
            _ => text(
                StatusCode::NOT_FOUND,
                "there are /healthz, /readyz and /metrics\n",
            ),
        }
    }
}

/// Shows metrics on a socket for as long as it runs: for programs that have nothing else to show.
pub async fn serve_metrics(listener: TcpListener, metrics: Metrics) {
    serve(listener, move |method, path| match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => told(&metrics),
        _ => text(StatusCode::NOT_FOUND, "there is GET /metrics\n"),
    })
    .await;
}

async fn serve(
    listener: TcpListener,
    answer: impl Fn(&Method, &str) -> Response<Full<Bytes>> + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    let answer = move |request: Request<Incoming>| {
        std::future::ready(answer(request.method(), request.uri().path()))
    };
    listener::serve(listener, None, LIMITS, answer, std::future::pending()).await;
}

fn told(metrics: &Metrics) -> Response<Full<Bytes>> {
    let mut answer = text(StatusCode::OK, metrics.render());
    let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests;
