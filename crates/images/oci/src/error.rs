//! What can go wrong on the way to an image, and what that means to whoever waits for it.

use std::fmt;
use std::time::Duration;

use platform::Digest;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Asking which digest a tag has.
    Check,
    /// Reading an index or a manifest.
    Manifest,
    /// Reading a blob.
    Blob,
    /// Asking for a token.
    Token,
}

impl Operation {
    /// A short word, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Manifest => "manifest",
            Self::Blob => "blob",
            Self::Token => "token",
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
        })
    }
}

/// The step that took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Connecting, with TLS.
    Connect,
    /// From the request to the headers of the answer.
    Headers,
    /// From one piece of the body to the next.
    Body,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "no connection",
            Self::Headers => "no answer",
            Self::Body => "no further data",
        })
    }
}

/// Why it failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// It is not there, or not visible with these credentials.
    #[error("not found{}", suffix(.said))]
    NotFound {
        /// What the registry said.
        said: String,
    },
    /// The credentials are missing, wrong, or not enough.
    #[error("access denied {with}{}", suffix(.said))]
    Unauthorized {
        /// Which credentials were used, without any secret.
        with: String,
        /// What the registry said.
        said: String,
    },
    /// Content is not what its digest says.
    #[error("expected {expected}, but the content is {actual}")]
    DigestMismatch {
        /// What was asked for.
        expected: Digest,
        /// What came.
        actual: Digest,
    },
    /// There is more than is accepted.
    #[error("{} than the {limit} bytes that are accepted", found.map_or_else(|| "more".to_owned(), |found| format!("{found} bytes, more")))]
    TooLarge {
        /// The most that is accepted.
        limit: u64,
        /// How much it is, if that is known.
        found: Option<u64>,
    },
    /// There is less than there should be.
    #[error("ended after {found} of {expected} bytes")]
    Truncated {
        /// How much there should be.
        expected: u64,
        /// How much came.
        found: u64,
    },
    /// The registry wants to be left alone for a while.
    #[error("too many requests{}", retry_after.map(|wait| format!("; try again in {} s", wait.as_secs())).unwrap_or_default())]
    RateLimited {
        /// For how long, if it said so.
        retry_after: Option<Duration>,
    },
    /// Nobody answers there.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It takes too long.
    #[error("{step} within {} ms", after.as_millis())]
    Timeout {
        /// What took too long.
        step: Step,
        /// How long was waited.
        after: Duration,
    },
    /// The server failed.
    #[error("the server answered {code}{}", suffix(.said))]
    Server {
        /// The status code.
        code: u16,
        /// What it said.
        said: String,
    },
    /// An answer or a document makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The server wants something that is not done for safety.
    #[error("refused: {0}")]
    Refused(String),
    /// The configuration forbids it.
    #[error("blocked by the configuration of registries: {0}")]
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

/// Something went wrong on the way to an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {subject} at {place}: {cause}{}", before(.earlier))]
pub struct Error {
    /// What was being done.
    pub operation: Operation,
    /// With what: a repository and a tag or digest.
    pub subject: String,
    /// The host, archive or folder.
    pub place: String,
    /// Why it failed.
    pub cause: Cause,
    /// What went wrong before, in other places or as somebody else.
    pub earlier: Vec<(String, Cause)>,
}

fn before(earlier: &[(String, Cause)]) -> String {
    earlier.iter().fold(String::new(), |text, (place, cause)| {
        format!("{text}; before that at {place}: {cause}")
    })
}

impl Error {
    /// What came of trying several places: the last is the one that the image names.
    pub(crate) fn of(operation: Operation, subject: String, failed: Vec<(String, Cause)>) -> Self {
        let mut earlier = failed;
        let (place, cause) = earlier.pop().unwrap_or_else(|| {
            let cause = Cause::Blocked("there is no place to ask".to_owned());
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

    /// A word for conditions and metrics.
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

    /// Whether the same may pass if it is tried again soon.
    pub fn is_transient(&self) -> bool {
        self.cause.is_transient()
    }

    /// How long the registry wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.cause {
            Cause::RateLimited { retry_after } => retry_after,
            _ => None,
        }
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

/// The longest text of a server that is repeated to people.
const LONGEST: usize = 200;

/// What somebody else wrote, fit for a message: one line, not long, nothing invisible, and none of
/// the secrets that the same server was told.
pub(crate) fn clean(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| secret.len() >= 3) {
        text = text.replace(secret, "***");
    }
    let mut out = String::new();
    for c in text.chars() {
        if out.len() >= LONGEST {
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
