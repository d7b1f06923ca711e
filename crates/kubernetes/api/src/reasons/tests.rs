//! Lookup of documented events and conditions.

use super::{ANY, Conditions, Event, Reason, has_condition, has_event};
use crate::{condition_reasons, conditions, events};

const EVENTS: &[Event] = events! {
    Normal "Went" "Thing" => "it went";
    Warning "Fell" "Thing" => "it fell";
    Either "Stood" "Thing" => "it stood";
};

const SHARED: &[Reason] = condition_reasons! {
    "True" "Yes": "So it is." => "Enjoy it.";
};

const CONDITIONS: &[Conditions] = conditions! {
    of "Thing", "Up": "It stands.", "Down": "It lies." with [SHARED] {
        "False, Unknown" "No": "";
    }
    of "Other", "Open": "It is open." {
        "False" ANY: "As the door says.";
    }
};

#[test]
fn tables_keep_the_order_and_the_advice() {
    let reasons = CONDITIONS[0].all().map(|it| (it.name, it.advice));
    assert!(reasons.eq([("Yes", "Enjoy it."), ("No", "")]));
}

#[test]
fn events_are_matched_by_reason_and_type() {
    for (reason, is_warning, expected) in [
        ("Went", false, true),
        ("Went", true, false),
        ("Fell", true, true),
        ("Fell", false, false),
        ("Stood", true, true),
        ("Stood", false, true),
        ("Jumped", false, false),
    ] {
        assert_eq!(has_event(EVENTS, reason, is_warning), expected, "{reason}");
    }
}

#[test]
fn conditions_give_the_reasons_of_their_type() {
    for (kind, status, word, expected) in [
        ("Up", "True", "Yes", true),
        ("Down", "True", "Yes", true),
        ("Up", "False", "Yes", false),
        ("Up", "False", "No", true),
        ("Up", "Unknown", "No", true),
        ("Up", "True", "Perhaps", false),
        ("Open", "False", "Jammed", true),
        ("Open", "True", "Jammed", false),
        ("Shut", "True", "Yes", false),
    ] {
        let found = has_condition(CONDITIONS, kind, status, word);
        assert_eq!(found, expected, "{kind} {status} {word}");
    }
}
