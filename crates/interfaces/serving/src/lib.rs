//! HTTP servers, with or without TLS: the API server, the webhooks, health and metrics, and the
//! simulated registry all listen here.
//!
//! Shared are the limits on clients: how many connections there may be, how long they may take
//! before the first request, and how long they get when the server stops. The handler is a
//! function.

pub mod certificates;
pub mod checks;
mod connections;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

pub use hyper::body::Incoming;
pub use tls::{TlsError, tls_settings};

use connections::{Connections, Registration, Tracked};
use stream::{Stream, Watched};

/// Timeout of the TLS handshake, of the first request, and of the headers of a request.
// Shorter than the 32 s that kube-apiserver allows for headers
// (`apiserver/pkg/server/secure_serving.go`): these servers have fewer connections to spend on
// clients that send nothing.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Keep-alive timeout between requests, as in kube-apiserver. Clients reuse connections, and lose a
/// request that they send while one is being closed.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(90);

/// How long an idle connection that is closed for another may take: enough for HTTP/2 to send
/// GOAWAY, which makes clients repeat requests that they sent meanwhile.
const EVICTION_GRACE: Duration = Duration::from_millis(200);

/// Limits on clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once. Beyond it the longest idle connection is closed for a new one; where
    /// none is idle, new ones wait to be accepted.
    pub clients: usize,
    /// Connections from one address (of IPv6, from one /64). Beyond it the longest idle one of that
    /// address is closed for a new one; where none is idle, the new one is closed.
    pub per_address: usize,
    /// Concurrent requests per HTTP/2 connection. `None`: HTTP/1.1 only.
    pub streams: Option<u32>,
    /// How long requests in flight get when the server stops.
    pub drain: Duration,
}

/// Returns the current TLS settings. Called for every connection, so that certificates can be
/// renewed.
pub type Tls = Box<dyn Fn() -> Arc<ServerConfig> + Send>;

/// The certificates that a client presented, its own first: an extension of its requests. TLS has
/// verified that the client has the key of the first, and as much of the chain as the verifier of
/// [`tls_settings`] checks.
#[derive(Debug, Clone)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

/// The address of a client: an extension of its requests.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub SocketAddr);

/// A response future with a type-erased body.
type ResponseFuture = Pin<Box<dyn Future<Output = Response<AnyBody>> + Send>>;
type AnyBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;
/// The handler of one connection.
type Handler = Box<dyn Fn(Request<Incoming>) -> ResponseFuture + Send>;

/// Serves until `stop` completes, then lets requests in flight finish. When it is dropped instead,
/// all connections end with it.
pub async fn serve<A, F, B>(
    listener: TcpListener,
    tls: Option<Tls>,
    limits: Limits,
    answer: A,
    stop: impl Future<Output = ()> + Send,
) where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let answer = move || any(answer.clone());
    accept(listener, tls, limits, Box::new(answer), pin!(stop)).await;
}

/// Erases the types of a handler. hyper's connection code is large, and would be compiled for every
/// type of handler.
fn any<A, F, B>(answer: A) -> Handler
where
    A: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    Box::new(move |request| {
        let answered = answer(request);
        Box::pin(async move {
            let answer = answered.await;
            answer.map(|body| body.map_err(Into::into).boxed_unsync())
        })
    })
}

async fn accept(
    listener: TcpListener,
    tls: Option<Tls>,
    limits: Limits,
    answer: Box<dyn Fn() -> Handler + Send>,
    mut stop: Pin<&mut (dyn Future<Output = ()> + Send)>,
) {
    let (stopping, stopped) = watch::channel(false);
    let connections = Connections::new(limits);
    // Connections that are being closed get a grace period; together with open ones there are never
    // more than this.
    let most = limits.clients.saturating_mul(2);
    let mut clients = JoinSet::new();
    loop {
        let has_capacity = connections.has_capacity();
        let (stream, peer) = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept(), if has_capacity && clients.len() < most => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely out of file descriptors; some will be closed.
                    warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            Some(_) = clients.join_next() => continue,
            () = connections.freed(), if !has_capacity => continue,
        };
        // Dropped without a response: at this point no byte has been read, and answering would cost
        // a TLS handshake.
        let Some(registration) = connections.admit(peer.ip()) else {
            debug!(%peer, limit = limits.per_address, "closed a connection: its address has too many requests in flight");
            continue;
        };
        // For each connection, so that a renewed certificate is used without a restart.
        let tls = tls.as_ref().map(|settings| TlsAcceptor::from(settings()));
        let (stopped, streams) = (stopped.clone(), limits.streams);
        let answer = answer();
        let answer = Box::new(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(PeerAddress(peer));
            answer(request)
        });
        clients.spawn(client(stream, registration, tls, streams, answer, stopped));
    }
    // Closed before the drain, so that a load balancer sees the port refuse connections and a
    // successor can bind it.
    drop(listener);
    stopping.send_replace(true);
    let _ = tokio::time::timeout(limits.drain, async {
        while clients.join_next().await.is_some() {}
    })
    .await;
}

