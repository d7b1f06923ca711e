//! Deterministic pseudo-random numbers: identifiers and the jitter of simulated times are hashes of
//! names, so that a restart changes nothing.

/// FNV-1a, 128 bit.
pub(crate) fn of(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
}

/// A number from 0 up to, but not including, 1, derived from a name.
pub(crate) fn fraction(name: &str) -> f64 {
    let bits = u32::try_from((of(name.as_bytes()) >> 64) & 0xffff).unwrap_or_default();
    f64::from(bits) / 65536.0
}
