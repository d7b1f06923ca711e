//! The rules of an aggregated role.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use machinery::selector::LabelSelector;
use serde_json::json;

/// The desired rules of a role, or `None` if it has them or is not aggregated. By selector, then by
/// role name, without duplicates. `roles` are sorted by name.
pub(super) fn rules(
    role: &ClusterRole,
    roles: &[Arc<ClusterRole>],
) -> Result<Option<Vec<PolicyRule>>, String> {
    let Some(rule) = &role.aggregation_rule else {
        return Ok(None);
    };
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in rule.cluster_role_selectors.iter().flatten() {
        let selector = LabelSelector::from_label_selector_object(&json!(selector))?;
        let selected = roles.iter().filter(|other| {
            let labels = other.metadata.labels.as_ref();
            other.metadata.name != role.metadata.name
                && selector.matches(|key| labels?.get(key).map(String::as_str))
        });
        for other in selected {
            for rule in other.rules.iter().flatten().map(plain) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    let has: Vec<PolicyRule> = role.rules.iter().flatten().map(plain).collect();
    Ok((rules != has).then_some(rules))
}

/// A rule with empty lists normalized to none.
fn plain(rule: &PolicyRule) -> PolicyRule {
    let some = |list: &Option<Vec<String>>| list.clone().filter(|list| !list.is_empty());
    PolicyRule {
        api_groups: some(&rule.api_groups),
        non_resource_urls: some(&rule.non_resource_urls),
        resource_names: some(&rule.resource_names),
        resources: some(&rule.resources),
        verbs: rule.verbs.clone(),
    }
}

#[cfg(test)]
mod tests;
