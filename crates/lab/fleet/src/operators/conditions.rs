//! Conditions that change only when what they say changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::OperatorCondition;

/// What is to be said about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) about: &'static str,
    pub(super) holds: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Said {
    /// Something holds or not, and there is nothing to explain.
    pub(super) fn plainly(about: &'static str, holds: bool) -> Self {
        Self::because(about, holds, "", "")
    }

    pub(super) fn because(
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

/// Conditions with something new to say. The time is that of the last change of a status; what
/// others say is kept.
pub(super) fn settle(
    old: &[OperatorCondition],
    said: Vec<Said>,
    now: &Time,
) -> Vec<OperatorCondition> {
    let mut all = old.to_vec();
    for said in said {
        let status = if said.holds { "True" } else { "False" };
        let mut fresh = OperatorCondition {
            type_: said.about.to_owned(),
            status: status.to_owned(),
            reason: said.reason,
            message: said.message,
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
    fn the_time_is_that_of_the_last_change_of_status() {
        let first = settle(&[], vec![Said::plainly("Updated", true)], &at(1));
        let same = settle(&first, vec![Said::plainly("Updated", true)], &at(2));
        assert_eq!(same, first);
        let worded = Said::because("Updated", true, "", "all nodes");
        let worded = settle(&first, vec![worded], &at(3));
        assert_eq!(worded[0].message, "all nodes");
        assert_eq!(worded[0].last_transition_time, at(1));
        let changed = settle(&worded, vec![Said::plainly("Updated", false)], &at(4));
        assert_eq!(changed[0].last_transition_time, at(4));
    }

    #[test]
    fn what_others_say_is_kept() {
        let theirs = settle(&[], vec![Said::plainly("Theirs", true)], &at(1));
        let both = settle(&theirs, vec![Said::plainly("Ours", false)], &at(2));
        let names: Vec<_> = both.iter().map(|one| one.type_.as_str()).collect();
        assert_eq!(names, ["Theirs", "Ours"]);
    }
}
