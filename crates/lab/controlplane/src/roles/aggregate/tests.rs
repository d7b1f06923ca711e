use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::{Value, json};

use super::rules;

fn role(name: &str, labels: &Value, verbs: &[&str]) -> Arc<ClusterRole> {
    let rules: Vec<Value> = verbs
        .iter()
        .map(|verb| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}))
        .collect();
    let role = json!({"metadata": {"name": name, "labels": labels}, "rules": rules});
    Arc::new(serde_json::from_value(role).expect("a cluster role"))
}

fn aggregate(selectors: &Value, verbs: &[&str]) -> Arc<ClusterRole> {
    let mut aggregate = Arc::unwrap_or_clone(role("all", &json!({"to": "a"}), verbs));
    let rule = json!({ "clusterRoleSelectors": selectors });
    aggregate.aggregation_rule = serde_json::from_value(rule).expect("a rule");
    Arc::new(aggregate)
}

/// The verbs of the rules in order.
fn verbs(role: &ClusterRole, others: &[Arc<ClusterRole>]) -> Option<Vec<String>> {
    let rules = rules(role, others).expect("selectors that can be read")?;
    Some(rules.into_iter().flat_map(|rule| rule.verbs).collect())
}

fn sample_roles() -> [Arc<ClusterRole>; 4] {
    [
        role("a", &json!({"to": "b"}), &["get", "list"]),
        role("b", &json!({"to": "a"}), &["list", "watch"]),
        role("c", &json!({"to": "a"}), &["delete"]),
        role("d", &json!({}), &["escalate"]),
    ]
}

#[test]
fn rules_are_ordered_by_selector_and_name_without_duplicates() {
    let a = json!({"matchLabels": {"to": "a"}});
    let b = json!({"matchLabels": {"to": "b"}});
    let all = aggregate(&json!([a, b]), &[]);
    let expected = ["list", "watch", "delete", "get"].map(str::to_owned);
    assert_eq!(verbs(&all, &sample_roles()), Some(expected.to_vec()));
}

#[test]
fn role_does_not_aggregate_itself() {
    let selectors = json!([{"matchLabels": {"to": "a"}}]);
    let all = aggregate(&selectors, &["list", "watch", "delete"]);
    let mut roles = sample_roles().to_vec();
    roles.push(Arc::clone(&all));
    assert_eq!(verbs(&all, &roles), None);
    // Rules added by other clients are removed.
    let meddled = aggregate(&selectors, &["list", "watch", "delete", "escalate"]);
    assert_eq!(verbs(&meddled, &roles).map(|all| all.len()), Some(3));
}

#[test]
fn aggregate_without_matches_has_no_rules() {
    let none = json!([{"matchLabels": {"to": "nobody"}}]);
    assert_eq!(
        verbs(&aggregate(&none, &["get"]), &sample_roles()),
        Some(vec![])
    );
    assert_eq!(verbs(&aggregate(&none, &[]), &sample_roles()), None);
}

#[test]
fn role_without_selectors_is_ignored() {
    assert_eq!(
        verbs(&role("plain", &json!({}), &["get"]), &sample_roles()),
        None
    );
}

#[test]
fn invalid_selector_is_an_error() {
    let odd = json!([{"matchExpressions": [{"key": "a", "operator": "Near"}]}]);
    assert!(rules(&aggregate(&odd, &[]), &sample_roles()).is_err());
}
