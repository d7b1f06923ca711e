//! Rotation of the CAs that replicas share: which one signs, which are trusted, and when a new one is created.
//!
//! ```text
//! created -- PROPAGATION_TIME --> signs -- until a third of its lifetime is left --> the next is created
//!                                                                        `-- PROPAGATION_TIME --> the next signs
//! ```
//!
//! A CA is trusted for a while before it signs, so that every API server has its certificate by then, and for a while
//! after its successor signs, so that certificates it has signed stay valid until they are replaced.

mod shared;

use jiff::{SignedDuration, Timestamp};
use serving::certificates::Authority;

use crate::trust::COMMON_NAME;
pub use shared::Authorities;

/// Lifetime of a CA.
// Rotated automatically, so the lifetime only bounds how long a leaked key is of use. A third of it is left for
// rotation, in case the operator is not running for months.
const CA_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Remaining lifetime at which the next CA is created.
const CA_RENEWAL_MARGIN: SignedDuration = SignedDuration::from_hours(122 * 24);
/// How long a CA is trusted before it signs, and after its successor does. API servers see a registration within
/// seconds; replicas read the Secret every minute.
const PROPAGATION_TIME: SignedDuration = SignedDuration::from_hours(1);

/// A new CA.
fn shared(now: Timestamp) -> Result<Authority, serving::certificates::Error> {
    let expires = now.saturating_add(CA_LIFETIME).unwrap_or(Timestamp::MAX);
    Authority::make(&format!("{COMMON_NAME}-ca"), now, expires)
}

/// Whether every API server has had time to see the CA.
fn is_propagated(authority: &Authority, now: Timestamp) -> bool {
    now.duration_since(authority.made) >= PROPAGATION_TIME
}

/// Next step of the rotation.
#[derive(Debug, PartialEq, Eq)]
struct RotationStep {
    /// CAs to keep, oldest first.
    kept: Vec<Authority>,
    /// Whether to create another one.
    another: bool,
}

/// Decides which CAs stay, and whether to create another.
fn rotation_step(mut all: Vec<Authority>, now: Timestamp) -> RotationStep {
    all.sort_by_key(|authority| authority.made);
    // Before the positions are computed: an expired CA must not count as the one that signs, or its successor would
    // be dropped from the bundle.
    all.retain(|authority| authority.expires > now);
    // A CA whose successor has signed for long enough has no certificates in use.
    let followed = all
        .iter()
        .rposition(|authority| now.duration_since(authority.made) >= PROPAGATION_TIME * 2);
    let kept = all.split_off(followed.unwrap_or_default());
    let another = kept
        .last()
        .is_none_or(|newest| newest.expires.duration_since(now) < CA_RENEWAL_MARGIN);
    RotationStep { kept, another }
}

/// The CA that signs: the newest that every API server has had time to see, or else the oldest.
fn signer(all: &[Authority], now: Timestamp) -> Option<&Authority> {
    // Signing with a CA at once would break every API server that has not seen the new bundle. Only the very first CA
    // signs immediately, as there is no other.
    let propagated = all.iter().rfind(|authority| is_propagated(authority, now));
    propagated.or_else(|| all.first())
}

/// The `caBundle` of the registration.
fn bundle(all: &[Authority]) -> String {
    all.iter()
        .map(|authority| authority.certificate.as_str())
        .collect()
}

#[cfg(test)]
mod tests;
