//! Health probes, metrics and the log level over HTTP.
//!
//! | path | answer |
//! |---|---|
//! | `/livez`, `/healthz` | 200 unless the leader has lost its lease; `?verbose` lists the checks |
//! | `/readyz` | 200 when the controllers are started and their caches have synced; else 503 and what is missing |
//! | `/metrics` | OpenMetrics text, if the caller is authorized |
//! | `/loglevel` | the log filter; `PUT` changes it, from loopback or by an authorized caller |
//!
//! Probes use plain HTTP without tokens. Where metrics need a token, they can have a TLS socket of their own, so that
//! no token is sent in the clear.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};
use parking_lot::Mutex;
use runtime::access::EndpointAuthorizer;
use runtime::metrics::Metrics;
use runtime::{Manager, metrics};
use serving::checks::{self, Check};
use serving::{Incoming, Limits, PeerAddress, Tls, text};
use tokio::net::TcpListener;

/// Enough for a kubelet and a few Prometheus servers, which use HTTP/1.1 without TLS. No draining: the server runs
/// until the process exits.
const LIMITS: Limits = Limits {
    clients: 64,
    per_address: 32,
    streams: None,
    drain: Duration::ZERO,
};
/// Limit of a `PUT /loglevel` body; log filters are far shorter.
const MAX_LOG_FILTER_BYTES: usize = 4096;

const METRICS: &str = "/metrics";
const LOG_LEVEL: &str = "/loglevel";

/// Startup phase of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Controllers are being started.
    Starting,
    /// Another replica leads; the caches of this one are warm, and it can take over.
    StandingBy,
    /// This replica leads.
    Working,
}

/// Access to the log filter, in the syntax of `RUST_LOG`.
#[derive(Debug, Clone, Copy)]
pub struct LogLevel {
    /// Reads the filter.
    pub get: fn() -> String,
    /// Replaces the filter; the error explains invalid syntax.
    pub set: fn(&str) -> Result<(), String>,
}

/// Health endpoints of a process; clones share their state.
#[derive(Clone)]
pub struct Health {
    manager: Manager,
    phase: Arc<Mutex<Phase>>,
    keeper: Option<EndpointAuthorizer>,
    log: Option<LogLevel>,
}

/// The set of paths served on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoints {
    /// All paths.
    All,
    /// Probes; the log level for loopback callers only.
    Health,
    /// Metrics and log level, over TLS.
    Metrics,
}

impl Health {
    /// A process in [`Phase::Starting`], with unrestricted metrics.
    pub fn new(manager: Manager) -> Self {
        Self {
            manager,
            phase: Arc::new(Mutex::new(Phase::Starting)),
            keeper: None,
            log: None,
        }
    }

    /// Restricts metrics to callers that the cluster authorizes.
    #[must_use]
    pub fn guarded(mut self, keeper: EndpointAuthorizer) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Serves the log level.
    #[must_use]
    pub fn with_log_level(mut self, log: LogLevel) -> Self {
        self.log = Some(log);
        self
    }

    /// Records the phase.
    pub fn enter(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// Serves all paths on one socket; never returns.
    pub async fn serve(self, listener: TcpListener) {
        self.serve_at(Endpoints::All, listener, None).await;
    }

    /// Serves probes on one socket, and metrics over TLS on another; never returns.
    pub async fn serve_with_metrics_socket(
        self,
        probes: TcpListener,
        metrics: TcpListener,
        tls: Tls,
    ) {
        tokio::join!(
            self.clone().serve_at(Endpoints::Health, probes, None),
            self.serve_at(Endpoints::Metrics, metrics, Some(tls)),
        );
    }

    async fn serve_at(self, endpoints: Endpoints, listener: TcpListener, tls: Option<Tls>) {
        let answer = move |request: Request<Incoming>| {
            let health = self.clone();
            async move { health.answer(endpoints, request).await }
        };
        serving::serve(listener, tls, LIMITS, answer, std::future::pending()).await;
    }

    async fn answer<B>(&self, endpoints: Endpoints, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let path = request.uri().path();
        let changes = path == LOG_LEVEL && request.method() == Method::PUT;
        if !changes && !matches!(*request.method(), Method::GET | Method::HEAD) {
            let allowed = if path == LOG_LEVEL {
                "GET, HEAD, PUT"
            } else {
                "GET, HEAD"
            };
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, format!("{allowed} only\n"));
            let allowed = HeaderValue::from_static(allowed);
            refusal.headers_mut().insert(ALLOW, allowed);
            return refusal;
        }
        match path {
            "/livez" | "/healthz" | "/readyz" if endpoints == Endpoints::Metrics => {
                not_found(endpoints)
            }
            "/livez" | "/healthz" => checks::answer(&request, "livez", &self.liveness()),
            "/readyz" => checks::answer(&request, "readyz", &self.readiness()),
            METRICS if endpoints == Endpoints::Health => not_found(endpoints),
            METRICS => match self.refusal(&request, "get", METRICS).await {
                Some(refusal) => refusal,
                None => metrics_response(self.manager.metrics()),
            },
            LOG_LEVEL => match self.log {
                Some(log) => self.log_level(endpoints, log, request).await,
                None => not_found(endpoints),
            },
            _ => not_found(endpoints),
        }
    }

