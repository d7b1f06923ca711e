//! Responses of the registry: the pull part of the distribution protocol.
//!
//! ```text
//! GET /v2/                            API version check
//! GET /v2/_catalog                    repositories
//! GET /v2/<repository>/tags/list      tags, in pages
//! GET /v2/<repository>/manifests/<tag or digest>
//! GET /v2/<repository>/blobs/<digest> whole, or from a byte on
//! ```

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_RANGES, ALLOW, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_NONE_MATCH, IF_RANGE, LINK, RANGE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use platform::{Digest, MediaType, Repository, Tag};
use serde_json::{Value, json};

use super::library::{Library, Name, page};
use super::range::{Part, part};

/// The API version header.
const VERSION: (&str, &str) = ("docker-distribution-api-version", "registry/2.0");
const CONTENT_DIGEST: &str = "docker-content-digest";

pub(super) type Answer = Response<Full<Bytes>>;

/// Answers a request. A layer may have to be generated for it, which takes a moment.
pub(super) fn answer<B>(library: &Library, request: &Request<B>) -> Answer {
    let mut answer = route(library, request);
    let (name, value) = VERSION;
    answer.headers_mut().insert(
        HeaderName::from_static(name),
        HeaderValue::from_static(value),
    );
    answer
}

fn route<B>(library: &Library, request: &Request<B>) -> Answer {
    let path = request.uri().path();
    let Some(path) = path.strip_prefix("/v2").filter(|rest| {
        // Some clients request `/v2` without a slash.
        rest.is_empty() || rest.starts_with('/')
    }) else {
        return refuse(
            StatusCode::NOT_FOUND,
            "NAME_UNKNOWN",
            "this is a registry: everything is under /v2/",
        );
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            "UNSUPPORTED",
            "nothing can be pushed here: `medley fleet publish` makes new revisions",
        );
        let allowed = HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(ALLOW, allowed);
        return answer;
    }
    let path = path.trim_start_matches('/');
    let query = request.uri().query().unwrap_or_default();
    if path.is_empty() {
        return with_json(&json!({}));
    }
    if path == "_catalog" {
        let all = library.repositories();
        let all = all.into_iter().map(str::to_owned).collect();
        return paged(
            "/v2/_catalog",
            query,
            all,
            |all| json!({ "repositories": all }),
        );
    }
    if let Some(repository) = path.strip_suffix("/tags/list") {
        return tags(library, repository, query);
    }
    // Names of repositories have slashes, references and digests have none.
    let mut parts = path.rsplitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), Some("manifests"), Some(repository)) => {
            manifest(library, repository, name, request.headers())
        }
        (Some(name), Some("blobs"), Some(repository)) => {
            blob(library, repository, name, request.headers())
        }
        _ => refuse(
            StatusCode::NOT_FOUND,
            "UNSUPPORTED",
            "there are manifests, blobs and tags/list of a repository",
        ),
    }
}

/// The error for an invalid or unknown repository name.
fn wrong(library: &Library, repository: &str) -> Option<Answer> {
    if repository.parse::<Repository>().is_err() {
        return Some(refuse(
            StatusCode::BAD_REQUEST,
            "NAME_INVALID",
            "repositories have words of lower-case letters and digits, with slashes between them",
        ));
    }
    if library.repositories().contains(&repository) {
        return None;
    }
    Some(refuse(
        StatusCode::NOT_FOUND,
        "NAME_UNKNOWN",
        "there is no such repository: /v2/_catalog has all",
    ))
}

fn tags(library: &Library, repository: &str, query: &str) -> Answer {
    if let Some(refusal) = wrong(library, repository) {
        return refusal;
    }
    let all = library.tags(repository).unwrap_or_default();
    let path = format!("/v2/{repository}/tags/list");
    paged(
        &path,
        query,
        all,
        |all| json!({ "name": repository, "tags": all }),
    )
}

