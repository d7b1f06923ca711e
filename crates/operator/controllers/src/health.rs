//! Whether the process is well, its numbers and how much it says.
//!
//! | path | answer |
//! |---|---|
//! | `/livez`, `/healthz` | 200 for as long as the process does what it should; `?verbose` says what was looked at |
//! | `/readyz` | 200 when everything has been seen that controllers look at; else 503 and what is missing |
//! | `/metrics` | OpenMetrics text, for whoever may |
//! | `/loglevel` | how much is logged; `PUT` changes it, from this machine or by whoever may |
//!
//! Probes come over plain HTTP and without tokens. Where metrics are for those only who have one, they can be
//! given a socket of their own, so that no token is sent in the clear.

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
use runtime::access::Keeper;
use runtime::metrics::Metrics;
use runtime::{Manager, metrics};
use serving::checks::{self, Check};
use serving::{Incoming, Limits, PeerAddress, Tls, text};
use tokio::net::TcpListener;

/// A kubelet and a few Prometheus are not more, and speak no HTTP/2 without TLS. It never stops by
/// itself.
const LIMITS: Limits = Limits {
    clients: 64,
    per_address: 32,
    streams: None,
    drain: Duration::ZERO,
};
/// No filter of logs is longer.
const LONGEST_LEVEL: usize = 4096;

const METRICS: &str = "/metrics";
const LOG_LEVEL: &str = "/loglevel";

/// Where a process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Controllers are being started.
    Starting,
    /// Another replica works; this one sees all that it sees, and is ready to take over.
    StandingBy,
    /// Controllers run.
    Working,
}

/// How much is logged, as `RUST_LOG` has it.
#[derive(Debug, Clone, Copy)]
pub struct LogLevel {
    /// What it is.
    pub get: fn() -> String,
    /// Makes it something else; says why not if it makes no sense.
    pub set: fn(&str) -> Result<(), String>,
}

/// How a process fares; clones share it.
#[derive(Clone)]
pub struct Health {
    manager: Manager,
    phase: Arc<Mutex<Phase>>,
    keeper: Option<Keeper>,
    log: Option<LogLevel>,
}

/// What is asked for at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    /// All there is.
    Everything,
    /// Probes; and the log level, by whoever is on this machine.
    Health,
    /// What takes a token, by TLS.
    Metrics,
}

impl Health {
    /// Of a process that starts. Everybody may read its metrics.
    pub fn new(manager: Manager) -> Self {
        Self {
            manager,
            phase: Arc::new(Mutex::new(Phase::Starting)),
            keeper: None,
            log: None,
        }
    }

    /// Has metrics shown to those only whom the cluster allows it.
    #[must_use]
    pub fn guarded(mut self, keeper: Keeper) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Has it said and changed how much is logged.
    #[must_use]
    pub fn with_log_level(mut self, log: LogLevel) -> Self {
        self.log = Some(log);
        self
    }

