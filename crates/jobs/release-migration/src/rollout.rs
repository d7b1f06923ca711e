//! Rollouts of MachineConfigs that are no part of an update.

use api::openshift::{Condition, MachineConfigPool};
use jiff::Timestamp;

/// Whether what a pool rolls out began after an update was complete: another MachineConfig, and not the update.
///
/// `Updated` becomes False when the pool gets another configuration, and stays False while it is paused. So a pool that
/// has not been updated since before the completion still has to roll out the update.
pub fn is_later(pool: &MachineConfigPool, completed: Timestamp) -> bool {
    let status = pool.status.iter();
    let mut conditions = status.flat_map(|it| &it.conditions);
    let Some(updated) = conditions.find(|it| it.kind == "Updated") else {
        return false;
    };
    let since = updated.last_transition_time.as_ref();
    Condition::is_true(updated) || since.is_some_and(|since| since.0 > completed)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::updated("True", 5, true)]
    #[case::has_not_finished_the_update("False", 5, false)]
    #[case::began_later("False", 15, true)]
    fn rollout_is_compared_with_completion(
        #[case] status: &str,
        #[case] second: i64,
        #[case] later: bool,
    ) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let pool: MachineConfigPool = serde_json::from_value(json!({
            "metadata": { "name": "worker" }, "spec": {},
            "status": { "conditions": [
                { "type": "Updated", "status": status, "lastTransitionTime": at(second).to_string() },
            ] },
        }))
        .unwrap();
        assert_eq!(is_later(&pool, at(10)), later);
    }

    #[test]
    fn pool_without_conditions_may_still_update() {
        let pool = json!({ "metadata": { "name": "worker" }, "spec": {} });
        let pool: MachineConfigPool = serde_json::from_value(pool).unwrap();
        assert!(!is_later(&pool, Timestamp::UNIX_EPOCH));
    }
}
