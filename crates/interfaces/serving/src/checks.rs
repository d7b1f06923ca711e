//! Health checks, answered in the form of kube-apiserver's `/readyz?verbose`.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;

use crate::text;

/// The outcome of one named check.
#[derive(Debug, Clone)]
pub struct Check {
    name: &'static str,
    /// A note if it passed, or why it failed.
    found: Result<Cow<'static, str>, String>,
}

impl Check {
    /// `found` is a note if it passed, which may be empty, or why it failed.
    pub fn new(name: &'static str, found: Result<&'static str, String>) -> Self {
        Self {
            name,
            found: found.map(Cow::Borrowed),
        }
    }

    /// A check that passed, with a note that is found at run time.
    pub fn with_note(name: &'static str, note: String) -> Self {
        Self {
            name,
            found: Ok(Cow::Owned(note)),
        }
    }
}

/// 200 if all checks pass, else 503. With `?verbose` every check is listed; without, those that fail.
pub fn answer<B>(request: &Request<B>, name: &str, checks: &[Check]) -> Response<Full<Bytes>> {
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
    let mut body = String::new();
    for check in checks {
        let _ = match &check.found {
            Ok(word) if word.is_empty() => writeln!(body, "[+]{} ok", check.name),
            Ok(word) => writeln!(body, "[+]{} ok: {word}", check.name),
            Err(why) => writeln!(body, "[-]{} failed: {why}", check.name),
        };
    }
    let _ = writeln!(body, "{name} check {end}");
    text(code, body)
}