    /// Liveness checks.
    fn liveness(&self) -> Vec<Check> {
        let phase = *self.phase.lock();
        let fence = self.manager.fence();
        let election = match phase {
            // The process exits when it loses the lease. If it hangs instead, the kubelet restarts it.
            Phase::Working if !fence.is_leader() => Err("the lease is lost".to_owned()),
            Phase::Working => Ok("working"),
            Phase::StandingBy => Ok("standing by"),
            Phase::Starting => Ok("starting"),
        };
        vec![Check::new("ping", Ok("")), Check::new("election", election)]
    }

    /// Readiness checks.
    ///
    /// A standby replica is ready: a rollout waits for the new pod to be ready before it stops the old one, and the new
    /// one cannot lead before the old one releases the lease.
    fn readiness(&self) -> Vec<Check> {
        let started = match *self.phase.lock() {
            Phase::Starting => Err("the controllers are being started".to_owned()),
            Phase::StandingBy | Phase::Working => Ok(""),
        };
        let kinds: Vec<String> = self.manager.unsynced().into_iter().collect();
        let caches = match kinds.as_slice() {
            [] => Ok(""),
            kinds => Err(format!("not listed yet: {}", kinds.join(", "))),
        };
        let mut checks = vec![
            Check::new("controllers", started),
            Check::new("caches", caches),
        ];
        // Ready all the same: what does not use the kind works, and a pod that is not ready would stop a rollout that may
        // bring the missing permission.
        let rejected = self.manager.rejected_kinds();
        if !rejected.is_empty() {
            let rejected = rejected.iter().map(|(kind, why)| format!("{kind}: {why}"));
            let rejected: Vec<_> = rejected.collect();
            let note = format!("cannot be read: {}", rejected.join("; "));
            checks.push(Check::with_note("kinds", note));
        }
        checks
    }

    /// The 401 or 403 response, unless the caller is authorized.
    async fn refusal<B>(
        &self,
        request: &Request<B>,
        verb: &'static str,
        path: &'static str,
    ) -> Option<Response<Full<Bytes>>> {
        let keeper = self.keeper.as_ref()?;
        let refusal = keeper.refusal(request.headers(), verb, path).await?;
        Some(refusal.map(|message| Full::new(message.into())))
    }

    /// Returns or changes the log filter. Loopback callers run in the same network namespace and need no token; others
    /// need authorization, and the plain-HTTP probe socket accepts no tokens.
    async fn log_level<B>(
        &self,
        endpoints: Endpoints,
        log: LogLevel,
        request: Request<B>,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let changes = request.method() == Method::PUT;
        let peer = request.extensions().get::<PeerAddress>();
        let is_loopback =
            // Canonical: on a dual-stack socket an IPv4 client arrives as
            // `::ffff:127.0.0.1`, which is not an IPv6 loopback address.
            peer.is_some_and(|PeerAddress(address)| address.ip().to_canonical().is_loopback());
        let loopback_only = endpoints == Endpoints::Health || (changes && self.keeper.is_none());
        if !is_loopback {
            if loopback_only {
                return text(StatusCode::FORBIDDEN, "allowed from loopback only\n");
            }
            let verb = if changes { "put" } else { "get" };
            if let Some(refusal) = self.refusal(&request, verb, LOG_LEVEL).await {
                return refusal;
            }
        }
        if !changes {
            return text(StatusCode::OK, (log.get)() + "\n");
        }
        let body = Limited::new(request.into_body(), MAX_LOG_FILTER_BYTES).collect();
        let body = match tokio::time::timeout(serving::CLIENT_TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => {
                return text(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the log filter is limited to 4 KiB\n",
                );
            }
            Err(_) => {
                return text(
                    StatusCode::REQUEST_TIMEOUT,
                    "timed out reading the request body\n",
                );
            }
        };
        let Ok(level) = std::str::from_utf8(&body) else {
            return text(StatusCode::BAD_REQUEST, "expected text\n");
        };
        match (log.set)(level.trim()) {
            Ok(()) => text(StatusCode::OK, (log.get)() + "\n"),
            Err(why) => text(StatusCode::BAD_REQUEST, why + "\n"),
        }
    }
}

fn not_found(endpoints: Endpoints) -> Response<Full<Bytes>> {
    let there = match endpoints {
        Endpoints::All => "not found; paths: /livez, /readyz, /healthz, /metrics and /loglevel\n",
        Endpoints::Health => "not found; paths: /livez, /readyz, /healthz and /loglevel\n",
        Endpoints::Metrics => "not found; paths: /metrics and /loglevel\n",
    };
    text(StatusCode::NOT_FOUND, there)
}

/// Serves `/metrics` only; never returns. For programs without health checks of their own.
pub async fn serve_metrics(listener: TcpListener, metrics: Metrics) {
    let answer = move |request: Request<Incoming>| {
        std::future::ready(match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, METRICS) => metrics_response(&metrics),
            _ => text(StatusCode::NOT_FOUND, "not found; use GET /metrics\n"),
        })
    };
    serving::serve(listener, None, LIMITS, answer, std::future::pending()).await;
}

fn metrics_response(metrics: &Metrics) -> Response<Full<Bytes>> {
    let mut answer = text(StatusCode::OK, metrics.render());
    let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
