use super::*;

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

fn awaited(name: &str, waited: Option<i64>) -> PendingOperator {
    PendingOperator {
        name: name.to_owned(),
        waited: waited.map(minutes),
    }
}

fn past() -> UpdateDurations {
    let mut past = UpdateDurations::default();
    for (name, took) in [
        ("dns", 4),
        ("dns", 6),
        ("dns", 60),
        ("etcd", 10),
        ("network", 20),
        ("machine-config", 40),
    ] {
        past.add(name, minutes(took));
    }
    past
}

fn guess(
    waves: &[Vec<PendingOperator>],
    machines: Option<NodeProgress>,
) -> Option<(SignedDuration, Basis)> {
    estimate(waves, &past(), machines).map(|it| (it.remaining, it.basis))
}

#[test]
fn waves_are_sequential_and_the_slowest_counts() {
    let waves = [
        vec![awaited("dns", Some(1)), awaited("etcd", Some(2))],
        vec![awaited("network", None)],
    ];
    // etcd has 8 of 10 minutes left, and network all of its 20.
    assert_eq!(guess(&waves, None), Some((minutes(28), Basis::History)));
    assert_eq!(guess(&[], None), Some((minutes(0), Basis::History)));
}

#[test]
fn outlier_does_not_count() {
    let waves = [vec![awaited("dns", None)]];
    assert_eq!(guess(&waves, None), Some((minutes(6), Basis::History)));
}

#[test]
fn late_operator_needs_more_time() {
    let waves = [vec![awaited("etcd", Some(30))]];
    assert_eq!(guess(&waves, None), Some((minutes(2), Basis::History)));
}

#[test]
fn new_operator_takes_the_median_of_others() {
    let waves = [vec![awaited("new", None)]];
    assert_eq!(guess(&waves, None), Some((minutes(10), Basis::History)));
    assert_eq!(estimate(&waves, &UpdateDurations::default(), None), None);
}

#[test]
fn node_pace_is_extrapolated() {
    let waves = [vec![awaited("machine-config", Some(24))]];
    let machines = |updated| Some(NodeProgress { total: 3, updated });
    let found = |updated| guess(&waves, machines(updated)).unwrap();
    assert_eq!(found(2), (minutes(12), Basis::Machines));
    assert_eq!(found(1), (minutes(48), Basis::Machines));
    assert_eq!(found(0), (minutes(30), Basis::Machines));
    assert_eq!(found(3), (minutes(0), Basis::Machines));
    // Without nodes, the recorded duration; other operators are not comparable.
    assert_eq!(guess(&waves, None), Some((minutes(16), Basis::History)));
    let mut others = UpdateDurations::default();
    others.add("dns", minutes(5));
    assert_eq!(estimate(&waves, &others, None), None);
}
