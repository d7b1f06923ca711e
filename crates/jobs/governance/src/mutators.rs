//! The mutating webhooks and admission policies that are called for a target.
//!
//! An API server does not report which of them changed an object, and attributes the change to the manager of the
//! request. So all that are registered for the kind are candidates. Their selectors and match conditions are not
//! evaluated.

#[cfg(test)]
mod tests;

use api::advisor::TargetRef;
use serde_json::Value;

/// The kinds of registrations, with their resource names.
pub const REGISTRATIONS: [(&str, &str); 2] = [
    (
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
];

/// The group of the registrations.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// A registration that may change a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutator {
    /// Kind and name, as in `MutatingAdmissionPolicy floor`; of a webhook also its own name.
    pub name: String,
}

/// The mutators among registrations of one kind, for writes to a target whose resource name is `plural`.
pub fn of_target(
    kind: &str,
    registrations: &[Value],
    target: &TargetRef,
    plural: &str,
) -> Vec<Mutator> {
    let mut found = Vec::new();
    for registration in registrations {
        let name = registration["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        let rules = &registration["spec"]["matchConstraints"]["resourceRules"];
        if selects(rules, target, plural) {
            found.push(Mutator {
                name: format!("{kind} {name}"),
            });
        }
        for webhook in registration["webhooks"].as_array().into_iter().flatten() {
            if selects(&webhook["rules"], target, plural) {
                let webhook = webhook["name"].as_str().unwrap_or_default();
                found.push(Mutator {
                    name: format!("webhook {webhook} of {kind} {name}"),
                });
            }
        }
    }
    found
}

/// Whether one of the rules selects writes to the target.
fn selects(rules: &Value, target: &TargetRef, plural: &str) -> bool {
    // Not by version: with the default match policy, `Equivalent`, the object is converted to the version of the rule.
    let group = target
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    let lists = |rule: &Value, field: &str, values: &[&str]| {
        let listed = rule[field].as_array().into_iter().flatten();
        let mut listed = listed.filter_map(Value::as_str);
        listed.any(|one| one == "*" || values.contains(&one))
    };
    let rules = rules.as_array().into_iter().flatten();
    rules.into_iter().any(|rule| {
        lists(rule, "apiGroups", &[group])
            && lists(rule, "resources", &[plural, "*/*"])
            && lists(rule, "operations", &["CREATE", "UPDATE"])
    })
}
