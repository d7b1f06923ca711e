//! Amounts for the `quantity` library: enough of `resource.Quantity` for what expressions ask.

use std::cmp::Ordering;

/// Smallest amount that is kept.
const NANO: i128 = 1_000_000_000;

/// An amount in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount {
    nanos: i128,
}

impl Amount {
    /// Reads `1500m`, `2Gi`, `1e3`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "quantities must match the regular expression \
                            '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        const SUFFIX: &str = "unable to parse quantity's suffix";
        let (negative, body) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
            None => return Err(FORM),
        };
        let end = body
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(body.len());
        let (number, suffix) = body.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(FORM);
        }
        let (binary, decimal) = scale(suffix).ok_or_else(|| {
            let fits = suffix
                .chars()
                .all(|c| "eEinumkKMGTP+-0123456789".contains(c));
            if fits { SUFFIX } else { FORM }
        })?;
        let digits = format!("{}{fraction}", whole.trim_start_matches('0'));
        let digits = digits.trim_start_matches('0');
        // More digits than can be kept apart: the largest amount there is.
        let mantissa: i128 = if digits.is_empty() {
            0
        } else {
            digits.parse().unwrap_or(i128::MAX)
        };
        let exponent = decimal + 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX / 2);
        let scaled = mantissa.saturating_mul(binary);
        let nanos = shift(scaled, exponent);
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
        })
    }

    /// A whole amount.
    pub(crate) fn from_int(value: i64) -> Self {
        Self {
            nanos: i128::from(value) * NANO,
        }
    }

    /// -1, 0 or 1.
    pub(crate) fn sign(&self) -> i64 {
        self.nanos.signum() as i64
    }

    /// Order by size.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    /// The sum.
    pub(crate) fn add(&self, other: &Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
        }
    }

    /// The difference.
    pub(crate) fn sub(&self, other: &Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos),
        }
    }

    /// The amount if it is whole and not too large.
    pub(crate) fn to_i64(self) -> Option<i64> {
        if self.nanos % NANO == 0 {
            i64::try_from(self.nanos / NANO).ok()
        } else {
            None
        }
    }

    /// The nearest double.
    #[expect(clippy::cast_precision_loss, reason = "an approximation is asked for")]
    pub(crate) fn to_f64(self) -> f64 {
        let (whole, rest) = (self.nanos / NANO, self.nanos % NANO);
        whole as f64 + rest as f64 / NANO as f64
    }
}

/// `(power of two, exponent of ten)` of a suffix.
fn scale(suffix: &str) -> Option<(i128, i64)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        other => {
            let digits = other.strip_prefix(['e', 'E'])?;
            (1, digits.parse::<i32>().ok()?.into())
        }
    })
}

/// `value * 10^exponent`, rounded away from zero.
fn shift(value: i128, exponent: i64) -> i128 {
    if value == 0 {
        return 0;
    }
    let power = u32::try_from(exponent.unsigned_abs())
        .ok()
        .and_then(|e| 10_i128.checked_pow(e));
    match power {
        Some(power) if exponent >= 0 => value.saturating_mul(power),
        Some(power) => value / power + i128::from(value % power != 0),
        None if exponent >= 0 => i128::MAX,
        None => 1,
    }
}
