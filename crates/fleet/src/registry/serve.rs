//! The registry on a socket: HTTP/1.1 and HTTP/2, without TLS, for this machine alone.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::answer::{Answer, answer};
use super::library::Library;

/// How long a client may take to send its headers.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many clients are listened to at once.
const CLIENTS: usize = 256;

/// Answers for as long as it is polled; connections end with it.
pub(super) async fn listen(listener: TcpListener, library: Arc<Library>) {
    let mut clients = JoinSet::new();
    loop {
        let stream = tokio::select! {
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
        clients.spawn(connection(stream, Arc::clone(&library)));
    }
}

async fn connection(stream: TcpStream, library: Arc<Library>) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "setting TCP_NODELAY failed");
    }
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let library = Arc::clone(&library);
        // What was not made before is made now, which is work.
        let (parts, _) = request.into_parts();
        let answered = tokio::task::spawn_blocking(move || {
            answer(&library, &http::Request::from_parts(parts, ()))
        });
        async move {
            let answer = answered.await.unwrap_or_else(|error| {
                warn!(%error, "answering a request failed");
                let mut answer = Answer::default();
                *answer.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
                answer
            });
            Ok::<_, Infallible>(answer)
        }
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
    if let Err(error) = builder
        .serve_connection(TokioIo::new(stream), service)
        .await
    {
        debug!(%error, "a connection ended early");
    }
}
