//! A minimal browser: signs in by the link and requests pages.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// A signed-in session.
pub(super) struct Browser {
    client: Client<HttpConnector, Full<Bytes>>,
    /// Host and port.
    authority: String,
    cookie: String,
}

impl Browser {
    /// Signs in by the link that `medley up` prints.
    pub(super) async fn sign_in(output: &str) -> anyhow::Result<Self> {
        let mut lines = output.lines().map(str::trim);
        let link = lines.find(|line| line.contains("/sign-in/link?code="));
        let link = link.with_context(|| format!("no link in {output}"))?;
        let (base, code) = link
            .split_once("/sign-in/link?code=")
            .context("a link to sign in")?;
        let authority = base.trim_start_matches("http://").to_owned();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{base}/sign-in/link"))
            .header(HOST, &authority)
            .header(ORIGIN, base)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::from(format!("code={code}")))?;
        let answer = client.request(request).await.context("signing in")?;
        ensure!(
            answer.status() == StatusCode::SEE_OTHER,
            "signing in was answered with {}",
            answer.status()
        );
        let cookie = answer.headers().get(SET_COOKIE).context("no cookie")?;
        let cookie = cookie.to_str()?.split(';').next().unwrap_or_default();
        Ok(Self {
            cookie: cookie.to_owned(),
            client,
            authority,
        })
    }

    /// Reads a whole page; returns the latency in milliseconds.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<f64> {
        let request = Request::builder()
            .uri(format!("http://{}{path}", self.authority))
            .header(HOST, &self.authority)
            .header(COOKIE, &self.cookie)
            .body(Full::default())?;
        let started = Instant::now();
        let answer = self.client.request(request).await;
        let answer = answer.with_context(|| format!("reading {path}"))?;
        let status = answer.status();
        let page = answer.into_body().collect().await?.to_bytes();
        let took = started.elapsed().as_secs_f64() * 1e3;
        ensure!(
            status == StatusCode::OK,
            "{path} was answered with {status}"
        );
        let page = String::from_utf8_lossy(&page);
        // An error page is fast, but must not count.
        ensure!(
            !page.contains("class=\"unseen\""),
            "{path} shows nothing: {page}"
        );
        Ok(took)
    }
}
