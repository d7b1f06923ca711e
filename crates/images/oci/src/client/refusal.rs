//! The causes behind error responses.

#[cfg(test)]
mod tests;

use std::time::Duration;

use http::header::RETRY_AFTER;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde::Deserialize;

use crate::credentials::Credential;
use crate::error::{Cause, clean};
use crate::transport::Answer;

/// Upper bound of an error body.
const MAX_BODY_BYTES: u64 = 16 * 1024;

/// Upper bound of a `Retry-After`.
// A registry that answers with years, after an error of its administrator for example, must not block itself for the
// life of this process.
const MAX_PAUSE: Duration = Duration::from_hours(24);

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    errors: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// The cause of an error response.
pub(super) async fn refusal(
    answer: Answer,
    credential: Option<&Credential>,
    sent: Option<&str>,
) -> Cause {
    let code = answer.parts.status.as_u16();
    let retry_after = answer
        .header(RETRY_AFTER)
        .and_then(|text| pause(text, Timestamp::now()));
    let body = answer.read(MAX_BODY_BYTES).await.unwrap_or_default();
    let secrets = credential.map(Credential::secrets).unwrap_or_default();
    let mut hidden: Vec<&str> = secrets.iter().map(crate::secret::Secret::expose).collect();
    // The authorization header is `Basic x` or `Bearer x`.
    hidden.extend(
        sent.and_then(|sent| sent.split_once(' '))
            .map(|(_, token)| token),
    );
    let said = error_message(&body, &hidden);
    match code {
        // Registries disagree about which of the two a private repository gets. Either way the next credential may
        // succeed.
        401 | 403 => Cause::Unauthorized {
            with: Credential::describe(credential),
            said,
        },
        404 => Cause::NotFound { said },
        429 => Cause::RateLimited { retry_after },
        // An overloaded server may send `Retry-After`, too.
        503 if retry_after.is_some() => Cause::RateLimited { retry_after },
        code => Cause::Server { code, said },
    }
}

/// The message of an error body: that of the first error in the registry's list.
fn error_message(body: &[u8], hidden: &[&str]) -> String {
    let Ok(body) = serde_json::from_slice::<Body>(body) else {
        return String::new();
    };
    let Some(first) = body.errors.first() else {
        return String::new();
    };
    let text = match (first.code.is_empty(), first.message.is_empty()) {
        (false, false) => format!("{}: {}", first.code, first.message),
        _ => format!("{}{}", first.code, first.message),
    };
    clean(&text, hidden)
}

/// `Retry-After`: seconds or a date.
fn pause(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let wait = if let Ok(seconds) = text.parse::<u64>() {
        Duration::from_secs(seconds)
    } else {
        let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        // A date in the past is no wait.
        Duration::try_from(date.duration_since(now)).unwrap_or_default()
    };
    Some(wait.min(MAX_PAUSE))
}
