//! The pretended etcd: it only answers health probes until it is stopped.

use std::convert::Infallible;
use std::ffi::OsString;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use super::flags::Flags;
use crate::process;

/// etcd's default for `--listen-client-urls`.
const DEFAULT_URL: &str = "http://localhost:2379";

/// Answers health probes on `--listen-client-urls` until SIGTERM or SIGINT.
pub(super) fn run(line: &[OsString]) -> anyhow::Result<()> {
    let flags = Flags::parse(line);
    let url = flags
        .first("listen-client-urls")
        .unwrap_or(DEFAULT_URL)
        .to_owned();
    let address = authority(&url)
        .with_context(|| format!("--listen-client-urls is {url:?}, expected http://HOST:PORT"))?
        .to_owned();
    process::build_runtime()?.block_on(async {
        let stop = process::stop_signal()?;
        let listener = TcpListener::bind(&address)
            .await
            .with_context(|| format!("listening on {address} (--listen-client-urls)"))?;
        tokio::select! {
            () = stop => {}
            () = accept(&listener) => {}
        }
        Ok(())
    })
}

/// Host and port of a URL. There is nothing to protect with TLS here.
fn authority(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("http://")?.split('/').next()?;
    let port = authority.rsplit_once(':')?.1;
    port.parse::<u16>().is_ok().then_some(authority)
}

async fn accept(listener: &TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(async move {
                    let connection = auto::Builder::new(TokioExecutor::new());
                    // A prober that disconnects early needs no answer.
                    let _ = connection
                        .serve_connection(TokioIo::new(stream), service_fn(answer))
                        .await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = if matches!(request.uri().path(), "/health" | "/livez" | "/readyz") {
        Response::new(Full::from(r#"{"health":"true","reason":""}"#))
    } else {
        let mut response = Response::new(Full::from("404 page not found\n"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    };
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_listens_only_on_urls_with_a_port() {
        for (url, expected) in [
            ("http://127.0.0.1:2379", Some("127.0.0.1:2379")),
            ("http://localhost:0/", Some("localhost:0")),
            ("http://[::1]:5", Some("[::1]:5")),
            ("https://127.0.0.1:2379", None),
            ("http://127.0.0.1", None),
            ("http://127.0.0.1:many", None),
            ("127.0.0.1:1", None),
        ] {
            assert_eq!(authority(url), expected, "{url}");
        }
    }
}
