//! Conditions tell one phase at a time, and move only when they change.

use api::advisor::Phase;

use super::*;

fn moment(second: i64, generation: i64) -> Moment {
    Moment {
        now: Timestamp::from_second(second).unwrap(),
        generation: Some(generation),
    }
}

#[test]
fn exactly_one_phase_is_true_in_any_order_of_phases() {
    let mut conditions = Vec::new();
    for first in Phase::ALL {
        for second in Phase::ALL {
            enter(&mut conditions, first, None, "first", &moment(1, 1));
            enter(&mut conditions, second, None, "second", &moment(2, 1));
            let on: Vec<_> = Phase::ALL
                .into_iter()
                .filter(|phase| is_true(&conditions, phase.as_str()))
                .collect();
            assert_eq!(on, [second], "after {first} and {second}");
        }
    }
    assert_eq!(
        conditions.len(),
        Phase::ALL.len() + 1,
        "phases and ProfileActive"
    );
}

#[test]
fn the_time_moves_with_the_status_and_not_with_the_message() {
    let mut conditions = Vec::new();
    enter(
        &mut conditions,
        Phase::InProgress,
        None,
        "1/10",
        &moment(1, 1),
    );
    enter(
        &mut conditions,
        Phase::InProgress,
        None,
        "2/10",
        &moment(5, 2),
    );
    let condition = get(&conditions, "InProgress").unwrap();
    assert_eq!(condition.message, "2/10");
    assert_eq!(condition.last_transition_time.0.as_second(), 1);
    assert_eq!(condition.observed_generation, Some(2));
    enter(
        &mut conditions,
        Phase::Completed,
        None,
        "done",
        &moment(9, 2),
    );
    assert_eq!(
        get(&conditions, "InProgress")
            .unwrap()
            .last_transition_time
            .0
            .as_second(),
        9
    );
}

#[test]
fn what_users_know_is_said_in_the_words_they_know() {
    let said = |phase, kind: &str| {
        let mut conditions = Vec::new();
        enter(
            &mut conditions,
            phase,
            None,
            message_of(phase),
            &moment(1, 1),
        );
        let condition = get(&conditions, kind).unwrap();
        (
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        )
    };
    let tuple = |status: &str, reason: &str, message: &str| {
        (status.to_owned(), reason.to_owned(), message.to_owned())
    };
    assert_eq!(
        said(Phase::ReviewRequired, "ReviewRequired"),
        tuple(
            "True",
            "ReviewRequired",
            "Plan ready for review. Change action to 'Apply' to execute."
        )
    );
    assert_eq!(
        said(Phase::ReviewRequired, "Completed"),
        tuple("False", "NotCompleted", "Plan not yet applied")
    );
    assert_eq!(
        said(Phase::Completed, "PrerequisiteFailed"),
        tuple("False", "Completed", "All prerequisites met")
    );
    assert_eq!(
        said(Phase::Completed, "InProgress"),
        tuple("False", "NotInProgress", "Plan application completed")
    );
    assert_eq!(
        said(Phase::Drifted, "Drifted"),
        tuple(
            "True",
            "DriftDetected",
            "Configuration has drifted from desired state"
        )
    );
    assert_eq!(
        said(Phase::Drifted, "Completed"),
        tuple(
            "False",
            "ConfigurationDrifted",
            "Configuration is no longer in sync - drift detected"
        )
    );
    assert_eq!(
        said(Phase::Drafting, "InProgress"),
        tuple("False", "NotInProgress", "Plan is not being applied")
    );
    assert_eq!(
        said(Phase::Drafting, "Ignored"),
        tuple("False", "NotIgnored", "Configuration is being managed")
    );
    assert_eq!(
        said(Phase::Ignored, "Completed"),
        tuple(
            "False",
            "Ignored",
            "Not applicable - configuration is ignored"
        )
    );
    assert_eq!(said(Phase::Drifted, "ProfileActive").0, "False");
    assert_eq!(said(Phase::Completed, "ProfileActive").0, "True");
}

/// The definition of the kind refuses messages of more than 32768 characters, and with them the whole
/// status: a thousand drifted objects are more than that.
#[test]
fn a_message_that_is_too_long_is_cut() {
    let long = "é: is 2, applied was 1; ".repeat(2000);
    let mut conditions = Vec::new();
    for phase in Phase::ALL {
        enter(&mut conditions, phase, None, &long, &moment(1, 1));
        let said = &get(&conditions, phase.as_str()).unwrap().message;
        assert_eq!(said.chars().count(), LONGEST);
        assert!(long.starts_with(said.strip_suffix('…').unwrap()));
        let total: usize = conditions.iter().map(|one| one.message.len()).sum();
        assert!(total < 128 * 1024, "{total} bytes of messages in {phase}");
    }
    let exact = "é".repeat(LONGEST);
    assert_eq!(fitting(&exact), exact, "there is room for this");
}