/// Completes when the value becomes true, or when the sender is dropped.
pub async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// A plain text response.
pub fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn client(
    stream: TcpStream,
    registration: Registration,
    tls: Option<TlsAcceptor>,
    streams: Option<u32>,
    answer: Handler,
    stopped: watch::Receiver<bool>,
) {
    // Requests and responses are small, and a caller waits for each.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "setting TCP_NODELAY failed");
    }
    let Some(tls) = tls else {
        let stream = Box::new(stream);
        return converse(
            stream,
            &registration,
            streams,
            answer,
            stopped,
            CLIENT_TIMEOUT,
        )
        .await;
    };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(CLIENT_TIMEOUT, tls.accept(stream)) => shaken,
        // A connection in its handshake is idle, and has to make room like any other.
        () = registration.connection().evicted() => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            // Most likely a client that does not trust the certificate.
            debug!(%error, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    let shown = stream.get_ref().1.peer_certificates();
    let shown = shown.map(|chain| {
        let chain = chain.iter().map(|it| it.clone().into_owned());
        PeerCertificates(chain.collect())
    });
    let answer = Box::new(move |mut request: Request<Incoming>| {
        if let Some(shown) = &shown {
            request.extensions_mut().insert(shown.clone());
        }
        answer(request)
    });
    let stream = Box::new(stream);
    converse(
        stream,
        &registration,
        streams,
        answer,
        stopped,
        CLIENT_TIMEOUT,
    )
    .await;
}

async fn converse(
    stream: Box<dyn Stream>,
    registration: &Registration,
    streams: Option<u32>,
    answer: Handler,
    mut stopped: watch::Receiver<bool>,
    patience: Duration,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    if streams.is_none() {
        builder = builder.http1_only();
    }
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEP_ALIVE_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let connection = registration.connection();
    let service = {
        let connection = Arc::clone(connection);
        service_fn(move |request: Request<Incoming>| {
            // Before the handler runs: between the head of a request and its response the
            // connection must not count as idle.
            let under_way = connection.begin(request.version() == Version::HTTP_2);
            let answered = answer(request);
            async move {
                let answer = answered.await;
                Ok::<_, Infallible>(answer.map(|body| Tracked::new(body, under_way)))
            }
        })
    };
    let stream = Watched::new(stream, Arc::clone(connection), patience);
    let conversation = builder.serve_connection(TokioIo::new(stream), service);
    // hyper has no timeout for connections before their first request, or before the HTTP version
    // is known.
    let silent = async {
        tokio::time::sleep(patience).await;
        if connection.has_sent_request() {
            pending::<()>().await;
        }
    };
    tokio::pin!(conversation);
    let outcome = tokio::select! {
        outcome = conversation.as_mut() => outcome,
        () = self::stopped(&mut stopped) => {
            conversation.as_mut().graceful_shutdown();
            conversation.await
        }
        () = connection.evicted() => {
            debug!("closing an idle connection in favour of another");
            conversation.as_mut().graceful_shutdown();
            match tokio::time::timeout(EVICTION_GRACE, conversation.as_mut()).await {
                Ok(outcome) => outcome,
                Err(_) => return,
            }
        }
        () = silent => {
            conversation.as_mut().graceful_shutdown();
            match tokio::time::timeout(patience, conversation.as_mut()).await {
                Ok(outcome) => outcome,
                // A request arrived at the last moment.
                Err(_) if connection.has_sent_request() => conversation.await,
                // HTTP/2 would wait most of a minute for the reply to GOAWAY.
                Err(_) => return,
            }
        }
    };
    if let Err(error) = outcome {
        debug!(%error, "a connection ended early");
    }
}
