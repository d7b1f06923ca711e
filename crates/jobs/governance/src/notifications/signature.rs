//! Signatures by which a receiver recognises genuine notifications: HMAC-SHA256 (RFC 2104) over the time and the body.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

/// The header of the signature.
pub const SIGNATURE_HEADER: &str = "medley-signature";

/// The block size of SHA-256.
const BLOCK: usize = 64;

/// The value of the header: `t=SECONDS,v1=HEX`, where `HEX` is the HMAC of `SECONDS.BODY`. The time is signed as well,
/// so that a receiver can refuse a request that was recorded and is sent again.
pub fn signature(key: &[u8], now: Timestamp, body: &[u8]) -> String {
    let seconds = now.as_second();
    let mut signed = format!("{seconds}.").into_bytes();
    signed.extend_from_slice(body);
    let code = crate::hash::hex(&hmac(key, &signed));
    format!("t={seconds},v1={code}")
}

pub(super) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message);
    let outer = Sha256::new()
        .chain_update(pad(0x5c))
        .chain_update(inner.finalize());
    outer.finalize().into()
}
