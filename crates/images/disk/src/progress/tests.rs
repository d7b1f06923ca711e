use super::*;

#[test]
fn rate_follows_changes() {
    let at = |millis| Duration::from_millis(millis);
    let mut meter = Meter::new(at(1_000), 0);
    assert!(!meter.tick(at(1_100), 100));
    assert_eq!(meter.eta(1), None);
    assert!(meter.tick(at(1_500), 500));
    assert_eq!(meter.rate(), 1_000);
    assert_eq!(meter.eta(2_500), Some(Duration::from_secs(3)));
    let mut bytes = 500;
    for step in 1..=20 {
        bytes += 5_000;
        assert!(meter.tick(at(1_500 + step * 1_000), bytes));
    }
    assert!((4_800..=5_000).contains(&meter.rate()), "{}", meter.rate());
}

#[test]
fn stopped_clock_reports_nothing() {
    let mut meter = Meter::new(Duration::from_secs(9), 0);
    assert!(!meter.tick(Duration::from_secs(9), 10));
    assert!(!meter.tick(Duration::from_secs(1), 10));
}
