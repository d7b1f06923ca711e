//! Unguessable secrets.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// Digest by which a secret is stored: reading the memory does not reveal it.
pub(crate) type Fingerprint = [u8; 32];

/// Random bytes.
pub(crate) fn bytes<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0_u8; LENGTH];
    // The generator fails only where the system has no entropy source, and then nothing is safe.
    #[expect(
        clippy::expect_used,
        reason = "without random numbers there must be no sessions"
    )]
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the system has random numbers");
    bytes
}

/// 256 random bits, as text for URLs and cookies.
pub(crate) fn random() -> String {
    URL_SAFE_NO_PAD.encode(bytes::<32>())
}

/// The digest of a secret.
pub(crate) fn fingerprint(secret: &str) -> Fingerprint {
    Sha256::digest(secret.as_bytes()).into()
}

/// Compares two secrets in constant time.
pub(crate) fn same(one: &str, other: &str) -> bool {
    verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_long() {
        let (one, other) = (random(), random());
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
        assert!(same(&one, &one.clone()) && !same(&one, &other) && !same(&one, ""));
        assert_ne!(fingerprint(&one), fingerprint(&other));
    }
}
