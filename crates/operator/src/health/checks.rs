//! Checks and how they are told, as the API server tells its own.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use listener::text;

/// One thing that was looked at.
pub(super) struct Check {
    name: &'static str,
    /// A word about it if it is well, or what is wrong.
    found: Result<&'static str, String>,
}

impl Check {
    pub(super) fn new(name: &'static str, found: Result<&'static str, String>) -> Self {
        Self { name, found }
    }
}

/// 200 if all is well, else 503. Those who ask for `?verbose` are told of every check; the others of what
/// is wrong.
pub(super) fn answer<B>(
    request: &Request<B>,
    name: &str,
    checks: &[Check],
) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or_default();
    let verbose = query
        .split('&')
        .any(|part| part == "verbose" || part.starts_with("verbose="));
    let wrong: Vec<&str> = checks
        .iter()
        .filter_map(|check| check.found.as_ref().err())
        .map(String::as_str)
        .collect();
    let (code, end) = match wrong.as_slice() {
        [] => (StatusCode::OK, "passed"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    if !verbose {
        return match wrong.as_slice() {
            [] => text(code, "ok"),
            wrong => text(code, wrong.join("; ") + "\n"),
        };
    }
    let mut told = String::new();
    for check in checks {
        let _ = match &check.found {
            Ok("") => writeln!(told, "[+]{} ok", check.name),
            Ok(word) => writeln!(told, "[+]{} ok: {word}", check.name),
            Err(why) => writeln!(told, "[-]{} failed: {why}", check.name),
        };
    }
    let _ = writeln!(told, "{name} check {end}");
    text(code, told)
}
