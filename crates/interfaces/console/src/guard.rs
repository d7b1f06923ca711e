//! What every request has to pass, and what every answer says: no foreign names, no foreign forms, no
//! foreign content.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method};

use crate::Console;
use crate::error::Problem;

/// Everything comes from here, and nothing is written into the page that runs or styles it.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const FIXED: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Lets a request pass that is meant for this console and was sent by its own pages.
pub(crate) async fn guard(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let options = &console.shared().options;
    let mut response = match check(request.method(), request.headers(), options) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if options.secure {
        let value = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, value);
    }
    // What a user sees is for nobody else, and for no later; assets say otherwise.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check(method: &Method, headers: &HeaderMap, options: &crate::Options) -> Result<(), Problem> {
    let said = |name| headers.get(name).and_then(|it| it.to_str().ok());
    let host = said(HOST).unwrap_or_default();
    if !is_own_host(host, &options.hosts) {
        return Err(Problem::refused(format!(
            "This console is not called {host:?}. It answers to its address, to localhost and to the names \
             given with --console-host."
        )));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    if said(ORIGIN).is_some_and(|origin| is_own_origin(origin, host)) {
        return Ok(());
    }
    Err(Problem::refused(
        "The request does not come from a page of this console, so nothing was done.",
    ))
}

/// Whether a Host header names this console. A name that somebody else's DNS could point here is not
/// believed (DNS rebinding); an address cannot be pointed anywhere.
fn is_own_host(host: &str, names: &[String]) -> bool {
    let bare = without_port(host);
    let is_address = bare.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address
        || bare.eq_ignore_ascii_case("localhost")
        || names.iter().any(|name| name.eq_ignore_ascii_case(bare))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((bare, port)) if port.chars().all(|c| c.is_ascii_digit()) && !bare.ends_with(':') => {
            bare
        }
        _ => host,
    }
}

fn is_own_origin(origin: &str, host: &str) -> bool {
    let (scheme, authority) = origin.split_once("://").unwrap_or_default();
    matches!(scheme, "http" | "https") && authority.eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_could_point_here_are_not_believed() {
        let names = ["console.example".to_owned()];
        for (host, own) in [
            ("127.0.0.1:8080", true),
            ("localhost:8080", true),
            ("LocalHost", true),
            ("[::1]:8080", true),
            ("192.0.2.7", true),
            ("console.example", true),
            ("console.example:443", true),
            ("evil.example:8080", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_own_host(host, &names), own, "{host}");
        }
    }

    #[test]
    fn forms_of_other_sites_are_not_taken() {
        for (origin, own) in [
            ("http://127.0.0.1:8080", true),
            ("https://127.0.0.1:8080", true),
            ("http://127.0.0.1:8081", false),
            ("http://localhost:8080", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(is_own_origin(origin, "127.0.0.1:8080"), own, "{origin}");
        }
    }
}
