//! Sizes of PVCs: a filesystem needs space for itself.

#[cfg(test)]
mod tests;

/// Sizes are rounded to whole MiB.
const MIB: u64 = 1 << 20;
/// The unit of overheads.
const WHOLE: u64 = 10_000;

/// The share of a volume that a filesystem needs, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overhead(u64);

impl Overhead {
    /// Block devices have none.
    pub const NONE: Self = Self(0);
    /// CDI's default, 6 percent.
    pub const DEFAULT: Self = Self(600);

    /// Parses an overhead from `0` to `1`. Digits after the fourth are cut off.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.chars().all(|it| it.is_ascii_digit());
        if !digits(whole) || !digits(part) || (whole.is_empty() && part.is_empty()) {
            return None;
        }
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        let mut parts: u64 = 0;
        for index in 0..4 {
            let digit = part.as_bytes().get(index).map_or(0, |it| it - b'0');
            parts = parts * 10 + u64::from(digit);
        }
        let all = whole.checked_mul(WHOLE)?.checked_add(parts)?;
        (all <= WHOLE).then_some(Self(all))
    }
}

/// The size of a PVC for a disk of this size.
pub fn required(overhead: Overhead, bytes: u64) -> u64 {
    // `GetRequiredSpace` and `GetUsableSpace` in CDI's pkg/util/util.go, as integers instead of
    // float64, so that `usable` undoes `required` for every size. The disk is aligned because
    // qemu-img rounds up.
    let rounded = bytes.div_ceil(MIB).saturating_mul(MIB);
    let grown = u128::from(rounded) * u128::from(WHOLE + overhead.0);
    u64::try_from(grown.div_ceil(u128::from(WHOLE))).unwrap_or(u64::MAX)
}

/// The capacity for a disk of a PVC of this size.
pub fn usable(overhead: Overhead, bytes: u64) -> u64 {
    let shrunk = u128::from(bytes) * u128::from(WHOLE);
    let shrunk = shrunk.div_ceil(u128::from(WHOLE + overhead.0));
    let shrunk = u64::try_from(shrunk).unwrap_or(u64::MAX);
    shrunk / MIB * MIB
}
