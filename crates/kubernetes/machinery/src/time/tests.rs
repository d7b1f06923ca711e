use jiff::SignedDuration;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn time(text: &str) -> Timestamp {
    parse_time(text).unwrap()
}

#[rstest]
#[case("2026-11-15T20:11:32Z", "2026-11-15T20:11:32Z")]
#[case("2026-11-15T20:11:32.999Z", "2026-11-15T20:11:32Z")]
#[case("2026-11-15T20:11:32+02:00", "2026-11-15T18:11:32Z")]
#[case("2026-11-15T20:11:32-00:30", "2026-11-15T20:41:32Z")]
#[case("1960-01-01T00:00:00.5Z", "1960-01-01T00:00:00Z")]
#[case("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z")]
fn times_are_read_and_written_in_utc_seconds(#[case] input: &str, #[case] output: &str) {
    assert_eq!(format_time(time(input)), output);
}

#[rstest]
#[case(
    "",
    "parsing time \"\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"2006\""
)]
#[case(
    "2026-11-15",
    "parsing time \"2026-11-15\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\""
)]
#[case(
    "2026/11",
    "parsing time \"2026/11\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"/11\" as \"-\""
)]
#[case(
    "2026-13-01T00:00:00Z",
    "parsing time \"2026-13-01T00:00:00Z\": month out of range"
)]
#[case(
    "2026-02-30T00:00:00Z",
    "parsing time \"2026-02-30T00:00:00Z\": day out of range"
)]
#[case(
    "2026-02-01T24:00:00Z",
    "parsing time \"2026-02-01T24:00:00Z\": hour out of range"
)]
#[case(
    "2026-02-01T00:00:00",
    "parsing time \"2026-02-01T00:00:00\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\""
)]
#[case(
    "2026-02-01T00:00:00Zx",
    "parsing time \"2026-02-01T00:00:00Zx\": extra text: \"x\""
)]
fn time_errors_are_gos(#[case] input: &str, #[case] message: &str) {
    assert_eq!(parse_time(input).unwrap_err().to_string(), message);
}

#[rstest]
#[case("0", 0, "0s")]
#[case("1ns", 1, "1ns")]
#[case("1.1us", 1_100, "1.1µs")]
#[case("2200us", 2_200_000, "2.2ms")]
#[case("3300ms", 3_300_000_000, "3.3s")]
#[case("1h", 3_600_000_000_000, "1h0m0s")]
#[case("-1.5h", -5_400_000_000_000, "-1h30m0s")]
#[case("4m5.001s", 245_001_000_000, "4m5.001s")]
#[case("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s")]
#[case(".5s", 500_000_000, "500ms")]
#[case("9223372036854775807ns", i64::MAX, "2562047h47m16.854775807s")]
#[case("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s")]
fn durations_are_gos(#[case] input: &str, #[case] nanos: i64, #[case] output: &str) {
    let duration = parse_duration(input).unwrap();
    assert_eq!(duration, SignedDuration::from_nanos(nanos));
    assert_eq!(format_duration(duration), output);
}

#[rstest]
#[case("", "time: invalid duration \"\"")]
#[case("-", "time: invalid duration \"-\"")]
#[case("3", "time: missing unit in duration \"3\"")]
#[case("3x", "time: unknown unit \"x\" in duration \"3x\"")]
#[case(".s", "time: invalid duration \".s\"")]
#[case(
    "9223372036854775808ns",
    "time: invalid duration \"9223372036854775808ns\""
)]
#[case("3000000h", "time: invalid duration \"3000000h\"")]
fn bad_durations(#[case] input: &str, #[case] message: &str) {
    assert_eq!(parse_duration(input).unwrap_err().to_string(), message);
}

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86400;

#[rstest]
#[case(-2, "<invalid>")]
#[case(-1, "0s")]
#[case(0, "0s")]
#[case(119, "119s")]
#[case(2 * MINUTE, "2m")]
#[case(9 * MINUTE + 59, "9m59s")]
#[case(10 * MINUTE + 59, "10m")]
#[case(3 * HOUR - 1, "179m")]
#[case(3 * HOUR, "3h")]
#[case(3 * HOUR + MINUTE, "3h1m")]
#[case(8 * HOUR + MINUTE, "8h")]
#[case(2 * DAY - 1, "47h")]
#[case(2 * DAY, "2d")]
#[case(7 * DAY + 23 * HOUR, "7d23h")]
#[case(8 * DAY + 23 * HOUR, "8d")]
#[case(2 * 365 * DAY - 1, "729d")]
#[case(2 * 365 * DAY, "2y")]
#[case(2 * 365 * DAY + DAY, "2y1d")]
#[case(8 * 365 * DAY - 1, "7y364d")]
#[case(8 * 365 * DAY + 30 * DAY, "8y")]
fn ages_for_people(#[case] seconds: i64, #[case] text: &str) {
    assert_eq!(human_duration(SignedDuration::from_secs(seconds)), text);
}

#[test]
fn age_cells() {
    let now = time("2026-11-15T20:00:00Z");
    assert_eq!(age(Some("2026-11-15T19:55:50Z"), now), "4m10s");
    assert_eq!(age(None, now), "<unknown>");
    assert_eq!(age(Some(""), now), "<unknown>");
    assert_eq!(age(Some("0001-01-01T00:00:00Z"), now), "<unknown>");
    assert_eq!(age(Some("soon"), now), "<invalid>");
    assert_eq!(age(Some("2026-11-15T20:01:00Z"), now), "<invalid>");
}

proptest! {
    #[test]
    fn durations_survive_a_round_trip(nanos in any::<i64>()) {
        let duration = SignedDuration::from_nanos(nanos);
        prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
    }

    #[test]
    fn times_survive_a_round_trip(micros in -62_000_000_000_000_000_i64..250_000_000_000_000_000) {
        let moment = Timestamp::from_microsecond(micros).unwrap();
        let text = format_time(moment);
        prop_assert_eq!(format_time(parse_time(&text).unwrap()), text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9TZ:.+\\-hmsnu ]{0,30}|.*") {
        let _ = (parse_time(&text), parse_duration(&text));
    }
}
