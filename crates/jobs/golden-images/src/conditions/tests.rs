use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_transition_is_a_change_of_the_status() {
    let mut known = Vec::new();
    Said::new("Ready", false, "NotFound", "PVC not found").put(&mut known, at(10));
    Said::new("Ready", false, "NoSource", "No source PVC set").put(&mut known, at(20));
    let [ready] = known.as_slice() else { panic!() };
    assert_eq!(ready.last_transition_time, Some(Time(at(10))));
    assert_eq!(ready.last_heartbeat_time, Some(Time(at(20))));
    let before = known.clone();
    Said::new("Ready", false, "NoSource", "No source PVC set").put(&mut known, at(30));
    assert_eq!(known, before, "nothing new was said");
    Said::new("Ready", true, "Ready", "").put(&mut known, at(40));
    assert_eq!(known[0].last_transition_time, Some(Time(at(40))));
}

#[test]
fn standard_conditions_keep_their_time_while_the_status_is_the_same() {
    let first = Said::new("Ready", false, "NotFound", "a").standard(&[], at(10), Some(1));
    let second = Said::new("Ready", false, "NoSource", "b").standard(
        std::slice::from_ref(&first),
        at(20),
        Some(2),
    );
    assert_eq!(second.last_transition_time, Time(at(10)));
    assert_eq!(
        (second.reason.as_str(), second.observed_generation),
        ("NoSource", Some(2))
    );
    let third = Said::new("Ready", true, "Ready", "").standard(&[second], at(30), None);
    assert_eq!(third.last_transition_time, Time(at(30)));
}

#[test]
fn messages_have_an_end() {
    let said = Said::new("Ready", true, "Ready", "é".repeat(1_000_000));
    assert_eq!(said.message.chars().count(), 2048);
}
