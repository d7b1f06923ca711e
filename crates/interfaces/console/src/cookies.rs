//! Cookies: their names, their attributes, and values that are longer than one cookie may be.

use std::fmt::Write as _;

use axum::response::Response;
use http::header::{COOKIE, HOST, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri};

use crate::error::Problem;

/// Longest part of a value. Browsers accept 4096 bytes of a cookie, with its name and attributes.
const MAX_PART: usize = 3800;
/// Longest value of all parts: ingress controllers and proxies accept 8 KiB in one header line,
/// names and other cookies included.
pub(crate) const MAX_VALUE: usize = 7 * 1024 + 512;
/// Parts of the longest value.
const MAX_PARTS: usize = MAX_VALUE.div_ceil(MAX_PART);

/// When a browser sends a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SameSite {
    /// Only with requests of this site.
    Strict,
    /// Also with links to this site, such as an identity provider's back to the console.
    Lax,
}

/// The host and port that the browser connects to. With HTTP/2, and with an absolute URI, they are in
/// the URI; a `Host` header that differs makes the request ambiguous.
pub(crate) fn authority<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().map(|host| host.to_str().unwrap_or_default());
    if hosts.next().is_some() {
        return None;
    }
    match (uri.authority(), host) {
        (Some(authority), Some(host)) => {
            Some(authority.as_str()).filter(|it| it.eq_ignore_ascii_case(host))
        }
        (Some(authority), None) => Some(authority.as_str()),
        (None, host) => host,
    }
}

/// The cookies of a console in a browser.
#[derive(Debug, Clone)]
pub(crate) struct CookieJar {
    port: String,
    secure: bool,
}

impl CookieJar {
    /// The cookies of a request. Browsers share cookies between ports, so names contain the port that
    /// the browser connects to: it is the same for all replicas.
    pub(crate) fn of(parts: &Parts, secure: bool) -> Self {
        let authority = authority(&parts.uri, &parts.headers).unwrap_or_default();
        let port = authority.rsplit_once(':').map(|(_, port)| port);
        let port = port.filter(|port| port.parse::<u16>().is_ok());
        let standard = if secure { "443" } else { "80" };
        Self {
            port: port.unwrap_or(standard).to_owned(),
            secure,
        }
    }

    fn name(&self, cookie: &str, part: usize) -> String {
        // With the `__Host-` prefix, browsers accept a cookie only from this host over TLS.
        let prefix = if self.secure { "__Host-" } else { "" };
        let mut name = format!("{prefix}medley-{cookie}-{}", self.port);
        if part > 0 {
            // Writing to a string cannot fail.
            let _ = write!(name, "-{part}");
        }
        name
    }

    /// The value of a cookie in a request, of all its parts. The first one begins with their number.
    pub(crate) fn get(&self, parts: &Parts, cookie: &str) -> Option<String> {
        let first = value(parts, &self.name(cookie, 0))?;
        let (count, beginning) = first.split_once('.')?;
        let count: usize = count.parse().ok().filter(|count| *count <= MAX_PARTS)?;
        let mut whole = beginning.to_owned();
        for part in 1..count {
            whole.push_str(&value(parts, &self.name(cookie, part))?);
        }
        Some(whole)
    }

    /// Sets a cookie; it is replaced as a whole. The value is base64.
    pub(crate) fn set(
        &self,
        response: &mut Response,
        cookie: &str,
        text: &str,
        seconds: u64,
        site: SameSite,
    ) -> Result<(), Problem> {
        if text.len() > MAX_VALUE {
            return Err(Problem::invalid(format!(
                "Your credentials are too large for a cookie: {} bytes, and at most {MAX_VALUE} are \
                 possible. Use a token with fewer groups or claims.",
                text.len()
            )));
        }
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(MAX_PART).collect();
        for (part, chunk) in chunks.iter().enumerate() {
            let mut value = if part == 0 {
                format!("{}.", chunks.len())
            } else {
                String::new()
            };
            value.push_str(&String::from_utf8_lossy(chunk));
            self.append(response, cookie, part, &value, seconds, site)?;
        }
        Ok(())
    }

    /// Deletes a cookie, with those parts of it that the request had.
    pub(crate) fn delete(
        &self,
        response: &mut Response,
        parts: &Parts,
        cookie: &str,
    ) -> Result<(), Problem> {
        for part in 0..MAX_PARTS {
            if part == 0 || value(parts, &self.name(cookie, part)).is_some() {
                self.append(response, cookie, part, "", 0, SameSite::Strict)?;
            }
        }
        Ok(())
    }

