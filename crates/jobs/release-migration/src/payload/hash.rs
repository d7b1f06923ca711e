//! A short word for all that a release applies: whoever sees another one knows that something is different.

use super::Payload;

/// The prime and the beginning of FNV with 64 bits.
const PRIME: u64 = 0x0100_0000_01b3;
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// The alphabet of base64 that URLs take.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Payload {
    /// `status.versionHash` of a ClusterVersion: FNV-1 of all manifests, in URL-safe base64.
    pub fn version_hash(&self) -> String {
        let mut hash = BASIS;
        for manifest in &self.manifests {
            for byte in manifest.object.to_string().bytes() {
                hash = hash.wrapping_mul(PRIME) ^ u64::from(byte);
            }
        }
        base64(hash)
    }
}

/// Eight bytes are eleven digits of six bits, of which the last lacks two, and one that fills up.
fn base64(number: u64) -> String {
    let bits = u128::from(number) << 2;
    let digits = (0..11).rev().map(|place| {
        // Six bits are always a place in the alphabet.
        let digit = usize::try_from((bits >> (place * 6)) & 0x3f).unwrap_or_default();
        char::from(ALPHABET[digit])
    });
    digits.chain(['=']).collect()
}
