//! Authorities that replicas of the check share: which of them signs, which are trusted, and when another
//! one is made.
//!
//! ```text
//! made ---- NOTICE ----> signs ---- until a third of its life is left ----> another is made
//!                                                                             `-- NOTICE --> it signs instead
//! ```
//!
//! An authority is trusted for a while before it signs, so that every API server has heard of it by then,
//! and for a while after it was followed, so that nobody is caught with a certificate of the former one.

mod shared;

use jiff::{SignedDuration, Timestamp};
use serving::certificates::Authority;

use crate::trust::CALLED;
pub use shared::Authorities;

/// How long an authority lives.
const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// What is left of its life when another is made.
const REST: SignedDuration = SignedDuration::from_hours(122 * 24);
/// How long an authority is trusted before it signs, and after it was followed by another. API servers
/// hear of a registration within seconds; replicas look at the Secret every minute.
const NOTICE: SignedDuration = SignedDuration::from_hours(1);

/// A new authority to share.
fn shared(now: Timestamp) -> Result<Authority, serving::certificates::Error> {
    let expires = now.saturating_add(LIFE).unwrap_or(Timestamp::MAX);
    Authority::make(&format!("{CALLED}-ca"), now, expires)
}

/// Says whether every API server has heard of it.
fn has_been_told(authority: &Authority, now: Timestamp) -> bool {
    now.duration_since(authority.made) >= NOTICE
}

/// What is to be done about the authorities.
#[derive(Debug, PartialEq, Eq)]
struct Turn {
    /// Those to go on with, the oldest first.
    kept: Vec<Authority>,
    /// Whether another one is to be made.
    another: bool,
}

/// Decides which authorities stay, and whether there has to be another.
fn turn(mut all: Vec<Authority>, now: Timestamp) -> Turn {
    all.sort_by_key(|authority| authority.made);
    all.retain(|authority| authority.expires > now);
    // Whoever was followed long enough ago has signed nothing that is still in use.
    let followed = all
        .iter()
        .rposition(|authority| now.duration_since(authority.made) >= NOTICE * 2);
    let kept = all.split_off(followed.unwrap_or_default());
    let another = kept
        .last()
        .is_none_or(|newest| newest.expires.duration_since(now) < REST);
    Turn { kept, another }
}

/// The one that signs: the newest of which everybody has heard; where nobody has had the time to, the
/// oldest.
fn signer(all: &[Authority], now: Timestamp) -> Option<&Authority> {
    let told = all.iter().rfind(|authority| has_been_told(authority, now));
    told.or_else(|| all.first())
}

/// What the API server is told to trust.
fn bundle(all: &[Authority]) -> String {
    all.iter()
        .map(|authority| authority.certificate.as_str())
        .collect()
}

#[cfg(test)]
mod tests;
