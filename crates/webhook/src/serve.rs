//! The check on a socket: TLS, HTTP/1.1 and HTTP/2.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::certificates::Tls;
use crate::review::{self, Door, Reviewer};

/// How long a client may take to shake hands, to send its headers, or to send a body.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long questions that were asked may take when the check stops.
const DRAIN: Duration = Duration::from_secs(10);
/// How many clients are listened to at once. API servers keep their connections.
const CLIENTS: usize = 256;
/// The largest review: what fits in etcd twice, before and after.
const LARGEST: usize = 3 << 20;

/// Answers until it is stopped, then lets running answers end.
pub(crate) async fn listen(
    listener: TcpListener,
    tls: Tls,
    reviewer: Reviewer,
    mut stopped: watch::Receiver<bool>,
) {
    let mut clients = JoinSet::new();
    let stopping = stopped.clone();
    loop {
        let stream = tokio::select! {
            () = over(&mut stopped) => break,
            accepted = listener.accept(), if clients.len() < CLIENTS => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file handles, most likely; they come back.
                    warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            Some(_) = clients.join_next() => continue,
        };
        let acceptor = TlsAcceptor::from(tls.current());
        clients.spawn(connection(
            stream,
            acceptor,
            reviewer.clone(),
            stopping.clone(),
        ));
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN, async {
        while clients.join_next().await.is_some() {}
    })
    .await;
}

/// Ready when the check is to stop, or nobody is left who could say so.
pub(crate) async fn over(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    reviewer: Reviewer,
    mut stopped: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "setting TCP_NODELAY failed");
    }
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            // An API server that has not seen a new registration yet, most likely.
            debug!(%error, "a client did not like the certificate");
            return;
        }
        Err(_) => return,
    };
    let service = service_fn(move |request| {
        let reviewer = reviewer.clone();
        async move { Ok::<_, Infallible>(respond(&reviewer, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let outcome = tokio::select! {
        outcome = serving.as_mut() => outcome,
        () = over(&mut stopped) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = outcome {
        debug!(%error, "a connection ended early");
    }
}

async fn respond(reviewer: &Reviewer, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let door = Door::at(request.uri().path());
    let needed = match (&door, request.uri().path()) {
        (Some(_), _) => Method::POST,
        (None, "/healthz" | "/readyz") => Method::GET,
        _ => {
            return text(
                StatusCode::NOT_FOUND,
                "there are /admit, /cpu-models, /healthz and /readyz\n",
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
        return text(StatusCode::OK, "ok");
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
    let review = review::answer_at(reviewer, door, &body, Timestamp::now()).await;
    let mut response = Response::new(Full::new(Bytes::from(review.to_string())));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn text(code: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
