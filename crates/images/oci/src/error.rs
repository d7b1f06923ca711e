//! Errors of registry requests, and their reasons in conditions.

use std::fmt;
use std::time::Duration;

use platform::{Digest, Mismatch};

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Reading the digest of a tag.
    Check,
    /// Reading an index or a manifest.
    Manifest,
    /// Reading a blob.
    Blob,
    /// Requesting a token.
    Token,
    /// Posting a document.
    Post,
}

impl Operation {
    /// The label value in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Manifest => "manifest",
            Self::Blob => "blob",
            Self::Token => "token",
            Self::Post => "post",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Check => "checking",
            Self::Manifest => "reading the manifest of",
            Self::Blob => "reading",
            Self::Token => "asking for a token for",
            Self::Post => "posting to",
        })
    }
}

/// The step that timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeoutStage {
    /// Connecting, with TLS.
    Connect,
    /// From the request to the response headers.
    Headers,
    /// From one chunk of the body to the next.
    Body,
}

impl fmt::Display for TimeoutStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "no connection",
            Self::Headers => "no answer",
            Self::Body => "no further data",
        })
    }
}

/// The cause of a failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// It does not exist, or is not visible with these credentials.
    #[error("not found{}", suffix(.said))]
    NotFound {
        /// The registry's message.
        said: String,
    },
    /// The credentials are missing, wrong, or not sufficient.
    #[error("access denied {with}{}", suffix(.said))]
    Unauthorized {
        /// The credentials used, without secrets.
        with: String,
        /// The registry's message.
        said: String,
    },
    /// The content does not match its digest.
    #[error("expected {expected}, but the content is {actual}")]
    DigestMismatch {
        /// The requested digest.
        expected: Digest,
        /// The digest of the content.
        actual: Digest,
    },
    /// The content exceeds a limit.
    #[error("{} than the {limit} bytes that are accepted", found.map_or_else(|| "more".to_owned(), |found| format!("{found} bytes, more")))]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
        /// The size, if known.
        found: Option<u64>,
    },
    /// The content is shorter than expected.
    #[error("ended after {found} of {expected} bytes")]
    Truncated {
        /// The expected size.
        expected: u64,
        /// The size received.
        found: u64,
    },
    /// The registry limits the request rate.
    #[error("too many requests{}", retry_after.map(|wait| format!("; try again in {} s", wait.as_secs())).unwrap_or_default())]
    RateLimited {
        /// Its `Retry-After`, if it sent one.
        retry_after: Option<Duration>,
    },
    /// The host cannot be reached.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// A timeout expired.
    #[error("{step} within {} ms", after.as_millis())]
    Timeout {
        /// The step that timed out.
        step: TimeoutStage,
        /// The timeout.
        after: Duration,
    },
    /// The server returned an error.
    #[error("the server answered {code}{}", suffix(.said))]
    Server {
        /// The status code.
        code: u16,
        /// Its message.
        said: String,
    },
    /// A response or document is malformed.
    #[error("{0}")]
    Invalid(String),
    /// The server requested something that is refused for security.
    #[error("refused: {0}")]
    Refused(String),
    /// The configuration forbids the request.
    #[error("blocked by the registry configuration: {0}")]
    Blocked(String),
    /// A local file cannot be read.
    #[error("{0}")]
    File(String),
}

fn suffix(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}

/// A failed registry request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {subject} at {place}: {cause}{}", before(.earlier))]
pub struct Error {
    /// The operation.
    pub operation: Operation,
    /// The repository with tag or digest.
    pub subject: String,
    /// The host, archive or folder.
    pub place: String,
    /// Why it failed.
    pub cause: Cause,
    /// Earlier failures, at other endpoints or with other credentials.
    pub earlier: Vec<(String, Cause)>,
}

fn before(earlier: &[(String, Cause)]) -> String {
    earlier.iter().fold(String::new(), |text, (place, cause)| {
        format!("{text}; before that at {place}: {cause}")
    })
}

impl Error {
    /// The error after several endpoints failed: the last one is the registry the image names.
    pub(crate) fn of(operation: Operation, subject: String, failed: Vec<(String, Cause)>) -> Self {
        let mut earlier = failed;
        let (place, cause) = earlier.pop().unwrap_or_else(|| {
            let cause = Cause::Blocked("no endpoint is allowed".to_owned());
            (String::new(), cause)
        });
        Self {
            operation,
            subject,
            place,
            cause,
            earlier,
        }
    }

    /// The reason for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match &self.cause {
            Cause::NotFound { .. } => "NotFound",
            Cause::Unauthorized { .. } => "PullUnauthorized",
            Cause::DigestMismatch { .. } => "DigestMismatch",
            Cause::TooLarge { .. } => "TooLarge",
            Cause::Truncated { .. } => "Truncated",
            Cause::RateLimited { .. } => "RateLimited",
            Cause::Unreachable(_) => "Unreachable",
            Cause::Timeout { .. } => "Timeout",
            Cause::Server { .. } => "ServerError",
            Cause::Invalid(_) => "Invalid",
            Cause::Refused(_) => "Refused",
            Cause::Blocked(_) => "Blocked",
            Cause::File(_) => "FileError",
        }
    }

    /// Whether a retry may succeed soon.
    pub fn is_transient(&self) -> bool {
        self.cause.is_transient()
    }

    /// The registry's `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.cause {
            Cause::RateLimited { retry_after } => retry_after,
            _ => None,
        }
    }
}

impl From<Mismatch> for Cause {
    fn from(Mismatch { expected, actual }: Mismatch) -> Self {
        Self::DigestMismatch { expected, actual }
    }
}

impl Cause {
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Unreachable(_)
            | Self::Timeout { .. }
            | Self::Truncated { .. } => true,
            Self::Server { code, .. } => matches!(code, 408 | 425 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    pub(crate) fn at(
        self,
        operation: Operation,
        subject: impl Into<String>,
        place: impl Into<String>,
    ) -> Error {
        Error {
            operation,
            subject: subject.into(),
            place: place.into(),
            cause: self,
            earlier: Vec::new(),
        }
    }
}

/// An error and its causes in one sentence; a cause that the message already contains is not repeated.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The longest server message included in errors.
const MAX_MESSAGE_CHARS: usize = 200;

/// Text of a server, made fit for a message: one line, bounded, without control characters, and without
/// the secrets sent to that server.
pub(crate) fn clean(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= 3) {
        text = text.replace(secret, "***");
    }
    let mut out = String::new();
    for c in text.chars() {
        if out.len() >= MAX_MESSAGE_CHARS {
            out.push_str("...");
            break;
        }
        if c.is_control() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        } else {
            out.push(c);
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Caused {
        text: &'static str,
        source: Cause,
    }

    #[test]
    fn causes_are_printed_once() {
        let caused = |text| Caused {
            text,
            source: Cause::Blocked("x".to_owned()),
        };
        let blocked = "blocked by the registry configuration: x";
        assert_eq!(
            error_chain(&caused("pulling")),
            format!("pulling: {blocked}")
        );
        let repeated = caused("pulling: blocked by the registry configuration: x");
        assert_eq!(error_chain(&repeated), format!("pulling: {blocked}"));
    }
}
