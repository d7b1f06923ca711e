//! Windows follow local clocks, overlap, cross midnight, and close.

use api::advisor::MaintenanceWindow;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rstest::rstest;

use super::{State, Windows};

fn window(schedule: &str, duration: &str, zone: Option<&str>) -> MaintenanceWindow {
    MaintenanceWindow {
        schedule: schedule.to_owned(),
        duration: duration.to_owned(),
        time_zone: zone.map(str::to_owned),
    }
}

fn windows(all: &[(&str, &str, &str)]) -> Windows {
    let all: Vec<_> = all
        .iter()
        .map(|(schedule, duration, zone)| window(schedule, duration, Some(zone)))
        .collect();
    Windows::parse(&all).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn shown(state: State) -> String {
    let time =
        |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
    match state {
        State::Unrestricted => "unrestricted".to_owned(),
        State::Open { until } => format!("open until {}", time(until)),
        State::Closed { next } => format!("closed until {}", time(next)),
    }
}

#[test]
fn without_windows_items_may_always_start() {
    let none = Windows::parse(&[]).unwrap();
    assert_eq!(none.state(at("2026-07-01T12:00:00Z")), State::Unrestricted);
    assert!(none.state(at("2026-07-01T12:00:00Z")).may_start());
}

#[test]
fn time_zone_defaults_to_utc() {
    let daily = Windows::parse(&[window("0 2 * * *", "1h", None)]).unwrap();
    assert_eq!(
        shown(daily.state(at("2026-07-01T02:30:00Z"))),
        "open until 2026-07-01T03:00:00Z"
    );
}

#[rstest]
#[case::before(
    "0 2 * * *",
    "2h",
    "UTC",
    "2026-07-01T01:59:59Z",
    "closed until 2026-07-01T02:00:00Z"
)]
#[case::as_it_opens(
    "0 2 * * *",
    "2h",
    "UTC",
    "2026-07-01T02:00:00Z",
    "open until 2026-07-01T04:00:00Z"
)]
#[case::in_its_last_moment(
    "0 2 * * *",
    "2h",
    "UTC",
    "2026-07-01T03:59:59.999Z",
    "open until 2026-07-01T04:00:00Z"
)]
#[case::as_it_closes(
    "0 2 * * *",
    "2h",
    "UTC",
    "2026-07-01T04:00:00Z",
    "closed until 2026-07-02T02:00:00Z"
)]
#[case::across_midnight(
    "0 22 * * 6",
    "6h",
    "UTC",
    "2026-07-05T03:00:00Z",
    "open until 2026-07-05T04:00:00Z"
)]
#[case::by_clocks_of_a_zone_in_summer(
    "0 2 * * *",
    "1h",
    "Europe/Rome",
    "2026-07-01T00:30:00Z",
    "open until 2026-07-01T01:00:00Z"
)]
#[case::by_clocks_of_a_zone_in_winter(
    "0 2 * * *",
    "1h",
    "Europe/Rome",
    "2026-01-01T00:30:00Z",
    "closed until 2026-01-01T01:00:00Z"
)]
#[case::the_day_of_the_zone(
    "0 2 * * 6",
    "1h",
    "Pacific/Auckland",
    "2026-07-03T13:00:00Z",
    "closed until 2026-07-03T14:00:00Z"
)]
#[case::not_in_the_hour_that_is_left_out(
    "30 2 * * *",
    "1h",
    "Europe/Rome",
    "2026-03-29T00:45:00Z",
    "closed until 2026-03-30T00:30:00Z"
)]
#[case::through_the_hour_that_is_left_out(
    "0 1 * * *",
    "3h",
    "Europe/Rome",
    "2026-03-29T01:30:00Z",
    "open until 2026-03-29T03:00:00Z"
)]
#[case::twice_in_the_hour_that_comes_twice(
    "30 2 * * *",
    "10m",
    "Europe/Rome",
    "2026-10-25T00:40:00Z",
    "closed until 2026-10-25T01:30:00Z"
)]
#[case::longer_than_its_period(
    "0 0 * * 1,3",
    "60h",
    "UTC",
    "2026-07-06T12:00:00Z",
    "open until 2026-07-10T12:00:00Z"
)]
#[case::never_closing("* * * * *", "2m", "UTC", "2026-07-06T12:00:00Z", "open until -")]
#[case::never_opening("0 0 30 2 *", "2h", "UTC", "2026-07-06T12:00:00Z", "closed until -")]
#[case::longer_than_time("@yearly", "2562047h", "UTC", "2026-07-06T12:00:00Z", "open until -")]
fn a_window_opens_and_closes(
    #[case] schedule: &str,
    #[case] duration: &str,
    #[case] zone: &str,
    #[case] now: &str,
    #[case] expected: &str,
) {
    let state = windows(&[(schedule, duration, zone)]).state(at(now));
    assert_eq!(shown(state), expected);
}

