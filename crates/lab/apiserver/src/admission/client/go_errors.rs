//! Network errors with the wording of Go's client.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use machinery::json::go_quote;
use machinery::time::format_time;
use rustls::CertificateError;

/// Maximum length of a response body in an error.
const SHOWN: usize = 2048;

/// Finds an error in the source chain.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(here) = next {
        if let Some(found) = here.downcast_ref::<T>() {
            return Some(found);
        }
        next = here.source();
    }
    None
}

/// The operating system's message, without the number that Rust appends.
fn of_io(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::BrokenPipe => "broken pipe".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}

/// The error of a failed dial.
pub(super) fn of_dial(address: SocketAddr, error: &io::Error) -> String {
    format!("dial tcp {address}: connect: {}", of_io(error))
}

/// Whether the connection was closed before the request was sent.
pub(super) fn was_closed(error: &hyper::Error) -> bool {
    error.is_canceled()
        || error.is_closed()
        || error.is_incomplete_message()
        || find::<io::Error>(error).is_some_and(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            )
        })
}

/// The error of a connection that ended without a response.
pub(super) fn of_transport(error: &hyper::Error) -> String {
    match find::<io::Error>(error) {
        Some(io) if io.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        Some(io) => format!("read: {}", of_io(io)),
        None if error.is_incomplete_message() || error.is_canceled() || error.is_closed() => {
            "EOF".to_owned()
        }
        None if error.is_parse() => {
            format!("net/http: HTTP/1.x transport connection broken: {error}")
        }
        None => error.to_string(),
    }
}

/// The error of a truncated body.
pub(super) fn of_body(error: &(dyn Error + 'static)) -> String {
    match find::<io::Error>(error) {
        Some(io) if io.kind() != io::ErrorKind::UnexpectedEof => format!("read: {}", of_io(io)),
        _ => "unexpected EOF".to_owned(),
    }
}

/// The error of a failed handshake.
pub(super) fn of_handshake(error: &io::Error, host: &str) -> String {
    let Some(tls) = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>())
    else {
        return if error.kind() == io::ErrorKind::UnexpectedEof {
            "EOF".to_owned()
        } else {
            format!("read: {}", of_io(error))
        };
    };
    match tls {
        rustls::Error::InvalidCertificate(error) => format!(
            "tls: failed to verify certificate: x509: {}",
            of_certificate(error, host)
        ),
        // The most likely cause of a non-TLS message: a plain HTTP response.
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("remote error: tls: {}", spaced(&format!("{alert:?}")))
        }
        other => format!("tls: {other}"),
    }
}

/// `HandshakeFailure` as `handshake failure`.
fn spaced(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(c.to_lowercase());
    }
    text
}

fn of_certificate(error: &CertificateError, host: &str) -> String {
    let span = |now: u64, word: &str, limit: u64| {
        format!(
            "certificate has expired or is not yet valid: current time {} is {word} {}",
            at(now),
            at(limit)
        )
    };
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let address = host.parse::<std::net::IpAddr>();
            let sort = if address.is_ok() {
                "IpAddress"
            } else {
                "DnsName"
            };
            let names: Vec<&str> = presented
                .iter()
                .filter(|name| name.starts_with(sort))
                .map(|name| name.split('"').nth(1).unwrap_or(name))
                .collect();
            match (names.as_slice(), address) {
                ([], Ok(_)) => format!(
                    "cannot validate certificate for {host} because it doesn't contain any IP SANs"
                ),
                ([], Err(_)) => {
                    format!("certificate is not valid for any names, but wanted to match {host}")
                }
                (names, _) => {
                    format!("certificate is valid for {}, not {host}", names.join(", "))
                }
            }
        }
        CertificateError::ExpiredContext { time, not_after } => {
            span(time.as_secs(), "after", not_after.as_secs())
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            span(time.as_secs(), "before", not_before.as_secs())
        }
        other => other.to_string(),
    }
}

fn at(seconds: u64) -> String {
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .map_or_else(|| seconds.to_string(), format_time)
}

/// The error of a non-success response (`errors.NewGenericServerResponse` for a POST), or its
/// `Status`.
pub(super) fn of_status(code: u16, headers: &HeaderMap, body: &[u8]) -> String {
    if let Ok(status) = serde_json::from_slice::<machinery::status::Status>(body)
        && status.kind == "Status"
        && status.status == "Failure"
        && !status.message.is_empty()
    {
        return status.message;
    }
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let server_message = match kind {
        Some(kind) if kind.starts_with("text/") => {
            let shown = &body[..body.len().min(SHOWN)];
            String::from_utf8_lossy(shown).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    };
    let fixed = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if server_message.is_empty() || server_message == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        403 | 406 | 415 => return server_message,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request"
        }
        500.. => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                go_quote(&server_message)
            );
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    fixed.to_owned()
}
