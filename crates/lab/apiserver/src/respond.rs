//! Responses.

use std::convert::Infallible;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, DATE, RETRY_AFTER, USER_AGENT,
    VARY, WARNING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use jiff::Timestamp;
use machinery::json;
use machinery::status::Status;
use serde_json::Value;

use crate::negotiate::Encoding;

/// The body of all responses.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Bodies of at least this size are compressed when the client accepts it.
const GZIP_FROM: usize = 128 * 1024;

/// The requested form of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// JSON or YAML.
    pub encoding: Encoding,
    /// Indented.
    pub pretty: bool,
    /// Compressed when large.
    pub gzip: bool,
}

impl Form {
    /// Derives the form from a request: `?pretty`, or the user agent of an interactive client.
    pub(crate) fn of(headers: &HeaderMap, pretty: Option<bool>, encoding: Encoding) -> Self {
        let header = |name| {
            headers
                .get(name)
                .and_then(|v: &HeaderValue| v.to_str().ok())
                .unwrap_or_default()
        };
        let agent = header(USER_AGENT);
        let for_people = ["curl", "Wget", "Mozilla/"]
            .iter()
            .any(|start| agent.starts_with(start));
        Self {
            encoding,
            pretty: pretty.unwrap_or(for_people),
            gzip: header(ACCEPT_ENCODING).contains("gzip"),
        }
    }
}

/// A complete body.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// A streaming body.
pub(crate) fn streaming(stream: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    use futures::StreamExt as _;
    StreamBody::new(stream.map(|bytes| Ok(Frame::data(bytes)))).boxed_unsync()
}

/// A response in JSON or YAML.
pub(crate) fn value(code: StatusCode, value: &Value, form: Form) -> Response<Body> {
    match form.encoding {
        Encoding::Json if form.pretty => bytes(
            code,
            "application/json",
            json::to_vec_pretty(value).into(),
            form,
        ),
        Encoding::Json => {
            let mut text = json::to_vec(value);
            text.push(b'\n');
            bytes(code, "application/json", text.into(), form)
        }
        Encoding::Yaml => yaml(code, value, form),
    }
}

/// A response that is JSON already.
pub(crate) fn json_bytes(code: StatusCode, json: Bytes, form: Form) -> Response<Body> {
    if form.encoding == Encoding::Json && !form.pretty {
        return bytes(code, "application/json", json, form);
    }
    // Other forms are rare; parsing it again is cheaper than keeping both.
    match serde_json::from_slice::<Value>(&json) {
        Ok(parsed) => value(code, &parsed, form),
        Err(_) => bytes(code, "application/json", json, form),
    }
}

fn yaml(code: StatusCode, object: &Value, form: Form) -> Response<Body> {
    match serde_saphyr::to_string(object) {
        Ok(text) => bytes(code, "application/yaml", text.into(), form),
        Err(error) => status(
            &Status::internal(&error.to_string()),
            Form {
                encoding: Encoding::Json,
                ..form
            },
        ),
    }
}

/// A response of any media type.
pub(crate) fn bytes(
    code: StatusCode,
    media_type: &'static str,
    body: Bytes,
    form: Form,
) -> Response<Body> {
    let mut compressed = None;
    if form.gzip && body.len() >= GZIP_FROM {
        // The fastest level: the client is mostly on the same host, and time counts more than
        // bytes.
        let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 6), Compression::fast());
        compressed = encoder
            .write_all(&body)
            .and_then(|()| encoder.finish())
            .ok();
    }
    let zipped = compressed.is_some();
    let mut response = Response::new(full(compressed.map_or(body, Bytes::from)));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if zipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// A `Status`.
pub(crate) fn status(status: &Status, form: Form) -> Response<Body> {
    // A success has no code of its own.
    let code = if status.code == 0 { 200 } else { status.code };
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // 406 responses are always indented.
    let form = Form {
        pretty: form.pretty || status.code == 406,
        ..form
    };
    let mut response = match form.encoding {
        // In the order of declaration, as Go writes it.
        Encoding::Json if form.pretty => bytes(
            code,
            "application/json",
            json::to_vec_pretty(status).into(),
            form,
        ),
        Encoding::Json => {
            let mut text = json::to_vec(status);
            text.push(b'\n');
            bytes(code, "application/json", text.into(), form)
        }
        Encoding::Yaml => value(
            code,
            &serde_json::to_value(status).unwrap_or_default(),
            form,
        ),
    };
    if let Some(seconds) = status
        .details
        .as_ref()
        .map(|d| d.retry_after_seconds)
        .filter(|s| *s > 0)
    {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The 404 of an unknown path.
pub(crate) fn page_not_found() -> Response<Body> {
    let form = Form {
        encoding: Encoding::Json,
        pretty: false,
        gzip: false,
    };
    let mut response = bytes(
        StatusCode::NOT_FOUND,
        "text/plain; charset=utf-8",
        Bytes::from_static(b"404 page not found\n"),
        form,
    );
    response.headers_mut().insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// The 404 of a missing OpenAPI document.
pub(crate) fn empty_not_found() -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// Adds the headers of all responses.
pub(crate) fn finish(
    response: &mut Response<Body>,
    audit_id: &str,
    warnings: &[String],
    now: Timestamp,
) {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(audit_id) {
        headers.insert(HeaderName::from_static("audit-id"), id);
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert_with(|| HeaderValue::from_static("no-cache, private"));
    if let Ok(date) = HeaderValue::from_str(&now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
    {
        headers.insert(DATE, date);
    }
    for warning in warning_headers(warnings) {
        headers.append(WARNING, warning);
    }
}

/// Total size of warnings after which further ones are truncated or dropped.
// `truncateAtTotalRunes` and `truncateItemRunes` in `apiserver/pkg/endpoints/filters/warning.go`:
// proxies and clients limit the size of all headers together.
const WARNING_BYTES: usize = 4096;
/// Longest warning once the total is reached.
const WARNING_RUNES: usize = 256;

/// `299 - "text"`, one for each distinct text (`apiserver/pkg/endpoints/filters/warning.go`).
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut seen: Vec<&str> = Vec::new();
    let mut total = 0;
    let mut values = Vec::new();
    let all: usize = warnings.iter().map(String::len).sum();
    for warning in warnings {
        if seen.contains(&warning.as_str()) {
            continue;
        }
        seen.push(warning);
        let text: String = if all > WARNING_BYTES {
            warning.chars().take(WARNING_RUNES).collect()
        } else {
            warning.clone()
        };
        if total + text.len() > WARNING_BYTES {
            break;
        }
        total += text.len();
        let escaped = text
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()) {
            values.push(value);
        }
    }
    values
}
