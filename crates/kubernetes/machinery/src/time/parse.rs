//! Go's `time.Parse` for the two layouts the API uses, with its error texts.

use jiff::civil::Date;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

use crate::json::go_quote;

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A text that is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// A part of the text is not what the layout has there.
    #[error(
        "parsing time {} as {}: cannot parse {} as {}",
        go_quote(text),
        go_quote(layout),
        go_quote(rest),
        go_quote(element)
    )]
    Mismatch {
        /// The whole text.
        text: String,
        /// The layout it should have.
        layout: &'static str,
        /// From here on it does not fit.
        rest: String,
        /// What the layout has at this place.
        element: &'static str,
    },
    /// A number is too large.
    #[error("parsing time {}: {element} out of range", go_quote(text))]
    OutOfRange {
        /// The whole text.
        text: String,
        /// Which number.
        element: &'static str,
    },
    /// Something follows the time.
    #[error("parsing time {}: extra text: {}", go_quote(text), go_quote(rest))]
    Extra {
        /// The whole text.
        text: String,
        /// What follows.
        rest: String,
    },
}

/// Reads a `metav1.Time`: RFC 3339, a fraction of a second is allowed.
pub fn parse_time(text: &str) -> Result<Timestamp, TimeError> {
    Reader {
        text,
        rest: text,
        layout: SECONDS_LAYOUT,
    }
    .time(Fraction::Optional)
}

/// Reads a `metav1.MicroTime`: RFC 3339 with exactly six digits after the second.
pub fn parse_micro_time(text: &str) -> Result<Timestamp, TimeError> {
    Reader {
        text,
        rest: text,
        layout: MICRO_LAYOUT,
    }
    .time(Fraction::Micros)
}

#[derive(Clone, Copy)]
enum Fraction {
    Optional,
    Micros,
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn mismatch(&self, element: &'static str) -> TimeError {
        TimeError::Mismatch {
            text: self.text.to_owned(),
            layout: self.layout,
            rest: self.rest.to_owned(),
            element,
        }
    }

    fn out_of_range(&self, element: &'static str) -> TimeError {
        TimeError::OutOfRange {
            text: self.text.to_owned(),
            element,
        }
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), TimeError> {
        self.rest = self
            .rest
            .strip_prefix(literal)
            .ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    /// A number of `min` to `max` digits, as many as there are.
    fn digits(&mut self, min: usize, max: usize, element: &'static str) -> Result<i16, TimeError> {
        let count = self
            .rest
            .bytes()
            .take(max)
            .take_while(u8::is_ascii_digit)
            .count();
        if count < min {
            return Err(self.mismatch(element));
        }
        let (number, rest) = self.rest.split_at(count);
        let number = number.parse().map_err(|_| self.mismatch(element))?;
        self.rest = rest;
        Ok(number)
    }

    fn time(mut self, fraction: Fraction) -> Result<Timestamp, TimeError> {
        let year = self.digits(4, 4, "2006")?;
        self.literal("-")?;
        let month = self.digits(2, 2, "01")?;
        if !(1..=12).contains(&month) {
            return Err(self.out_of_range("month"));
        }
        self.literal("-")?;
        let day = self.digits(2, 2, "02")?;
        self.literal("T")?;
        // Go takes an hour of one digit, too.
        let hour = self.digits(1, 2, "15")?;
        if hour > 23 {
            return Err(self.out_of_range("hour"));
        }
        self.literal(":")?;
        let minute = self.digits(2, 2, "04")?;
        if minute > 59 {
            return Err(self.out_of_range("minute"));
        }
        self.literal(":")?;
        let second = self.digits(2, 2, "05")?;
        if second > 59 {
            return Err(self.out_of_range("second"));
        }
        let nanos = match fraction {
            Fraction::Optional => self.optional_fraction(),
            Fraction::Micros => self.micros()?,
        };
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(TimeError::Extra {
                text: self.text.to_owned(),
                rest: self.rest.to_owned(),
            });
        }
        // The ranges were checked above, so the narrowing keeps the values.
        let narrow = |n: i16| i8::try_from(n).unwrap_or_default();
        let date =
            Date::new(year, narrow(month), narrow(day)).map_err(|_| self.out_of_range("day"))?;
        let local = date.at(narrow(hour), narrow(minute), narrow(second), nanos);
        let utc = Offset::UTC
            .to_timestamp(local)
            .map_err(|_| self.out_of_range("year"))?;
        utc.checked_sub(offset)
            .map_err(|_| self.out_of_range("year"))
    }

    /// A dot or comma and any number of digits.
    fn optional_fraction(&mut self) -> i32 {
        let Some(after) = self.rest.strip_prefix(['.', ',']) else {
            return 0;
        };
        let count = after.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return 0;
        }
        let (digits, rest) = after.split_at(count);
        self.rest = rest;
        nanoseconds(digits)
    }

    fn micros(&mut self) -> Result<i32, TimeError> {
        let digits = self.rest.strip_prefix(['.', ',']).and_then(|r| r.get(..6));
        match digits {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                self.rest = &self.rest[7..];
                Ok(nanoseconds(digits))
            }
            _ => Err(self.mismatch(".000000")),
        }
    }

    /// `Z`, or a sign, hours and minutes.
    fn offset(&mut self) -> Result<SignedDuration, TimeError> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(SignedDuration::ZERO);
        }
        let bytes = self.rest.as_bytes();
        let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2, ..] = bytes else {
            return Err(self.mismatch(ELEMENT));
        };
        let number = |a: &u8, b: &u8| {
            let both = a.is_ascii_digit() && b.is_ascii_digit();
            both.then(|| i64::from(a - b'0') * 10 + i64::from(b - b'0'))
        };
        let (Some(hours), Some(minutes)) = (number(h1, h2), number(m1, m2)) else {
            return Err(self.mismatch(ELEMENT));
        };
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        let seconds = hours * 3600 + minutes * 60;
        let seconds = if *sign == b'-' { -seconds } else { seconds };
        self.rest = &self.rest[6..];
        Ok(SignedDuration::from_secs(seconds))
    }
}

/// The first nine digits of a fraction; the rest is beyond what a time holds.
fn nanoseconds(digits: &str) -> i32 {
    let mut nanos = 0;
    for i in 0..9 {
        let digit = digits.as_bytes().get(i).map_or(0, |b| i32::from(b - b'0'));
        nanos = nanos * 10 + digit;
    }
    nanos
}
