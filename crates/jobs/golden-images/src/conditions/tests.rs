use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn transition_time_changes_only_with_status() {
    let mut known = Vec::new();
    ConditionUpdate::new("Ready", false, "NotFound", "PVC not found").put(&mut known, at(10));
    ConditionUpdate::new("Ready", false, "NoSource", "No source PVC set").put(&mut known, at(20));
    let [ready] = known.as_slice() else { panic!() };
    assert_eq!(ready.last_transition_time, Some(Time(at(10))));
    assert_eq!(ready.last_heartbeat_time, Some(Time(at(20))));
    let before = known.clone();
    ConditionUpdate::new("Ready", false, "NoSource", "No source PVC set").put(&mut known, at(30));
    assert_eq!(known, before, "nothing changed");
    ConditionUpdate::new("Ready", true, "Ready", "").put(&mut known, at(40));
    assert_eq!(known[0].last_transition_time, Some(Time(at(40))));
}

#[test]
fn standard_condition_keeps_transition_time() {
    let first =
        ConditionUpdate::new("Ready", false, "NotFound", "a").standard(&[], at(10), Some(1));
    let second = ConditionUpdate::new("Ready", false, "NoSource", "b").standard(
        std::slice::from_ref(&first),
        at(20),
        Some(2),
    );
    assert_eq!(second.last_transition_time, Time(at(10)));
    assert_eq!(
        (second.reason.as_str(), second.observed_generation),
        ("NoSource", Some(2))
    );
    let third = ConditionUpdate::new("Ready", true, "Ready", "").standard(&[second], at(30), None);
    assert_eq!(third.last_transition_time, Time(at(30)));
}

#[test]
fn messages_are_truncated() {
    let update = ConditionUpdate::new("Ready", true, "Ready", "é".repeat(1_000_000));
    assert_eq!(update.message.chars().count(), 2048);
}
