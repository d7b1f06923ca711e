//! The log has every fact once, and shows what was done to it.

use api::advisor::Action;
use jiff::SignedDuration;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::decide::tests::Simulation;

/// A plan that was reviewed, approved and applied.
fn applied() -> Simulation {
    let mut world = Simulation::steps();
    world.config.metadata.uid = Some("7d0b".to_owned());
    world.run();
    world.action(Action::Apply);
    world.run();
    world.roll_out("worker", 10);
    world.run();
    world
}

/// Appends what is missing, as the operator does after each change.
fn append(world: &Simulation, chain: &mut Chain, log: &mut Vec<Entry>) -> usize {
    let facts = facts("steps", Some(&world.config), world.records(), chain);
    let new = chain.append(facts, world.now());
    for entry in &new {
        chain.take(entry);
    }
    log.extend(new.clone());
    new.len()
}

fn log_of_a_plan() -> Vec<Entry> {
    let mut world = Simulation::steps();
    world.config.metadata.uid = Some("7d0b".to_owned());
    let (mut chain, mut log) = (Chain::default(), Vec::new());
    world.run();
    append(&world, &mut chain, &mut log);
    world.action(Action::Apply);
    world.run();
    append(&world, &mut chain, &mut log);
    world.roll_out("worker", 10);
    world.run();
    append(&world, &mut chain, &mut log);
    log
}

fn lines(log: &[Entry]) -> Vec<String> {
    log.iter().map(Entry::line).collect()
}

fn kinds(log: &[Entry]) -> Vec<String> {
    let value = |entry: &Entry| serde_json::to_value(entry).unwrap();
    let kind = |entry: &Entry| value(entry)["event"].as_str().unwrap().to_owned();
    log.iter().map(kind).collect()
}

#[test]
fn plan_is_logged_with_its_items_before_and_after() {
    let log = log_of_a_plan();
    let expected = ["Planned", "Started", "Item", "Item", "Item", "Ended"];
    assert_eq!(kinds(&log), expected);
    let item = serde_json::to_value(&log[3]).unwrap();
    assert_eq!(item["item"], "second");
    assert_eq!(item["before"], Value::Null);
    assert_eq!(item["after"]["data.limit"], 5);
    assert_eq!(item["sequence"], 4);
    let ended = serde_json::to_value(&log[5]).unwrap();
    assert_eq!(ended["result"], "Completed");
    let summary = verify(&log, None).unwrap();
    assert_eq!((summary.entries, summary.first), (6, 1));
    assert_eq!(summary.head, log[5].hash);
}

#[test]
fn nothing_is_logged_twice_also_after_a_restart() {
    let world = applied();
    let (mut chain, mut log) = (Chain::default(), Vec::new());
    assert_eq!(append(&world, &mut chain, &mut log), 5);
    assert_eq!(append(&world, &mut chain, &mut log), 0);
    let mut restarted = Chain::read(&log);
    assert_eq!(restarted, chain);
    assert_eq!(append(&world, &mut restarted, &mut log), 0);
}

#[test]
fn log_continues_where_a_crash_cut_it_off() {
    let world = applied();
    let (mut chain, mut whole) = (Chain::default(), Vec::new());
    append(&world, &mut chain, &mut whole);
    for stored in 0..whole.len() {
        let mut log = whole[..stored].to_vec();
        let mut chain = Chain::read(&log);
        append(&world, &mut chain, &mut log);
        assert_eq!(log, whole, "cut off after {stored}");
    }
}

#[test]
fn round_trip_keeps_the_hashes() {
    let log = log_of_a_plan();
    let read = parse(&(lines(&log).join("\n") + "\n\n")).unwrap();
    assert_eq!(read, log);
    verify(&read, Some(&log[2].hash)).unwrap();
    let stored = read_segment(&segment_data(&log));
    assert_eq!(stored, log);
}

