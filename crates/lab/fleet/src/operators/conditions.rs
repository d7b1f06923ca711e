//! Conditions with a transition time that changes only with their status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::OperatorCondition;

/// Type, status, reason and message of a condition to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewCondition {
    pub(super) about: &'static str,
    pub(super) holds: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl NewCondition {
    /// A condition without reason and message.
    pub(super) fn without_reason(about: &'static str, holds: bool) -> Self {
        Self::with_reason(about, holds, "", "")
    }

    pub(super) fn with_reason(
        about: &'static str,
        holds: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            about,
            holds,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Merges conditions. The transition time changes with the status only; conditions of other
/// controllers are kept.
pub(super) fn merge_conditions(
    old: &[OperatorCondition],
    new_conditions: Vec<NewCondition>,
    now: &Time,
) -> Vec<OperatorCondition> {
    let mut all = old.to_vec();
    for condition in new_conditions {
        let status = if condition.holds { "True" } else { "False" };
        let mut fresh = OperatorCondition {
            type_: condition.about.to_owned(),
            status: status.to_owned(),
            reason: condition.reason,
            message: condition.message,
            last_transition_time: now.clone(),
        };
        match all.iter_mut().find(|old| old.type_ == fresh.type_) {
            Some(old) => {
                if old.status == fresh.status {
                    fresh
                        .last_transition_time
                        .clone_from(&old.last_transition_time);
                }
                *old = fresh;
            }
            None => all.push(fresh),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn transition_time_changes_with_status_only() {
        let first = merge_conditions(
            &[],
            vec![NewCondition::without_reason("Updated", true)],
            &at(1),
        );
        let same = merge_conditions(
            &first,
            vec![NewCondition::without_reason("Updated", true)],
            &at(2),
        );
        assert_eq!(same, first);
        let worded = NewCondition::with_reason("Updated", true, "", "all nodes");
        let worded = merge_conditions(&first, vec![worded], &at(3));
        assert_eq!(worded[0].message, "all nodes");
        assert_eq!(worded[0].last_transition_time, at(1));
        let changed = merge_conditions(
            &worded,
            vec![NewCondition::without_reason("Updated", false)],
            &at(4),
        );
        assert_eq!(changed[0].last_transition_time, at(4));
    }

    #[test]
    fn foreign_conditions_are_kept() {
        let theirs = merge_conditions(
            &[],
            vec![NewCondition::without_reason("Theirs", true)],
            &at(1),
        );
        let both = merge_conditions(
            &theirs,
            vec![NewCondition::without_reason("Ours", false)],
            &at(2),
        );
        let names: Vec<_> = both.iter().map(|one| one.type_.as_str()).collect();
        assert_eq!(names, ["Theirs", "Ours"]);
    }
}
