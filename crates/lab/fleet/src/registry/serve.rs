//! The registry's listener: HTTP/1.1 and HTTP/2, without TLS, on localhost only.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use serving::{Incoming, Limits};
use tokio::net::TcpListener;
use tracing::warn;

use super::answer::{Answer, answer};
use super::library::Library;

/// Sufficient for the importers of a simulated fleet.
const LIMITS: Limits = Limits {
    clients: 256,
    per_address: 256,
    streams: Some(100),
    drain: Duration::ZERO,
};

/// Serves as long as it is polled; dropping it closes the connections.
pub(super) async fn listen(listener: TcpListener, library: Arc<Library>) {
    let answer = move |request: Request<Incoming>| {
        let library = Arc::clone(&library);
        // Generating content blocks, so it runs on a blocking thread.
        let (parts, _) = request.into_parts();
        let answered =
            tokio::task::spawn_blocking(move || answer(&library, &Request::from_parts(parts, ())));
        async move {
            answered.await.unwrap_or_else(|error| {
                warn!(%error, "answering a request failed");
                let mut answer = Answer::default();
                *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                answer
            })
        }
    };
    serving::serve(listener, None, LIMITS, answer, std::future::pending()).await;
}
