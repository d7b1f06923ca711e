//! Tokens of token servers and their lifetimes.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::credentials::CredentialId;
use crate::secret::Secret;

/// The lifetime of a token whose server does not state one, and the minimum (60 s in the distribution
/// token specification).
const MIN_LIFETIME: Duration = Duration::from_mins(1);

/// The maximum lifetime: after that a new token is requested, whatever the server stated.
// A registry that issues tokens for a year would otherwise keep access for as long as the process runs after the pull
// secret was deleted or its permission revoked.
const MAX_LIFETIME: Duration = Duration::from_hours(6);

/// Longer tokens do not fit in a header.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// What a token was issued for. Two credentials never share a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    pub(crate) realm: String,
    pub(crate) service: Option<String>,
    pub(crate) scope: String,
    pub(crate) credential: CredentialId,
}

/// A token and its expiry.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) value: Secret,
    until: Instant,
}

#[derive(Deserialize)]
struct Answer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<serde_json::Number>,
}

impl Token {
    /// Reads the response of a token server. The lifetime begins when it was requested.
    pub(crate) fn read(bytes: &[u8], asked: Instant) -> Result<Self, &'static str> {
        let answer: Answer = serde_json::from_slice(bytes)
            .map_err(|_| "expected a JSON object with token or access_token")?;
        let value = [answer.token, answer.access_token]
            .into_iter()
            .flatten()
            .find(|token| !token.is_empty())
            .ok_or("it has neither token nor access_token")?;
        if value.len() > MAX_TOKEN_BYTES {
            return Err("its token is too long for a header");
        }
        if !value.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("its token has characters that are invalid in a header");
        }
        let life = answer
            .expires_in
            .and_then(|seconds| seconds.as_u64())
            .map_or(MIN_LIFETIME, Duration::from_secs)
            // The specification requires servers to never issue less than 60 seconds
            // (`docs/content/spec/auth/token.md` in distribution). A server that states 0 would cause a token request
            // for each layer.
            .clamp(MIN_LIFETIME, MAX_LIFETIME);
        // A tenth less, so that it does not expire in flight.
        Ok(Self {
            value: Secret::new(value),
            until: asked + life - life / 10,
        })
    }

    /// Whether it has not expired.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        now < self.until
    }
}
