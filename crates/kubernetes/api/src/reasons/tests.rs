//! Lookup of documented events and conditions.

use super::{ANY, Conditions, Event, either, fine, normal, says, tells, warning};

const EVENTS: &[Event] = &[
    normal("Went", "Thing", "it went"),
    warning("Fell", "Thing", "it fell"),
    either("Stood", "Thing", "it stood"),
];

const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: "Thing",
        types: &[("Up", "It stands."), ("Down", "It lies.")],
        reasons: &[
            &[fine("True", "Yes", "So it is.")],
            &[fine("False, Unknown", "No", "")],
        ],
    },
    Conditions {
        of: "Other",
        types: &[("Open", "It is open.")],
        reasons: &[&[fine("False", ANY, "As the door says.")]],
    },
];

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
        assert_eq!(tells(EVENTS, reason, is_warning), expected, "{reason}");
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
        let found = says(CONDITIONS, kind, status, word);
        assert_eq!(found, expected, "{kind} {status} {word}");
    }
}
