//! The syntax of cron schedules and its error texts, as `robfig/cron` reads the standard form.

/// Smallest and largest value of a field, and names for its values.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Bounds; 5] = [
    Bounds {
        min: 0,
        max: 59,
        names: &[],
    },
    Bounds {
        min: 0,
        max: 23,
        names: &[],
    },
    Bounds {
        min: 1,
        max: 31,
        names: &[],
    },
    Bounds {
        min: 1,
        max: 12,
        names: MONTHS,
    },
    Bounds {
        min: 0,
        max: 6,
        names: DAYS,
    },
];

/// Checks a schedule; the error is the text a client sees.
pub(crate) fn check(schedule: &str) -> Result<(), String> {
    let mut schedule = schedule;
    if let Some(rest) = schedule
        .strip_prefix("CRON_TZ=")
        .or_else(|| schedule.strip_prefix("TZ="))
    {
        // The zone itself is refused by the caller, so only the rest matters.
        schedule = rest
            .split_once(' ')
            .map(|(_, rest)| rest.trim())
            .unwrap_or_default();
    }
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    if let Some(descriptor) = schedule.strip_prefix('@') {
        return check_descriptor(schedule, descriptor);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_descriptor(schedule: &str, descriptor: &str) -> Result<(), String> {
    match descriptor {
        "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly" => Ok(()),
        _ => match descriptor.strip_prefix("every ") {
            Some(duration) if is_duration(duration) => Ok(()),
            Some(duration) => Err(format!(
                "failed to parse duration {schedule}: time: invalid duration {}",
                machinery::json::go_quote(duration)
            )),
            None => Err(format!("unrecognized descriptor: {schedule}")),
        },
    }
}

/// Go durations: numbers with units, such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - digits.len()];
        if !number.bytes().any(|c| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let unit = ["ns", "us", "µs", "μs", "ms", "h", "m", "s"]
            .into_iter()
            .filter(|unit| digits.starts_with(unit))
            .max_by_key(|unit| unit.len());
        match unit {
            Some(unit) => rest = &digits[unit.len()..],
            None => return false,
        }
    }
    true
}

fn check_range(expression: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = expression.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = if ends[0] == "*" || ends[0] == "?" {
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(ends[0], bounds.names)?;
        match ends.as_slice() {
            [_] => (start, start),
            [_, end] => (start, number_or_name(end, bounds.names)?),
            _ => return Err(format!("too many hyphens: {expression}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        Err(format!(
            "beginning of range ({start}) below minimum ({min}): {expression}"
        ))
    } else if end > *max {
        Err(format!(
            "end of range ({end}) above maximum ({max}): {expression}"
        ))
    } else if start > end {
        Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {expression}"
        ))
    } else if step == 0 {
        Err(format!(
            "step of range should be a positive number: {expression}"
        ))
    } else {
        Ok(())
    }
}

fn number_or_name(text: &str, names: &[&str]) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match names.iter().position(|name| *name == lower) {
        // Months count from one, days from zero.
        Some(index) => Ok(index as u64 + u64::from(names.len() == MONTHS.len())),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fail = |why: &str| {
        Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {}: {why}",
            machinery::json::go_quote(text)
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
