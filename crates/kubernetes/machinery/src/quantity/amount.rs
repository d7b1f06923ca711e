//! Exact decimal arithmetic on 128 bits.
//!
//! Upstream counts with unbounded integers; 38 digits with a separate exponent are beyond anything
//! that can be measured, and bound the work a hostile quantity can cause.

use std::cmp::Ordering;

/// `mantissa * 10^exponent`, the mantissa without trailing zeros, zero with exponent 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    mantissa: i128,
    exponent: i32,
}

/// The finest step a quantity can have.
pub(super) const NANO: i32 = -9;

impl Amount {
    pub(super) fn new(mut mantissa: i128, mut exponent: i32) -> Self {
        if mantissa == 0 {
            return Self {
                mantissa: 0,
                exponent: 0,
            };
        }
        while mantissa % 10 == 0 && exponent < i32::MAX {
            mantissa /= 10;
            exponent += 1;
        }
        Self { mantissa, exponent }
    }

    pub(super) fn mantissa(&self) -> i128 {
        self.mantissa
    }

    pub(super) fn exponent(&self) -> i32 {
        self.exponent
    }

    pub(super) fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    pub(super) fn sign(&self) -> i32 {
        match self.mantissa.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    pub(super) fn negated(&self) -> Self {
        // The smallest i128 has 39 digits, which parsing never lets in and sums are kept from.
        Self {
            mantissa: self.mantissa.saturating_neg(),
            exponent: self.exponent,
        }
    }

    /// How many units of `10^exponent` this is, if that is a whole number that fits.
    pub(super) fn units_of(&self, exponent: i32) -> Option<i128> {
        if self.is_zero() {
            return Some(0);
        }
        let shift = i64::from(self.exponent) - i64::from(exponent);
        let factor = 10_i128.checked_pow(u32::try_from(shift).ok()?)?;
        self.mantissa.checked_mul(factor)
    }

    /// The whole number this is, if it is one.
    pub(super) fn whole(&self) -> Option<i128> {
        self.units_of(0)
    }

    /// Rounded away from zero to a multiple of `10^exponent`.
    pub(super) fn rounded_up(&self, exponent: i32) -> Self {
        if self.is_zero() || self.exponent >= exponent {
            return *self;
        }
        let drop = i64::from(exponent) - i64::from(self.exponent);
        let sign = i128::from(self.sign());
        let divisor = u32::try_from(drop)
            .ok()
            .and_then(|d| 10_i128.checked_pow(d));
        // A quotient far below one still rounds away from zero.
        let Some(divisor) = divisor else {
            return Self::new(sign, exponent);
        };
        let (quotient, rest) = (self.mantissa / divisor, self.mantissa % divisor);
        Self::new(if rest == 0 { quotient } else { quotient + sign }, exponent)
    }

    /// Times a whole number.
    pub(super) fn checked_mul(&self, factor: i128) -> Option<Self> {
        Some(Self::new(self.mantissa.checked_mul(factor)?, self.exponent))
    }

    pub(super) fn checked_add(&self, other: &Self) -> Option<Self> {
        if self.is_zero() {
            return Some(*other);
        }
        if other.is_zero() {
            return Some(*self);
        }
        let exponent = self.exponent.min(other.exponent);
        let sum = self
            .units_of(exponent)?
            .checked_add(other.units_of(exponent)?)?;
        (sum != i128::MIN).then(|| Self::new(sum, exponent))
    }

    pub(super) fn to_f64(self) -> f64 {
        // The standard library rounds decimal text correctly, which multiplying floats would not.
        format!("{}e{}", self.mantissa, self.exponent)
            .parse()
            .unwrap_or(0.0)
    }

    /// Position of the first digit.
    fn magnitude(&self) -> i64 {
        let digits = self
            .mantissa
            .unsigned_abs()
            .checked_ilog10()
            .map_or(0, i64::from);
        digits + i64::from(self.exponent)
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        let signs = self.sign().cmp(&other.sign());
        if signs != Ordering::Equal || self.is_zero() {
            return signs;
        }
        let by_size = self.magnitude().cmp(&other.magnitude()).then_with(|| {
            // With the first digits at the same place the shift is at most the mantissa's length,
            // so the digits can be compared as text padded on the right.
            let (a, b) = (self.mantissa.unsigned_abs(), other.mantissa.unsigned_abs());
            a.to_string()
                .trim_end_matches('0')
                .cmp(b.to_string().trim_end_matches('0'))
        });
        if self.sign() < 0 {
            by_size.reverse()
        } else {
            by_size
        }
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