    /// Whether a response sets or deletes the cookie.
    pub(crate) fn is_set(&self, response: &Response, cookie: &str) -> bool {
        let start = format!("{}=", self.name(cookie, 0));
        let all = response.headers().get_all(SET_COOKIE).into_iter();
        all.filter_map(|value| value.to_str().ok())
            .any(|value| value.starts_with(&start))
    }

    fn append(
        &self,
        response: &mut Response,
        cookie: &str,
        part: usize,
        value: &str,
        seconds: u64,
        site: SameSite,
    ) -> Result<(), Problem> {
        let name = self.name(cookie, part);
        let secure = if self.secure { "; Secure" } else { "" };
        append(
            response,
            &format!(
                "{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={site:?}{secure}"
            ),
        )
    }
}

/// Adds a `Set-Cookie` header.
pub(crate) fn append(response: &mut Response, cookie: &str) -> Result<(), Problem> {
    let value = HeaderValue::from_str(cookie)
        .map_err(|error| Problem::broken(format!("The cookie cannot be written: {error}")))?;
    response.headers_mut().append(SET_COOKIE, value);
    Ok(())
}

/// A cookie of the request.
pub(crate) fn value(parts: &Parts, name: &str) -> Option<String> {
    // HTTP/2 clients may send a header for each cookie.
    let headers = parts.headers.get_all(COOKIE).into_iter();
    let pairs = headers
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use http::{Request, Response as Message};

    use super::*;

    fn parts(uri: &str, headers: &[(http::HeaderName, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// The cookies that a browser sends after a response.
    fn kept(response: &Message<axum::body::Body>) -> String {
        let all = response.headers().get_all(SET_COOKIE).into_iter();
        let pairs = all.filter_map(|it| it.to_str().unwrap().split(';').next());
        pairs.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn long_values_are_split_and_joined() {
        for (length, cookies) in [(0, 0), (1, 1), (3800, 1), (3801, 2), (MAX_VALUE, 3)] {
            let jar = CookieJar::of(&parts("/", &[(HOST, "a:8080")]), false);
            let text = "x".repeat(length);
            let mut response = ().into_response();
            jar.set(&mut response, "session", &text, 1, SameSite::Strict)
                .unwrap();
            let set = response.headers().get_all(SET_COOKIE).iter().count();
            assert_eq!(set, cookies, "{length}");
            if length > 0 {
                let again = parts("/", &[(HOST, "a:8080"), (COOKIE, &kept(&response))]);
                assert_eq!(jar.get(&again, "session").as_deref(), Some(text.as_str()));
                assert!(response.headers().iter().all(|(_, it)| it.len() <= 4096));
                let mut deleted = ().into_response();
                jar.delete(&mut deleted, &again, "session").unwrap();
                let gone = deleted.headers().get_all(SET_COOKIE).iter().count();
                assert_eq!(gone, cookies);
            }
        }
        let jar = CookieJar::of(&parts("/", &[]), true);
        let long = "x".repeat(MAX_VALUE + 1);
        let mut response = ().into_response();
        let error = jar
            .set(&mut response, "session", &long, 1, SameSite::Strict)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("too large") && error.contains("7680"),
            "{error}"
        );
        assert!(!response.headers().contains_key(SET_COOKIE));
    }

    #[test]
    fn incomplete_values_are_no_values() {
        for cookies in [
            "medley-session-80=",
            "medley-session-80=abc",
            "medley-session-80=2.abc",
            "medley-session-80=9.abc; medley-session-80-1=d",
            "medley-session-8080=1.abc",
            "__Host-medley-session-80=1.abc",
        ] {
            let request = parts("/", &[(COOKIE, cookies)]);
            let jar = CookieJar::of(&request, false);
            assert_eq!(jar.get(&request, "session"), None, "{cookies}");
        }
    }

    #[test]
    fn hosts_are_read_from_uri_or_header() {
        for (uri, hosts, expected) in [
            ("/", &["a:1"][..], Some("a:1")),
            ("https://a:1/", &[], Some("a:1")),
            ("https://a:1/", &["A:1"], Some("a:1")),
            ("https://a:1/", &["b:1"], None),
            ("/", &["a", "b"], None),
            ("/", &[], None),
        ] {
            let headers: Vec<_> = hosts.iter().map(|host| (HOST, *host)).collect();
            let parts = parts(uri, &headers);
            assert_eq!(
                authority(&parts.uri, &parts.headers),
                expected,
                "{uri} {hosts:?}"
            );
        }
    }
}