/// A list, paginated as the query requests.
fn paged(
    path: &str,
    query: &str,
    all: Vec<String>,
    list: impl FnOnce(&[String]) -> Value,
) -> Answer {
    let argument = |name: &str| {
        let mut all = query.split('&').filter_map(|it| it.split_once('='));
        all.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let most = match argument("n").map(str::parse::<usize>) {
        None => None,
        Some(Ok(most)) => Some(most),
        Some(Err(_)) => {
            return refuse(
                StatusCode::BAD_REQUEST,
                "PAGINATION_NUMBER_INVALID",
                "n is how many are wanted: a number from 0",
            );
        }
    };
    // Listed names need no URL escaping.
    let (some, more) = page(all, argument("last"), most);
    let mut answer = with_json(&list(&some));
    if let (true, Some(last), Some(most)) = (more, some.last(), most) {
        let next = format!("<{path}?n={most}&last={last}>; rel=\"next\"");
        if let Ok(next) = HeaderValue::from_str(&next) {
            answer.headers_mut().insert(LINK, next);
        }
    }
    answer
}

fn manifest(library: &Library, repository: &str, name: &str, headers: &HeaderMap) -> Answer {
    if let Some(refusal) = wrong(library, repository) {
        return refusal;
    }
    let wanted = if name.contains(':') {
        match name.parse::<Digest>() {
            Ok(digest) => Name::Digest(digest),
            Err(error) => {
                let code = StatusCode::BAD_REQUEST;
                return refuse(code, "DIGEST_INVALID", &error.to_string());
            }
        }
    } else {
        match name.parse::<Tag>() {
            Ok(tag) => Name::Tag(tag.as_str().to_owned()),
            Err(error) => {
                let code = StatusCode::BAD_REQUEST;
                return refuse(code, "TAG_INVALID", &error.to_string());
            }
        }
    };
    let document = match library.document(repository, &wanted) {
        Ok(Some(document)) => document,
        Ok(None) => {
            return refuse(
                StatusCode::NOT_FOUND,
                "MANIFEST_UNKNOWN",
                "there is no such manifest: it never was, or its revision is forgotten",
            );
        }
        Err(error) => return broken(&error),
    };
    // As the reference implementation (distribution): a manifest of a type that is not accepted is
    // MANIFEST_UNKNOWN, not 406.
    if !accepts(headers, &document.media_type) {
        let message = format!(
            "there is one of type {}, which is not accepted",
            document.media_type
        );
        return refuse(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", &message);
    }
    content(
        &document.digest,
        document.media_type.as_str(),
        document.bytes,
        headers,
        false,
    )
}

/// Whether a client accepts a media type. A request without an `Accept` header accepts all.
fn accepts(headers: &HeaderMap, media_type: &MediaType) -> bool {
    let mut has_accept = false;
    for value in headers.get_all(ACCEPT) {
        for part in value.to_str().unwrap_or_default().split(',') {
            let mut parts = part.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            if kind.is_empty() {
                continue;
            }
            has_accept = true;
            let refused = parts.any(|parameter| {
                let weight = parameter.strip_prefix("q=").map(str::parse::<f32>);
                matches!(weight, Some(Ok(weight)) if weight <= 0.0)
            });
            let all = ["*/*", "application/*"].contains(&kind);
            if !refused && (all || MediaType::read(kind) == *media_type) {
                return true;
            }
        }
    }
    !has_accept
}

fn blob(library: &Library, repository: &str, name: &str, headers: &HeaderMap) -> Answer {
    if let Some(refusal) = wrong(library, repository) {
        return refusal;
    }
    let digest = match name.parse::<Digest>() {
        Ok(digest) => digest,
        Err(error) => {
            let code = StatusCode::BAD_REQUEST;
            return refuse(code, "DIGEST_INVALID", &error.to_string());
        }
    };
    match library.blob(repository, &digest) {
        Ok(Some(bytes)) => content(&digest, "application/octet-stream", bytes, headers, true),
        Ok(None) => refuse(
            StatusCode::NOT_FOUND,
            "BLOB_UNKNOWN",
            "there is no such blob: it never was, or its revision is forgotten",
        ),
        Err(error) => broken(&error),
    }
}

/// A blob or manifest: in full, a range of it, or "not modified".
fn content(
    digest: &Digest,
    media_type: &str,
    bytes: Bytes,
    headers: &HeaderMap,
    in_parts: bool,
) -> Answer {
    let tag = format!("\"{digest}\"");
    let same = |name: HeaderName| {
        let values = headers.get_all(name).into_iter();
        let mut values = values.filter_map(|value| value.to_str().ok());
        values.any(|value| {
            let mut tags = value.split(',').map(str::trim);
            tags.any(|it| it == "*" || it.strip_prefix("W/").unwrap_or(it) == tag)
        })
    };
    let mut answer = if same(IF_NONE_MATCH) {
        let mut answer = Answer::default();
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        answer
    } else {
        // Blobs only. A manifest is read whole, because its digest covers all of it.
        let range = headers.get(RANGE).filter(|_| in_parts);
        // With a mismatching `If-Range` the whole content is sent.
        let range = range.filter(|_| !headers.contains_key(IF_RANGE) || same(IF_RANGE));
        let range = range.and_then(|range| range.to_str().ok());
        match part(range, bytes.len() as u64) {
            Part::Whole => Answer::new(Full::new(bytes)),
            Part::Some { from, to, places } => {
                let mut answer = Answer::new(Full::new(bytes.slice(places)));
                *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
                let of = format!("bytes {from}-{to}/{}", bytes.len());
                if let Ok(of) = HeaderValue::from_str(&of) {
                    answer.headers_mut().insert(CONTENT_RANGE, of);
                }
                answer
            }
            Part::Beyond => {
                let mut answer = refuse(
                    StatusCode::RANGE_NOT_SATISFIABLE,
                    "BLOB_UPLOAD_INVALID",
                    "the part that is asked for is beyond the end",
                );
                let of = format!("bytes */{}", bytes.len());
                if let Ok(of) = HeaderValue::from_str(&of) {
                    answer.headers_mut().insert(CONTENT_RANGE, of);
                }
                return answer;
            }
        }
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, media_type),
        (ETAG, tag.as_str()),
        (
            HeaderName::from_static(CONTENT_DIGEST),
            digest.to_string().as_str(),
        ),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    if in_parts {
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    answer
}

fn with_json(value: &Value) -> Answer {
    let mut answer = Answer::new(Full::new(Bytes::from(value.to_string())));
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// An error response of the protocol.
fn refuse(status: StatusCode, code: &str, message: &str) -> Answer {
    let mut answer = with_json(&json!({ "errors": [{ "code": code, "message": message }] }));
    *answer.status_mut() = status;
    answer
}

fn broken(error: &std::io::Error) -> Answer {
    let message = format!("making it failed: {error}");
    refuse(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", &message)
}

#[cfg(test)]
mod tests;