#[rstest]
#[case::changed_value("\"data.limit\":5", "\"data.limit\":6", "entry 4 was changed")]
#[case::other_user("\"approvedBy\":[]", "\"approvedBy\":[\"eve\"]", "entry 2 was changed")]
#[case::other_time(
    "\"sequence\":6,\"time\":\"2026",
    "\"sequence\":6,\"time\":\"2025",
    "entry 6 was changed"
)]
#[case::added_field(
    "\"result\":\"Completed\"",
    "\"result\":\"Completed\",\"note\":1",
    "fields that no version writes"
)]
#[case::not_json("{\"after\"", "\"after\"", "is no entry of the audit log")]
fn edits_are_found(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    let text = lines(&log_of_a_plan()).join("\n");
    assert!(text.contains(from), "{text}");
    let edited = text.replacen(from, to, 1);
    let why = parse(&edited)
        .and_then(|log| verify(&log, None))
        .unwrap_err();
    assert!(why.to_string().contains(expected), "{why}");
}

#[test]
fn removed_reordered_and_replaced_entries_are_found() {
    let log = log_of_a_plan();
    let broken = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut changed = log.clone();
        change(&mut changed);
        verify(&changed, Some(&log[5].hash)).unwrap_err()
    };
    assert_eq!(
        broken(&|log| drop(log.remove(2))),
        Broken::Gap { after: 2, found: 4 }
    );
    assert_eq!(
        broken(&|log| log.swap(1, 2)),
        Broken::Gap { after: 1, found: 3 }
    );
    assert!(matches!(
        broken(&|log| drop(log.pop())),
        Broken::HeadMissing(_)
    ));
    // An entry that was replaced by one with a correct hash of its own.
    let forged = broken(&|log| {
        log[3].time += SignedDuration::from_hours(1);
        log[3].hash = log[3].expected_hash();
    });
    assert!(
        matches!(forged, Broken::Unlinked { sequence: 5, .. }),
        "{forged}"
    );
}

#[test]
fn pruned_log_is_valid_from_its_first_entry_and_gets_no_old_facts() {
    let log = log_of_a_plan();
    let summary = verify(&log[3..], None).unwrap();
    assert_eq!((summary.entries, summary.first), (3, 4));
    let mut world = applied();
    world.pass(SignedDuration::from_hours(1));
    let mut left = log[5..].to_vec();
    left[0].time = world.now();
    let chain = Chain::read(&left);
    let known = facts("steps", None, world.records(), &Chain::default());
    assert_eq!(chain.append(known, world.now()), []);
}

#[test]
fn segments_are_bounded_and_large_values_are_replaced() {
    let mut log = log_of_a_plan();
    let Fact::Item { after, .. } = &mut log[3].fact else {
        panic!("an item");
    };
    *after = Some(Value::String("x".repeat(200 << 10)));
    let bounded = log[3].fact.clone().bounded();
    let Fact::Item { after, .. } = &bounded else {
        panic!("an item");
    };
    assert_eq!(after.as_ref().unwrap()["omittedBytes"], (200 << 10) + 2);
    let many = vec![log[3].clone(); 7];
    let sizes: Vec<_> = segments(many).iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 2, 1]);
    assert_eq!(segments(log_of_a_plan()).len(), 1);
}

#[rstest]
#[case(&[1, 50, 90], 100, 1000, &[])]
#[case(&[90, 1, 50], 100, 50, &[1])]
#[case(&[1, 50, 90], 100, 10, &[1, 50])]
#[case(&[1, 50, 90], 100, 0, &[1, 50])]
#[case(&[], 1, 10, &[])]
fn old_segments_are_pruned(
    #[case] segments: &[u64],
    #[case] next: u64,
    #[case] kept: u64,
    #[case] expected: &[u64],
) {
    assert_eq!(prunable(segments, next, kept), expected);
}

proptest! {
    /// Any single changed byte in the text of a log is found, or changes nothing.
    #[test]
    fn every_changed_byte_is_found(position in 0.0..1.0_f64, byte in 0x20..0x7f_u8) {
        let log = log_of_a_plan();
        let mut text = lines(&log).join("\n").into_bytes();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a position in a short text")]
        let index = (position * text.len() as f64) as usize;
        prop_assume!(text[index] != byte);
        text[index] = byte;
        let text = String::from_utf8(text).unwrap();
        if let Ok(read) = parse(&text) {
            let verified = verify(&read, Some(&log[5].hash));
            prop_assert!(verified.is_err() || read == log, "{text}");
        }
    }
}
