//! One field of a schedule.

use crate::json::go_quote;

/// Smallest and largest value of a field, and names for its values, the smallest first.
pub(super) struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

impl Bounds {
    const fn new(min: u64, max: u64, names: &'static [&'static str]) -> Self {
        Self { min, max, names }
    }
}

pub(super) const MINUTES: Bounds = Bounds::new(0, 59, &[]);
pub(super) const HOURS: Bounds = Bounds::new(0, 23, &[]);
pub(super) const DAYS: Bounds = Bounds::new(1, 31, &[]);
pub(super) const MONTHS: Bounds = Bounds::new(1, 12, &MONTH_NAMES);
/// Sunday is 0 only: 7 is an error, unlike in Vixie cron.
pub(super) const WEEKDAYS: Bounds = Bounds::new(0, 6, &WEEKDAY_NAMES);

const MONTH_NAMES: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAY_NAMES: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The values that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Field {
    /// A bit for each value; none is above 59.
    values: u64,
    any: bool,
}

impl Field {
    /// Reads a list of ranges.
    pub(super) fn parse(text: &str, bounds: &Bounds) -> Result<Self, String> {
        let mut field = Self::default();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let range = parse_range(range, bounds)?;
            field.values |= range.values;
            field.any |= range.any;
        }
        Ok(field)
    }

    /// Whether a value matches.
    pub(super) fn has(self, value: i8) -> bool {
        u32::try_from(value)
            .ok()
            .and_then(|value| 1_u64.checked_shl(value))
            .is_some_and(|bit| self.values & bit != 0)
    }

    /// Whether the field restricts nothing: a star, or a question mark, without steps.
    pub(super) fn is_any(self) -> bool {
        self.any
    }
}

fn parse_range(expression: &str, bounds: &Bounds) -> Result<Field, String> {
    let parts: Vec<&str> = expression.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let star = matches!(ends[0], "*" | "?");
    let (start, mut end) = if star {
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(ends[0], bounds)?;
        match ends.as_slice() {
            [_] => (start, start),
            [_, end] => (start, number_or_name(end, bounds)?),
            _ => return Err(format!("too many hyphens: {expression}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // From one value on, if there is a step.
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!(
            "beginning of range ({start}) below minimum ({min}): {expression}"
        ));
    }
    if end > *max {
        return Err(format!(
            "end of range ({end}) above maximum ({max}): {expression}"
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {expression}"
        ));
    }
    let stride = usize::try_from(step).unwrap_or(usize::MAX);
    if stride == 0 {
        return Err(format!(
            "step of range should be a positive number: {expression}"
        ));
    }
    let values = (start..=end)
        .step_by(stride)
        .fold(0, |bits, value| bits | 1 << value);
    Ok(Field {
        values,
        // `*/2` is no star for the rule about days: robfig/cron drops the star bit when a step is given, so `*/2` in
        // both day fields means "either".
        any: star && stride == 1,
    })
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(index) => Ok(bounds.min + index as u64),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fail = |why: &str| {
        Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {}: {why}",
            go_quote(text)
        ))
    };
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return fail("invalid syntax");
    }
    match text.parse::<i64>() {
        Err(_) => fail("value out of range"),
        Ok(number) => u64::try_from(number)
            .map_err(|_| format!("negative number ({number}) not allowed: {text}")),
    }
}
