use jiff::Timestamp;
use jiff::tz::TimeZone;
use rstest::rstest;

use super::Schedule;

fn next(schedule: &str, after: &str, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap();
    let after: Timestamp = after.parse().unwrap();
    let next = Schedule::parse(schedule).unwrap().next(after, &zone);
    next.map_or_else(|| "never".to_owned(), |time| time.to_string())
}

/// The cases of `robfig/cron`'s own tests, where they are about the standard form, and some more.
#[rstest]
#[case("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z")]
#[case("0/15 * * * *", "2012-07-09T14:59:59Z", "2012-07-09T15:00:00Z")]
#[case("20-35/15 * * * *", "2012-07-09T15:45:00Z", "2012-07-09T16:20:00Z")]
#[case("0 0 9 apr-oct ?", "2012-07-09T23:46:00Z", "2012-08-09T00:00:00Z")]
#[case(
    "0 0 */5 apr,aug,oct mon",
    "2012-07-09T23:35:00Z",
    "2012-08-01T00:00:00Z"
)]
#[case("0 0 * feb mon/7", "2012-07-09T23:35:00Z", "2013-02-04T00:00:00Z")]
#[case("0 0 29 feb ?", "2012-07-09T23:35:00Z", "2016-02-29T00:00:00Z")]
#[case("0 0 30 feb ?", "2012-07-09T23:35:00Z", "never")]
#[case("30 4 1,15 * 5", "2012-07-02T00:00:00Z", "2012-07-06T04:30:00Z")]
#[case("*/5 * * * *", "2012-07-09T15:00:00Z", "2012-07-09T15:05:00Z")]
#[case("*/5 * * * *", "2012-07-09T14:59:59.5Z", "2012-07-09T15:00:00Z")]
#[case("@hourly", "2012-07-09T15:30:00Z", "2012-07-09T16:00:00Z")]
#[case("@daily", "2012-07-09T15:30:00Z", "2012-07-10T00:00:00Z")]
#[case("@weekly", "2012-07-09T15:30:00Z", "2012-07-15T00:00:00Z")]
#[case("@monthly", "2012-07-09T15:30:00Z", "2012-08-01T00:00:00Z")]
#[case("@yearly", "2012-07-09T15:30:00Z", "2013-01-01T00:00:00Z")]
#[case("@every 1h30m", "2012-07-09T15:30:00.7Z", "2012-07-09T17:00:00Z")]
#[case("@every 5ms", "2012-07-09T15:30:00Z", "2012-07-09T15:30:01Z")]
fn finds_the_next_time(#[case] schedule: &str, #[case] after: &str, #[case] expected: &str) {
    assert_eq!(next(schedule, after, "UTC"), expected);
}

/// New York: clocks go from 02:00 to 03:00 on 11 March 2012, and back on 4 November.
#[rstest]
#[case::left_out("30 2 * * *", "2012-03-11T00:00:00-05:00", "2012-03-12T02:30:00-04:00")]
#[case::the_hour_after("0 3 * * *", "2012-03-11T00:00:00-05:00", "2012-03-11T03:00:00-04:00")]
#[case::once("30 1 * * *", "2012-11-04T00:00:00-04:00", "2012-11-04T01:30:00-04:00")]
#[case::and_again("30 1 * * *", "2012-11-04T01:30:00-04:00", "2012-11-04T01:30:00-05:00")]
#[case::midnight("0 0 * * *", "2012-11-04T00:00:00-04:00", "2012-11-05T00:00:00-05:00")]
fn goes_by_the_clocks_of_the_zone(
    #[case] schedule: &str,
    #[case] after: &str,
    #[case] expected: &str,
) {
    let expected: Timestamp = expected.parse().unwrap();
    assert_eq!(
        next(schedule, after, "America/New_York"),
        expected.to_string()
    );
}

#[rstest]
#[case("", "empty spec string")]
#[case("* * * *", "expected exactly 5 fields, found 4: [* * * *]")]
#[case("60 * * * *", "end of range (60) above maximum (59): 60")]
#[case("* * 0 * *", "beginning of range (0) below minimum (1): 0")]
#[case("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3")]
#[case("*/0 * * * *", "step of range should be a positive number: */0")]
#[case(
    "x * * * *",
    "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"
)]
#[case("* * * * 7", "end of range (7) above maximum (6): 7")]
#[case("@often", "unrecognized descriptor: @often")]
#[case(
    "@every soon",
    "failed to parse duration @every soon: time: invalid duration \"soon\""
)]
fn invalid_schedules_are_rejected(#[case] schedule: &str, #[case] expected: &str) {
    assert_eq!(Schedule::parse(schedule), Err(expected.to_owned()));
}

#[test]
fn a_schedule_may_name_its_zone() {
    let schedule = Schedule::parse("TZ=Europe/Vienna 0 5 * * *").unwrap();
    assert_eq!(schedule.zone(), Some("Europe/Vienna"));
}
