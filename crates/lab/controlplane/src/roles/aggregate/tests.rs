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

/// The verbs of the rules in their order.
fn verbs(role: &ClusterRole, others: &[Arc<ClusterRole>]) -> Option<Vec<String>> {
    let rules = rules(role, others).expect("selectors that can be read")?;
    Some(rules.into_iter().flat_map(|rule| rule.verbs).collect())
}

fn world() -> [Arc<ClusterRole>; 4] {
    [
        role("a", &json!({"to": "b"}), &["get", "list"]),
        role("b", &json!({"to": "a"}), &["list", "watch"]),
        role("c", &json!({"to": "a"}), &["delete"]),
        role("d", &json!({}), &["escalate"]),
    ]
}

#[test]
fn rules_come_by_selector_then_by_name_and_once() {
    let a = json!({"matchLabels": {"to": "a"}});
    let b = json!({"matchLabels": {"to": "b"}});
    let all = aggregate(&json!([a, b]), &[]);
    let expected = ["list", "watch", "delete", "get"].map(str::to_owned);
    assert_eq!(verbs(&all, &world()), Some(expected.to_vec()));
}

#[test]
fn a_role_is_no_part_of_itself_and_what_is_right_is_left_alone() {
    let selectors = json!([{"matchLabels": {"to": "a"}}]);
    let all = aggregate(&selectors, &["list", "watch", "delete"]);
    let mut roles = world().to_vec();
    roles.push(Arc::clone(&all));
    assert_eq!(verbs(&all, &roles), None);
    // What somebody wrote into it goes away.
    let meddled = aggregate(&selectors, &["list", "watch", "delete", "escalate"]);
    assert_eq!(verbs(&meddled, &roles).map(|all| all.len()), Some(3));
}

#[test]
fn a_role_of_nothing_has_no_rules() {
    let none = json!([{"matchLabels": {"to": "nobody"}}]);
    assert_eq!(verbs(&aggregate(&none, &["get"]), &world()), Some(vec![]));
    assert_eq!(verbs(&aggregate(&none, &[]), &world()), None);
}

#[test]
fn a_role_without_selectors_is_not_looked_at() {
    assert_eq!(verbs(&role("plain", &json!({}), &["get"]), &world()), None);
}

#[test]
fn a_selector_nobody_can_read_is_an_error() {
    let odd = json!([{"matchExpressions": [{"key": "a", "operator": "Near"}]}]);
    assert!(rules(&aggregate(&odd, &[]), &world()).is_err());
}
