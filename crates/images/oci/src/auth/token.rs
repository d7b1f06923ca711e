//! Tokens: what token servers give, and for how long.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::credentials::CredentialId;
use crate::secret::Secret;

/// The life of a token whose server does not say, and the shortest there is (distribution's rule).
const SHORTEST: Duration = Duration::from_mins(1);

/// The longest that is believed: after that the server is asked again, whatever it said.
const LONGEST: Duration = Duration::from_hours(6);

/// Longer tokens do not fit in a header.
const LONGEST_TOKEN: usize = 64 * 1024;

/// What a token is for. Two credentials never share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    pub(crate) realm: String,
    pub(crate) service: Option<String>,
    pub(crate) scope: String,
    pub(crate) credential: CredentialId,
}

/// A token and its end.
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
    /// Reads what a token server answered. It is valid from the time at which it was asked for.
    pub(crate) fn read(bytes: &[u8], asked: Instant) -> Result<Self, &'static str> {
        let answer: Answer = serde_json::from_slice(bytes)
            .map_err(|_| "expected a JSON object with token or access_token")?;
        let value = [answer.token, answer.access_token]
            .into_iter()
            .flatten()
            .find(|token| !token.is_empty())
            .ok_or("it has neither token nor access_token")?;
        if value.len() > LONGEST_TOKEN {
            return Err("its token is too long for a header");
        }
        if !value.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("its token has characters that no header can hold");
        }
        let life = answer
            .expires_in
            .and_then(|seconds| seconds.as_u64())
            .map_or(SHORTEST, Duration::from_secs)
            .clamp(SHORTEST, LONGEST);
        // A tenth less: it must not end on its way.
        Ok(Self {
            value: Secret::new(value),
            until: asked + life - life / 10,
        })
    }

    /// Whether it can still be shown.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        now < self.until
    }
}
