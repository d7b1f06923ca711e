//! Maintenance windows: when items of high impact may start.
//!
//! Only the start is restricted. A started item continues when its window closes: a rollout stopped halfway leaves
//! nodes with different configurations, which is worse than one that ends late.
//!
//! Windows follow the clock of their time zone. When clocks are set forward, a window that would open in the skipped
//! hour does not open on that day; when they are set back, one that opens in the repeated hour opens twice. A window
//! stays open for its duration in elapsed time.

#[cfg(test)]
mod tests;

use api::advisor::MaintenanceWindow;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use machinery::cron::Schedule;
use machinery::json::go_quote;

use crate::timeout::positive;

/// Maximum number of overlapping windows followed to find the time when the last one closes.
///
/// Beyond it the end is unknown; whether a window is open does not depend on it.
const MAX_OVERLAPPING_WINDOWS: usize = 100;

/// The maintenance windows of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    windows: Vec<Window>,
}

#[derive(Debug, Clone)]
struct Window {
    schedule: Schedule,
    duration: SignedDuration,
    zone: TimeZone,
}

/// Whether disruptive items may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// There are no windows: at any time.
    Unrestricted,
    /// A window is open.
    Open {
        /// When it closes; absent if windows overlap beyond the search limit.
        until: Option<Timestamp>,
    },
    /// No window is open.
    Closed {
        /// When the next window opens; absent if none opens for years.
        next: Option<Timestamp>,
    },
}

impl State {
    /// Both: an item starts only while both allow it. The next opening is the later one, as the earliest time to
    /// requeue: whether the other is open then is decided then.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unrestricted, one) | (one, Self::Unrestricted) => one,
            (Self::Open { until: a }, Self::Open { until: b }) => Self::Open {
                until: match (a, b) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (one, None) | (None, one) => one,
                },
            },
            (Self::Closed { next: a }, Self::Closed { next: b }) => Self::Closed {
                next: a.zip(b).map(|(a, b)| a.max(b)),
            },
            (Self::Closed { next }, Self::Open { .. })
            | (Self::Open { .. }, Self::Closed { next }) => Self::Closed { next },
        }
    }

    /// Whether a disruptive item may start now.
    #[cfg(test)]
    pub(crate) fn may_start(self) -> bool {
        !matches!(self, Self::Closed { .. })
    }
}

impl Windows {
    /// Reads `spec.maintenanceWindows`.
    pub fn parse(windows: &[MaintenanceWindow]) -> Result<Self, String> {
        let windows = windows
            .iter()
            .enumerate()
            .map(|(index, window)| {
                Window::parse(&format!("spec.maintenanceWindows[{index}]"), window)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { windows })
    }

    /// Whether disruptive items may start now, and when that changes.
    pub fn state(&self, now: Timestamp) -> State {
        if self.windows.is_empty() {
            return State::Unrestricted;
        }
        match self.end(now) {
            Some(_) => State::Open {
                until: self.closes(now),
            },
            None => State::Closed {
                next: self
                    .windows
                    .iter()
                    .filter_map(|window| window.schedule.next(now, &window.zone))
                    .min(),
            },
        }
    }

    /// The latest end of the windows that are open at a time.
    fn end(&self, at: Timestamp) -> Option<Timestamp> {
        self.windows
            .iter()
            .filter_map(|window| Some(later(window.opened(at)?, window.duration)))
            .max()
    }

    /// The first time at which no window is open: another window may be open already when one ends.
    fn closes(&self, now: Timestamp) -> Option<Timestamp> {
        let mut at = now;
        for _ in 0..MAX_OVERLAPPING_WINDOWS {
            match self.end(at) {
                None => return Some(at),
                Some(end) if end == Timestamp::MAX => return None,
                Some(end) => at = end,
            }
        }
        None
    }
}

impl Window {
    fn parse(field: &str, window: &MaintenanceWindow) -> Result<Self, String> {
        let accepted = "accepted are cron schedules of five fields such as \"0 2 * * 6\" (Saturdays at 2:00), and @daily, @weekly, @monthly";
        let quoted = go_quote(&window.schedule);
        let schedule = Schedule::parse(&window.schedule).map_err(|why| {
            format!("{field}.schedule: {quoted} is no schedule ({why}); {accepted}")
        })?;
        if schedule.zone().is_some() {
            return Err(format!(
                "{field}.schedule: {quoted} names a time zone; name it in {field}.timeZone instead"
            ));
        }
        // `@every` is relative to the time of evaluation, so it has no fixed opening time.
        if window.schedule.trim_start().starts_with("@every") {
            return Err(format!(
                "{field}.schedule: {quoted} names no time of day; {accepted}"
            ));
        }
        let duration = positive(&format!("{field}.duration"), &window.duration)?;
        let zone = match window.time_zone.as_deref() {
            None | Some("") => TimeZone::UTC,
            // The bundled time zone database: that of the host may be missing or outdated.
            Some(name) => TimeZoneDatabase::bundled().get(name).map_err(|_| {
                format!(
                    "{field}.timeZone: {} is no time zone; accepted are IANA names such as Europe/Rome or UTC",
                    go_quote(name)
                )
            })?,
        };
        Ok(Self {
            schedule,
            duration,
            zone,
        })
    }

    /// When it last opened, if it is still open at that time.
    fn opened(&self, at: Timestamp) -> Option<Timestamp> {
        let opens = |after: Timestamp| {
            self.schedule
                .next(after, &self.zone)
                .filter(|opening| *opening <= at)
        };
        let mut early = at.checked_sub(self.duration).unwrap_or(Timestamp::MIN);
        let mut last = opens(early)?;
        // There is an opening after `early` and none after `late`: bisect. A window may open many times while it is
        // open.
        let mut late = at;
        while late.as_second() - early.as_second() > 1 {
            let middle = early.as_second() + (late.as_second() - early.as_second()) / 2;
            let Ok(middle) = Timestamp::from_second(middle) else {
                break;
            };
            match opens(middle) {
                Some(opening) => (early, last) = (middle, opening),
                None => late = middle,
            }
        }
        Some(last)
    }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
