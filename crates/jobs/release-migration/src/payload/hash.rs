//! The hash of all manifests of a release, to detect differences.

use super::Payload;

/// Prime and offset basis of 64-bit FNV.
const PRIME: u64 = 0x0100_0000_01b3;
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// The URL-safe base64 alphabet.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Payload {
    /// `status.versionHash` of a ClusterVersion: FNV-1 of all manifests, in URL-safe base64.
    pub fn version_hash(&self) -> String {
        let mut hash = BASIS;
        for manifest in &self.manifests {
            for byte in manifest.object.to_string().bytes() {
                // FNV-1 multiplies first, FNV-1a last. Upstream uses Go's `fnv.New64` (pkg/payload/payload.go), which
                // is FNV-1.
                hash = hash.wrapping_mul(PRIME) ^ u64::from(byte);
            }
        }
        base64(hash)
    }
}

/// Eight bytes are eleven base64 digits, the last with two padding bits, and one padding character.
fn base64(number: u64) -> String {
    let bits = u128::from(number) << 2;
    let digits = (0..11).rev().map(|place| {
        // Six bits are always a valid index of the alphabet.
        let digit = usize::try_from((bits >> (place * 6)) & 0x3f).unwrap_or_default();
        char::from(ALPHABET[digit])
    });
    digits.chain(['=']).collect()
}
