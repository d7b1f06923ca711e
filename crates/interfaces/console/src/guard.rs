//! Checks of every request and headers of every response: no foreign hosts, no cross-site forms, no
//! third-party content.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, ORIGIN, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method};

use crate::Console;
use crate::cookies::authority;
use crate::error::Problem;

/// Everything is loaded from this origin; inline scripts and styles are blocked.
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

/// Accepts requests that are addressed to this console and sent by its own pages.
pub(crate) async fn guard(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let options = &console.shared().options;
    let mut response = match check(&request, options) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in FIXED {
        // Inserted, not added: a handler must not weaken them, and errors of the guard itself have
        // them too.
        headers.insert(name, HeaderValue::from_static(value));
    }
    if options.secure {
        let value = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, value);
    }
    // Pages are specific to the user and must not be cached; assets set their own header.
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check(request: &Request, options: &crate::Options) -> Result<(), Problem> {
    let headers = request.headers();
    let host = authority(request.uri(), headers).unwrap_or_default();
    if !is_own_host(host, &options.hosts) {
        return Err(Problem::refused(format!(
            "This console is not called {host:?}. It accepts its address, localhost and the names \
         given with --console-host."
        )));
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    // Browsers send `Origin` with every POST. A request without one is a program's, which can use
    // the API server itself; `Referer` is no substitute, since pages can suppress it.
    let origin = headers.get(ORIGIN).and_then(|it| it.to_str().ok());
    if origin.is_some_and(|origin| is_own_origin(origin, host)) {
        return Ok(());
    }
    Err(Problem::refused(
        "The request does not come from a page of this console, so nothing was done.",
    ))
}

/// Whether a Host header names this console. An unknown DNS name is rejected, because an attacker
/// could point it here (DNS rebinding); an IP address cannot be rebound.
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
    fn unknown_host_names_are_rejected() {
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
    fn cross_site_forms_are_rejected() {
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
