//! Cron schedules as `robfig/cron` v3 parses and evaluates them, which Kubernetes and CDI use: five fields,
//! macros such as `@daily`, and `@every 90m`. The error texts are part of the API: validation of a CronJob
//! returns them. `docs/design/cron.md` compares this with the croner crate.

mod field;
#[cfg(test)]
mod tests;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp, Zoned};

use crate::time::parse_duration;
use field::Field;

/// A schedule without a time in this many years never fires (`SpecSchedule.Next` in robfig/cron). Longer
/// gaps exist only around years like 2100, which is no leap year.
const SEARCH_YEARS: i16 = 5;

/// A parsed schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    zone: Option<String>,
    when: When,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum When {
    /// At the minutes that match the fields.
    At(Box<Fields>),
    /// `@every`: this long after the given time, not at multiples of it.
    Every(SignedDuration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fields {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Schedule {
    /// Reads a schedule.
    pub fn parse(text: &str) -> Result<Self, String> {
        // robfig/cron accepts both prefixes; CronJob validation rejects them in favour of
        // `spec.timeZone`, but CDI's DataImportCron does not.
        let zoned = text
            .strip_prefix("CRON_TZ=")
            .or_else(|| text.strip_prefix("TZ="));
        let (zone, rest) = match zoned {
            Some(zoned) => {
                let (zone, rest) = zoned.split_once(' ').unwrap_or((zoned, ""));
                (Some(zone.to_owned()), rest.trim())
            }
            None => (None, text),
        };
        if rest.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let when = match rest.strip_prefix('@') {
            Some(descriptor) => described(rest, descriptor)?,
            None => When::At(Box::new(Fields::parse(rest)?)),
        };
        Ok(Self { zone, when })
    }

    /// The time zone that the schedule itself names (`TZ=Europe/Vienna ...`).
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The first time after `after` by the wall clock of a time zone; `None` if the schedule never fires.
    ///
    /// Daylight saving time follows robfig/cron: a time that the clock skips does not fire that day, and
    /// one that occurs twice fires twice.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.when {
            When::Every(wait) => {
                let second = Timestamp::from_second(after.as_second()).ok()?;
                second.checked_add(*wait).ok()
            }
            When::At(fields) => fields.next(after, zone),
        }
    }
}

fn described(text: &str, descriptor: &str) -> Result<When, String> {
    let fields = match descriptor {
        "yearly" | "annually" => "0 0 1 1 *",
        "monthly" => "0 0 1 * *",
        "weekly" => "0 0 * * 0",
        "daily" | "midnight" => "0 0 * * *",
        "hourly" => "0 * * * *",
        _ => {
            let Some(wait) = descriptor.strip_prefix("every ") else {
                return Err(format!("unrecognized descriptor: {text}"));
            };
            let wait = parse_duration(wait)
                .map_err(|why| format!("failed to parse duration {text}: {why}"))?;
            // Whole seconds, and at least one.
            let seconds = wait.as_secs().max(1);
            return Ok(When::Every(SignedDuration::from_secs(seconds)));
        }
    };
    Fields::parse(fields).map(|fields| When::At(Box::new(fields)))
}

impl Fields {
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(format!(
                "expected exactly 5 fields, found {}: [{}]",
                fields.len(),
                fields.join(" ")
            ));
        };
        Ok(Self {
            minute: Field::parse(minute, &field::MINUTES)?,
            hour: Field::parse(hour, &field::HOURS)?,
            day: Field::parse(day, &field::DAYS)?,
            month: Field::parse(month, &field::MONTHS)?,
            weekday: Field::parse(weekday, &field::WEEKDAYS)?,
        })
    }

    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let first = after.as_second().div_euclid(60).checked_add(1)?;
        let mut at = Timestamp::from_second(first.checked_mul(60)?)
            .ok()?
            .to_zoned(zone.clone());
        let last = at.year().checked_add(SEARCH_YEARS)?;
        while at.year() <= last {
            let later = if !self.month.has(at.month()) {
                start_of(&at, at.date().first_of_month(), Span::new().months(1))?
            } else if !self.is_day(&at) {
                start_of(&at, at.date(), Span::new().days(1))?
            } else if !self.hour.has(at.hour()) {
                let minutes = 60 - i64::from(at.minute());
                // Elapsed time, not wall clock time: adding a civil hour across a change of the clocks would skip or
                // repeat the hour in between.
                at.checked_add(SignedDuration::from_mins(minutes)).ok()?
            } else if !self.minute.has(at.minute()) {
                at.checked_add(SignedDuration::from_mins(1)).ok()?
            } else {
                return Some(at.timestamp());
            };
            at = later;
        }
        None
    }

    /// Day of the month and day of the week both have to match, unless both are restricted: then one
    /// is enough.
    fn is_day(&self, at: &Zoned) -> bool {
        let day = self.day.has(at.day());
        let weekday = self.weekday.has(at.weekday().to_sunday_zero_offset());
        if self.day.is_any() || self.weekday.is_any() {
            day && weekday
        } else {
            day || weekday
        }
    }
}

/// The start of a later day, or the next minute if the clocks leave nothing between.
fn start_of(at: &Zoned, date: Date, span: Span) -> Option<Zoned> {
    let start = date
        .checked_add(span)
        .ok()?
        .to_zoned(at.time_zone().clone())
        .ok()?;
    if start > *at {
        Some(start)
    } else {
        at.checked_add(SignedDuration::from_mins(1)).ok()
    }
}