    /// Says where the process is.
    pub fn enter(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// Answers everything on a socket, for as long as it runs.
    pub async fn serve(self, listener: TcpListener) {
        self.serve_at(Door::Everything, listener, None).await;
    }

    /// Answers probes on a socket, and what takes a token on another, by TLS; for as long as it runs.
    pub async fn serve_apart(self, probes: TcpListener, metrics: TcpListener, tls: Tls) {
        tokio::join!(
            self.clone().serve_at(Door::Health, probes, None),
            self.serve_at(Door::Metrics, metrics, Some(tls)),
        );
    }

    async fn serve_at(self, door: Door, listener: TcpListener, tls: Option<Tls>) {
        let answer = move |request: Request<Incoming>| {
            let health = self.clone();
            async move { health.answer(door, request).await }
        };
        serving::serve(listener, tls, LIMITS, answer, std::future::pending()).await;
    }

    async fn answer<B>(&self, door: Door, request: Request<B>) -> Response<Full<Bytes>>
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
            "/livez" | "/healthz" | "/readyz" if door == Door::Metrics => nothing(door),
            "/livez" | "/healthz" => checks::answer(&request, "livez", &self.alive()),
            "/readyz" => checks::answer(&request, "readyz", &self.ready()),
            METRICS if door == Door::Health => nothing(door),
            METRICS => match self.refusal(&request, "get", METRICS).await {
                Some(refusal) => refusal,
                None => told(self.manager.metrics()),
            },
            LOG_LEVEL => match self.log {
                Some(log) => self.log_level(door, log, request).await,
                None => nothing(door),
            },
            _ => nothing(door),
        }
    }

    /// What it takes to go on running.
    fn alive(&self) -> Vec<Check> {
        let phase = *self.phase.lock();
        let turn = self.manager.turn();
        let election = match phase {
            // It ends by itself then. If it does not, somebody has to help.
            Phase::Working if !turn.is_now() => Err("the lease is lost".to_owned()),
            Phase::Working => Ok("working"),
            Phase::StandingBy => Ok("standing by"),
            Phase::Starting => Ok("starting"),
        };
        vec![Check::new("ping", Ok("")), Check::new("election", election)]
    }

    /// What it takes to work, or to take over.
    ///
    /// A replica that stands by may be ready: a rollout that waits for the new one to lead would wait
    /// for the old one to go, which waits for the new one to be ready.
    fn ready(&self) -> Vec<Check> {
        let started = match *self.phase.lock() {
            Phase::Starting => Err("the controllers are being started".to_owned()),
            Phase::StandingBy | Phase::Working => Ok(""),
        };
        let kinds: Vec<String> = self.manager.unsynced().into_iter().collect();
        let seen = match kinds.as_slice() {
            [] => Ok(""),
            kinds => Err(format!("not listed yet: {}", kinds.join(", "))),
        };
        vec![
            Check::new("controllers", started),
            Check::new("caches", seen),
        ]
    }

    /// Why somebody is not shown something, if they are not.
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

    /// Says how much is logged, or logs more or less. Whoever is on this machine may do worse than that;
    /// nobody else may unless the cluster says so, and tokens are taken where nobody else reads them.
    async fn log_level<B>(
        &self,
        door: Door,
        log: LogLevel,
        request: Request<B>,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let changes = request.method() == Method::PUT;
        let peer = request.extensions().get::<PeerAddress>();
        let is_here =
            peer.is_some_and(|PeerAddress(address)| address.ip().to_canonical().is_loopback());
        let only_here = door == Door::Health || (changes && self.keeper.is_none());
        if !is_here {
            if only_here {
                return text(StatusCode::FORBIDDEN, "from this machine only\n");
            }
            let verb = if changes { "put" } else { "get" };
            if let Some(refusal) = self.refusal(&request, verb, LOG_LEVEL).await {
                return refusal;
            }
        }
        if !changes {
            return text(StatusCode::OK, (log.get)() + "\n");
        }
        let body = Limited::new(request.into_body(), LONGEST_LEVEL).collect();
        let body = match tokio::time::timeout(serving::PATIENCE, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return text(StatusCode::PAYLOAD_TOO_LARGE, "at most 4 KiB\n"),
            Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the body does not come\n"),
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

fn nothing(door: Door) -> Response<Full<Bytes>> {
    let there = match door {
        Door::Everything => "there are /livez, /readyz, /healthz, /metrics and /loglevel\n",
        Door::Health => "there are /livez, /readyz, /healthz and /loglevel\n",
        Door::Metrics => "there are /metrics and /loglevel\n",
    };
    text(StatusCode::NOT_FOUND, there)
}

/// Shows metrics on a socket for as long as it runs: for programs that have nothing else to show.
pub async fn serve_metrics(listener: TcpListener, metrics: Metrics) {
    let answer = move |request: Request<Incoming>| {
        std::future::ready(match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, METRICS) => told(&metrics),
            _ => text(StatusCode::NOT_FOUND, "there is GET /metrics\n"),
        })
    };
    serving::serve(listener, None, LIMITS, answer, std::future::pending()).await;
}

fn told(metrics: &Metrics) -> Response<Full<Bytes>> {
    let mut answer = text(StatusCode::OK, metrics.render());
    let kind = HeaderValue::from_static(metrics::CONTENT_TYPE);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
