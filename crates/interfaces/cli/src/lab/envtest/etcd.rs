//! The pretended etcd: it only answers health probes until it is stopped.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use serving::{Incoming, Limits};
use tokio::net::TcpListener;

use super::flags::Flags;
use crate::{exit, process};

/// One suite probes it, with few connections.
const LIMITS: Limits = Limits {
    clients: 100,
    per_address: 100,
    streams: None,
    drain: Duration::ZERO,
};

/// etcd's default for `--listen-client-urls`.
const DEFAULT_URL: &str = "http://localhost:2379";

/// envtest runs `etcd --help` and searches the output for `--unsafe-no-fsync`, before it starts etcd.
const HELP: &str = "\
Usage:
  etcd [flags]    answers health probes until it is stopped; objects are in kube-apiserver

Flags:
  --listen-client-urls 'http://localhost:2379'
      The first URL is listened on.
  --unsafe-no-fsync 'false'
      Accepted, like all flags of etcd; nothing is written to disk.
  --help
      Print this text.
";

/// Answers health probes on `--listen-client-urls` until SIGTERM or SIGINT.
pub(super) fn run(line: &[OsString]) -> anyhow::Result<()> {
    let flags = Flags::parse(line);
    if flags.has_help() {
        return exit::print(HELP);
    }
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
        serving::serve(listener, None, LIMITS, answer, stop).await;
        Ok(())
    })
}

/// Host and port of a URL. There is nothing to protect with TLS here.
fn authority(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("http://")?.split('/').next()?;
    let port = authority.rsplit_once(':')?.1;
    port.parse::<u16>().is_ok().then_some(authority)
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let is_probe = matches!(request.uri().path(), "/health" | "/livez" | "/readyz");
    let mut response = if is_probe {
        serving::text(StatusCode::OK, r#"{"health":"true","reason":""}"#)
    } else {
        serving::text(StatusCode::NOT_FOUND, "404 page not found\n")
    };
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
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
