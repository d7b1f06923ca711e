//! Numbers as Go sees them after decoding: whole literals are `int64`, all others `float64`.

use serde_json::{Number, Value};

/// A decoded number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Num {
    /// `int64`
    Int(i64),
    /// `float64`
    Float(f64),
}

impl Num {
    /// The number in `number`; whole numbers beyond `int64` are floats.
    pub(super) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// As a float.
    #[expect(clippy::cast_precision_loss, reason = "Go converts the same way")]
    pub(super) fn float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    /// As it is shown in an error.
    pub(super) fn value(self) -> Value {
        match self {
            Self::Int(int) => int.into(),
            Self::Float(float) => float.into(),
        }
    }
}

/// Go's conversion of a float to `int64`.
#[expect(clippy::cast_possible_truncation, reason = "Go truncates as well")]
pub(super) fn to_int(float: f64) -> i64 {
    float as i64
}

/// `swag.IsFloat64AJSONInteger`: whole within a relative error of 1e-9 and in the safe range.
pub(super) fn is_json_integer(float: f64) -> bool {
    // 2^53 - 1, JavaScript's `MAX_SAFE_INTEGER`, which the Swagger libraries took over.
    const SAFE: f64 = 9_007_199_254_740_991.0;
    if float.is_nan() || float.abs() > SAFE {
        return false;
    }
    let whole = float.trunc();
    #[expect(clippy::float_cmp, reason = "the exact comparison is the rule")]
    if float == whole {
        return true;
    }
    // Negative numbers miss the tolerance upstream: the comparison goes through unsigned integers.
    float > 1.0 && (float - whole).abs() / (float + whole) < 1e-9
}

/// `IsValueValidAgainstRange`: whether a number fits its type and format; the error else.
pub(super) fn range_error(
    number: Num,
    type_name: &str,
    format: &str,
    what: &str,
    path: &str,
) -> Option<String> {
    let fits = match (type_name, format) {
        ("integer", "int32") => whole(number).is_some_and(|n| i32::try_from(n).is_ok()),
        ("integer", _) => whole(number).is_some(),
        (_, "float") => number.float().abs() <= f64::from(f32::MAX) || number.float().is_nan(),
        _ => true,
    };
    if fits {
        None
    } else if format.is_empty() {
        Some(format!(
            "{what} value must be of type {type_name} (default format) in {path}"
        ))
    } else {
        Some(format!(
            "{what} value must be of type {type_name} with format {format} in {path}"
        ))
    }
}

/// One above the largest `int64`, exactly.
const INT64_LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// The number if its decimal form is one of `int64`.
fn whole(number: Num) -> Option<i64> {
    match number {
        Num::Int(int) => Some(int),
        Num::Float(float) => {
            let in_range = (-INT64_LIMIT..INT64_LIMIT).contains(&float);
            (float.fract() == 0.0 && in_range).then(|| to_int(float))
        }
    }
}
