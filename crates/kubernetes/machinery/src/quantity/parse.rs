//! From text to a quantity.

use super::amount::{Amount, NANO};
use super::{Format, Quantity, QuantityError};

/// Upstream takes numbers of up to so many digits on a fast path, on which it also keeps the text.
const FAST_DIGITS: usize = 18;

/// More significant digits than 128 bits hold for sure.
const MAX_DIGITS: usize = 38;

pub(super) fn quantity(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let (base, exponent, format) = suffix(parts.suffix)?;
    let amount = parts.number()?;
    let keep = parts.keeps_text(exponent, format);
    let (amount, format) = match base {
        Base::Ten => {
            let shifted = amount
                .exponent()
                .checked_add(exponent)
                .ok_or(QuantityError::Suffix)?;
            (
                Amount::new(amount.mantissa(), shifted).rounded_up(NANO),
                format,
            )
        }
        Base::Two => binary(amount, exponent)?,
    };
    let keep = keep && !amount.is_zero();
    let text = if keep || text == "0" {
        Some(text.to_owned())
    } else {
        None
    };
    Ok(Quantity {
        amount,
        format,
        text,
    })
}

/// Powers of 1024 end at what 64 bits hold, and print in decimal below one.
fn binary(amount: Amount, exponent: i32) -> Result<(Amount, Format), QuantityError> {
    let max = Amount::new(i128::from(i64::MAX), 0);
    let factor = 1_i128 << exponent;
    let product = match amount.checked_mul(factor) {
        Some(product) => product.rounded_up(NANO),
        // Beyond 128 bits is either far beyond the cap or has more digits than count.
        None if amount.exponent() >= 0 => {
            return Ok((
                if amount.sign() < 0 {
                    max.negated()
                } else {
                    max
                },
                Format::BinarySi,
            ));
        }
        None => return Err(QuantityError::Numeric),
    };
    let negative = product.sign() < 0;
    let size = if negative { product.negated() } else { product };
    let size = size.min(max);
    let small = !size.is_zero() && size < Amount::new(1, 0);
    let format = if small {
        Format::DecimalSi
    } else {
        Format::BinarySi
    };
    Ok((if negative { size.negated() } else { size }, format))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Two,
    Ten,
}

struct Parts<'a> {
    negative: bool,
    /// Digits before the dot, leading zeros cut; `0` if that leaves none.
    whole: &'a str,
    /// Digits after the dot.
    part: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = rest.split_at(digits(rest));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let (part, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let letters = letters.strip_prefix(['-', '+']).unwrap_or(letters);
    if !letters.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        negative,
        whole,
        part,
        suffix,
    })
}

fn suffix(text: &str) -> Result<(Base, i32, Format), QuantityError> {
    let decimal = |exponent| Ok((Base::Ten, exponent, Format::DecimalSi));
    let binary = |exponent| Ok((Base::Two, exponent, Format::BinarySi));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = text.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
            let exponent = exponent.parse().map_err(|_| QuantityError::Suffix)?;
            Ok((Base::Ten, exponent, Format::DecimalExponent))
        }
    }
}

impl Parts<'_> {
    fn number(&self) -> Result<Amount, QuantityError> {
        let part = self.part.trim_end_matches('0');
        let digits = format!("{}{part}", self.whole);
        let significant = digits.trim_start_matches('0').trim_end_matches('0');
        if significant.len() > MAX_DIGITS {
            return Err(QuantityError::Numeric);
        }
        if significant.is_empty() {
            return Ok(Amount::new(0, 0));
        }
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        let mantissa: i128 = significant.parse().map_err(|_| QuantityError::Numeric)?;
        let zeros = i64::try_from(zeros).map_err(|_| QuantityError::Numeric)?;
        let places = i64::try_from(part.len()).map_err(|_| QuantityError::Numeric)?;
        let exponent = i32::try_from(zeros - places).map_err(|_| QuantityError::Numeric)?;
        Ok(Amount::new(
            if self.negative { -mantissa } else { mantissa },
            exponent,
        ))
    }

    /// Whether the text is so close to canonical that upstream keeps it as it is.
    fn keeps_text(&self, exponent: i32, format: Format) -> bool {
        let digits = self.whole.len() + self.part.len();
        if format == Format::BinarySi {
            // Upstream reckons fourteen digits, less three for every power of 1024, to be safe.
            let room = 14 - i64::from(exponent) * 3 / 10;
            let fits = i64::try_from(self.whole.len()).is_ok_and(|len| len <= room);
            let odd = self.whole.parse::<u64>().is_ok_and(|n| n & 7 != 0);
            return self.part.is_empty() && fits && odd;
        }
        let places = i32::try_from(self.part.len()).unwrap_or(i32::MAX);
        let scale = exponent.saturating_sub(places);
        let ends_in_zeros = if self.part.len() >= 3 {
            self.part.ends_with("000")
        } else {
            format!("{}{}", self.whole, self.part).ends_with("000")
        };
        digits <= FAST_DIGITS
            && scale >= NANO
            && scale % 3 == 0
            && !ends_in_zeros
            && !self.whole.starts_with('0')
    }
}
