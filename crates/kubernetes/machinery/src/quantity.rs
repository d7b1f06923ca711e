//! `resource.Quantity`: exact decimal numbers with a suffix, such as `1.5Gi` or `100m`
//! (`apimachinery/pkg/api/resource`).
//!
//! A quantity remembers in which family of suffixes it was written and prints in that family's
//! canonical form: no fraction, the largest suffix that needs none, nothing finer than nano.

mod amount;
mod parse;
mod print;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use amount::Amount;

/// The family of suffixes a quantity prints with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`, powers of 1024.
    BinarySi,
    /// `12M`, powers of 1000.
    DecimalSi,
}

/// A text that is no quantity, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// More digits than can be counted with.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// A suffix that does not exist.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount of something.
///
/// Comparisons are of the amount alone: `1`, `1000m` and `1e0` are equal.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text it was read from, where upstream keeps that instead of the canonical form.
    text: Option<String>,
}

impl Quantity {
    /// A whole number.
    pub fn from_i64(value: i64, format: Format) -> Self {
        Self {
            amount: Amount::new(i128::from(value), 0),
            format,
            text: None,
        }
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self {
            amount: Amount::new(i128::from(value), -3),
            format,
            text: None,
        }
    }

    /// Reads the JSON form: a string, or a bare number as YAML writers like to give.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => text.trim().parse(),
            Value::Number(_) => crate::json::to_string(value).parse(),
            _ => Err(QuantityError::Format),
        }
    }

    /// The family of suffixes.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether this is nothing.
    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.amount.sign()
    }

    /// The exact whole number, if it is one of 64 bits.
    pub fn to_i64(&self) -> Option<i64> {
        self.amount.whole().and_then(|n| i64::try_from(n).ok())
    }

    /// The number rounded away from zero to a whole one, at most what 64 bits hold.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// The number of thousandths, rounded away from zero, at most what 64 bits hold.
    pub fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    fn scaled(&self, exponent: i32) -> i64 {
        let saturated = if self.sign() < 0 { i64::MIN } else { i64::MAX };
        let rounded = self.amount.rounded_up(exponent);
        let units = rounded.units_of(exponent);
        units
            .and_then(|n| i64::try_from(n).ok())
            .unwrap_or(saturated)
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        self.amount.to_f64()
    }

    /// The sum; `None` when it has more digits than can be counted with.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let amount = self.amount.checked_add(&other.amount)?;
        // Nothing has no family of its own.
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Some(Self {
            amount,
            format,
            text: None,
        })
    }

    /// The difference; `None` when it has more digits than can be counted with.
    #[must_use]
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&other.negated())
    }

    /// The same amount with the other sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self {
            amount: self.amount.negated(),
            format: self.format,
            text: None,
        }
    }

    /// The canonical form, whatever the quantity was read from.
    pub fn canonical(&self) -> String {
        print::canonical(&self.amount, self.format)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::quantity(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}