#[test]
fn overlapping_windows_are_merged() {
    let all = windows(&[
        ("0 1 * * *", "2h", "UTC"),
        ("30 2 * * *", "1h", "UTC"),
        ("30 3 * * *", "30m", "UTC"),
        ("0 6 * * *", "1h", "UTC"),
    ]);
    assert_eq!(
        shown(all.state(at("2026-07-01T01:10:00Z"))),
        "open until 2026-07-01T04:00:00Z"
    );
    assert_eq!(
        shown(all.state(at("2026-07-01T04:00:00Z"))),
        "closed until 2026-07-01T06:00:00Z"
    );
}

#[rstest]
#[case(
    "0 2 * *",
    "1h",
    None,
    "spec.maintenanceWindows[1].schedule: \"0 2 * *\""
)]
#[case(
    "TZ=UTC 0 2 * * *",
    "1h",
    None,
    "spec.maintenanceWindows[1].schedule: \"TZ=UTC 0 2 * * *\" names a time zone"
)]
#[case("@every 1h", "1h", None, "names no time of day; accepted are cron")]
#[case(
    "0 2 * * *",
    "1 hour",
    None,
    "spec.maintenanceWindows[1].duration: \"1 hour\""
)]
#[case(
    "0 2 * * *",
    "-1h",
    None,
    "spec.maintenanceWindows[1].duration: \"-1h\""
)]
#[case("0 2 * * *", "0s", None, "spec.maintenanceWindows[1].duration: \"0s\"")]
#[case(
    "0 2 * * *",
    "1h",
    Some("Rome"),
    "spec.maintenanceWindows[1].timeZone: \"Rome\" is no time zone; accepted are IANA names"
)]
fn invalid_window_is_rejected_with_its_field(
    #[case] schedule: &str,
    #[case] duration: &str,
    #[case] zone: Option<&str>,
    #[case] expected: &str,
) {
    let fine = window("0 2 * * *", "1h", None);
    let refused = Windows::parse(&[fine, window(schedule, duration, zone)]).unwrap_err();
    assert!(refused.contains(expected), "{refused}");
}

fn any_window() -> impl Strategy<Value = MaintenanceWindow> {
    let schedule = prop_oneof![
        (0..60, 0..24).prop_map(|(minute, hour)| format!("{minute} {hour} * * *")),
        (0..24, 0..7).prop_map(|(hour, day)| format!("0 {hour} * * {day}")),
        (1..30).prop_map(|step| format!("*/{step} 3-5 * * *")),
    ];
    let zone = prop::sample::select(vec![
        None,
        Some("Europe/Rome"),
        Some("America/St_Johns"),
        Some("Pacific/Chatham"),
    ]);
    (schedule, prop_oneof![1_i64..600, 1_i64..3000], zone)
        .prop_map(|(schedule, minutes, zone)| window(&schedule, &format!("{minutes}m"), zone))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A predicted transition happens at its time, and none happens earlier.
    #[test]
    fn predicted_transitions_happen(
        all in prop::collection::vec(any_window(), 1..4),
        second in 1_780_000_000_i64..1_830_000_000,
    ) {
        let all = Windows::parse(&all).unwrap();
        let now = Timestamp::from_second(second).unwrap();
        let state = all.state(now);
        let then = match state {
            State::Unrestricted => return Err(TestCaseError::fail("there are windows")),
            State::Open { until } => until,
            State::Closed { next } => Some(next.unwrap()),
        };
        let end = then.unwrap_or(now + SignedDuration::from_hours(24 * 7));
        let step = SignedDuration::from_secs((end.as_second() - second) / 25 + 1);
        let mut between = now;
        while between < end {
            prop_assert_eq!(all.end(between).is_some(), state.may_start(), "at {}", between);
            between += step;
        }
        prop_assert_eq!(all.end(end - SignedDuration::from_secs(1)).is_some(), state.may_start());
        if let Some(then) = then {
            prop_assert_ne!(all.end(then).is_some(), state.may_start());
        }
    }
}
