//! Pod failure policy and success policy.

use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::indexes::Indexes;
use crate::object::{name, namespace};

/// Meaning of a failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It counts towards the limits.
    Counts,
    /// It does not count.
    Ignored,
    /// Its index fails.
    FailsIndex,
    /// The Job fails, with this message.
    FailsJob(String),
}

/// The action of the first matching rule; without one, a failure counts.
pub(super) fn judge(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Failure {
    let rules = policy.iter().flat_map(|policy| &policy.rules);
    for (number, rule) in rules.enumerate() {
        let Some(what) = matching(rule, pod) else {
            continue;
        };
        return match rule.action.as_str() {
            "Ignore" => Failure::Ignored,
            "FailIndex" => Failure::FailsIndex,
            "Count" => Failure::Counts,
            "FailJob" => {
                Failure::FailsJob(format!("{what} matching FailJob rule at index {number}"))
            }
            // An action of a later version: the rule is skipped.
            _ => continue,
        };
    }
    Failure::Counts
}

/// What matches a rule, with upstream's message.
fn matching(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let name = format!("{}/{}", namespace(&pod.metadata), name(&pod.metadata));
    let status = pod.status.as_ref()?;
    if let Some(codes) = &rule.on_exit_codes {
        let containers = status.container_statuses.iter().flatten();
        let first = status.init_container_statuses.iter().flatten();
        return containers.chain(first).find_map(|container| {
            let code = matching_code(codes, container)?;
            let container = &container.name;
            Some(format!(
                "Container {container} for pod {name} failed with exit code {code}"
            ))
        });
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| {
        patterns.iter().any(|pattern| {
            pattern.type_ == condition.type_
                && pattern.status.as_deref().unwrap_or("True") == condition.status
        })
    })?;
    Some(format!("Pod {name} has condition {}", condition.type_))
}

fn matching_code(
    wanted: &PodFailurePolicyOnExitCodesRequirement,
    container: &ContainerStatus,
) -> Option<i32> {
    let named = wanted.container_name.as_ref();
    if named.is_some_and(|name| *name != container.name) {
        return None;
    }
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let listed = wanted.values.contains(&code);
    let matches = match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    };
    (code != 0 && matches).then_some(code)
}

/// Why the Job succeeds before all its indexes do, if it does.
pub(super) fn succeeded_early(
    policy: Option<&SuccessPolicy>,
    completions: i32,
    succeeded: &Indexes,
) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let rules = &policy?.rules;
    let met = rules.iter().position(|rule| {
        let enough = |many: i32| rule.succeeded_count.is_some_and(|count| many >= count);
        match &rule.succeeded_indexes {
            Some(listed) => {
                let listed = Indexes::parse(listed, completions);
                let done = listed.common(succeeded);
                !listed.is_empty() && (done == listed.len() || enough(done))
            }
            None => enough(succeeded.len()),
        }
    })?;
    Some(format!("Matched rules at index {met}"))
}
