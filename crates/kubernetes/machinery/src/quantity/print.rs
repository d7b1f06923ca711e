//! The canonical form.

use super::Format;
use super::amount::Amount;

pub(super) fn canonical(amount: &Amount, format: Format) -> String {
    if amount.is_zero() {
        return "0".to_owned();
    }
    match format {
        Format::DecimalExponent => {
            let (number, exponent) = thousands(amount);
            if exponent == 0 {
                number
            } else {
                format!("{number}e{exponent}")
            }
        }
        Format::DecimalSi => decimal(amount),
        Format::BinarySi => match amount.whole() {
            Some(whole) if whole.unsigned_abs() >= 1024 => powers_of_1024(whole),
            _ => decimal(amount),
        },
    }
}

/// Digits and a power of ten that is a multiple of three.
fn thousands(amount: &Amount) -> (String, i32) {
    let over = amount.exponent().rem_euclid(3);
    let zeros = usize::try_from(over).unwrap_or(0);
    (
        format!("{}{}", amount.mantissa(), "0".repeat(zeros)),
        amount.exponent() - over,
    )
}

fn decimal(amount: &Amount) -> String {
    let (number, exponent) = thousands(amount);
    let suffix = match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        0 => "",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        // There is no suffix above exa. Upstream drops the exponent there; here so large a number keeps
        // its zeros.
        18 => "E",
        _ if (19..60).contains(&exponent) => {
            let zeros = usize::try_from(exponent - 18).unwrap_or(0);
            return format!("{number}{}E", "0".repeat(zeros));
        }
        _ => return format!("{number}e{exponent}"),
    };
    format!("{number}{suffix}")
}

fn powers_of_1024(mut whole: i128) -> String {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut power = 0;
    while whole % 1024 == 0 && power + 1 < SUFFIXES.len() {
        whole /= 1024;
        power += 1;
    }
    format!("{whole}{}", SUFFIXES[power])
}
