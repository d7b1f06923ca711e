//! Exactly one phase condition is true, and conditions change only when the status does.

use api::advisor::Phase;

use super::*;

fn moment(second: i64, generation: i64) -> Observation {
    Observation {
        now: Timestamp::from_second(second).unwrap(),
        generation: Some(generation),
    }
}

#[test]
fn exactly_one_phase_condition_is_true() {
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
fn transition_time_changes_only_with_the_status() {
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
fn messages_are_those_of_the_prototype() {
    let condition_in = |phase, kind: &str| {
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
        condition_in(Phase::ReviewRequired, "ReviewRequired"),
        tuple(
            "True",
            "ReviewRequired",
            "Plan ready for review. Change action to 'Apply' to execute."
        )
    );
    assert_eq!(
        condition_in(Phase::ReviewRequired, "Completed"),
        tuple("False", "NotCompleted", "Plan not yet applied")
    );
    assert_eq!(
        condition_in(Phase::Completed, "PrerequisiteFailed"),
        tuple("False", "Completed", "All prerequisites met")
    );
    assert_eq!(
        condition_in(Phase::Completed, "InProgress"),
        tuple("False", "NotInProgress", "Plan application completed")
    );
    assert_eq!(
        condition_in(Phase::Drifted, "Drifted"),
        tuple(
            "True",
            "DriftDetected",
            "Configuration has drifted from desired state"
        )
    );
    assert_eq!(
        condition_in(Phase::Drifted, "Completed"),
        tuple(
            "False",
            "ConfigurationDrifted",
            "Configuration is no longer in sync - drift detected"
        )
    );
    assert_eq!(
        condition_in(Phase::Drafting, "InProgress"),
        tuple("False", "NotInProgress", "Plan is not being applied")
    );
    assert_eq!(
        condition_in(Phase::Drafting, "Ignored"),
        tuple("False", "NotIgnored", "Configuration is being managed")
    );
    assert_eq!(
        condition_in(Phase::Ignored, "Completed"),
        tuple(
            "False",
            "Ignored",
            "Not applicable - configuration is ignored"
        )
    );
    assert_eq!(condition_in(Phase::Drifted, "ProfileActive").0, "False");
    assert_eq!(condition_in(Phase::Completed, "ProfileActive").0, "True");
}

/// The CRD limits messages to 32768 characters, and the API server rejects the whole status beyond that: a thousand
/// drifted objects exceed it.
#[test]
fn long_message_is_truncated() {
    let long = "é: is 2, applied was 1; ".repeat(2000);
    let mut conditions = Vec::new();
    for phase in Phase::ALL {
        enter(&mut conditions, phase, None, &long, &moment(1, 1));
        let message = &get(&conditions, phase.as_str()).unwrap().message;
        assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS);
        assert!(long.starts_with(message.strip_suffix('…').unwrap()));
        let total: usize = conditions.iter().map(|one| one.message.len()).sum();
        assert!(total < 128 * 1024, "{total} bytes of messages in {phase}");
    }
    let exact = "é".repeat(MAX_MESSAGE_CHARS);
    assert_eq!(truncate_message(&exact), exact, "it fits");
}
