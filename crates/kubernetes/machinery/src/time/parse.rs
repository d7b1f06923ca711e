//! Go's `time.Parse` for the layout the API uses, with its error texts.

use std::ops::RangeInclusive;

use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

use crate::json::go_quote;

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

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
    Reader::new(text, SECONDS_LAYOUT).time()
}

/// Reads RFC 3339 with an optional fraction as a local time and its offset. Unlike a [`Timestamp`], they
/// also reach the first and last hours of the years 1 and 9999.
pub(crate) fn parse_rfc3339(text: &str) -> Result<(DateTime, SignedDuration), TimeError> {
    Reader::new(text, SECONDS_LAYOUT).local()
}

/// Reads `2006-01-02`.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let mut reader = Reader::new(text, "2006-01-02");
    let date = reader.year_month_day().ok()?;
    reader.date(date).ok().filter(|_| reader.rest.is_empty())
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, layout: &'static str) -> Self {
        Self {
            text,
            rest: text,
            layout,
        }
    }

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

    /// A number of one or two digits within a range.
    fn field(
        &mut self,
        min_digits: usize,
        element: &'static str,
        range: RangeInclusive<i8>,
        name: &'static str,
    ) -> Result<i8, TimeError> {
        let number = self.digits(min_digits, 2, element)?;
        i8::try_from(number)
            .ok()
            .filter(|n| range.contains(n))
            .ok_or_else(|| self.out_of_range(name))
    }

    fn year_month_day(&mut self) -> Result<(i16, i8, i8), TimeError> {
        let year = self.digits(4, 4, "2006")?;
        self.literal("-")?;
        let month = self.field(2, "01", 1..=12, "month")?;
        self.literal("-")?;
        // Go checks the day last, when all of the text has been read.
        let day = self.field(2, "02", 0..=99, "day")?;
        Ok((year, month, day))
    }

    fn date(&self, (year, month, day): (i16, i8, i8)) -> Result<Date, TimeError> {
        Date::new(year, month, day).map_err(|_| self.out_of_range("day"))
    }

    fn local(&mut self) -> Result<(DateTime, SignedDuration), TimeError> {
        let date = self.year_month_day()?;
        self.literal("T")?;
        // Go takes an hour of one digit, too.
        let hour = self.field(1, "15", 0..=23, "hour")?;
        self.literal(":")?;
        let minute = self.field(2, "04", 0..=59, "minute")?;
        self.literal(":")?;
        let second = self.field(2, "05", 0..=59, "second")?;
        let nanos = self.optional_fraction();
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(TimeError::Extra {
                text: self.text.to_owned(),
                rest: self.rest.to_owned(),
            });
        }
        Ok((self.date(date)?.at(hour, minute, second, nanos), offset))
    }

    fn time(mut self) -> Result<Timestamp, TimeError> {
        let (local, offset) = self.local()?;
        let utc = Offset::UTC.to_timestamp(local);
        utc.and_then(|utc| utc.checked_sub(offset))
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
        // Not 23, and not 59 below: `time.Parse` tests with `>` because such offsets are written (Go's
        // `time/format.go`).
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
