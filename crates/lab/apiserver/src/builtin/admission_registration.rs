//! The `admissionregistration.k8s.io` group: webhooks and admission policies.

mod expression;
mod policy;
mod webhook;

use machinery::cel::Environment;
use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Capability::{ConditionalUpdate, Generation};
use crate::builtin::entry::Cell::Count;
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, fill, indexed, items_mut};

const GROUP: &str = "admissionregistration.k8s.io";

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[MUTATING, policy::POLICY, policy::BINDING, VALIDATING];

const WEBHOOK_COLUMNS: &[Column] = &[
    NAME,
    column!("Webhooks" integer Count("webhooks") => "How many webhooks are configured"),
    AGE,
];

const MUTATING: Entry = Entry {
    categories: &["api-extensions"],
    namespaced: false,
    capabilities: &[Generation, ConditionalUpdate],
    default: |configuration| webhook::default(configuration, true),
    validate: |configuration| webhook::check(configuration, None),
    validate_update: |new, old, _| webhook::check(new, Some(old)),
    columns: WEBHOOK_COLUMNS,
    ..Entry::new(
        GROUP,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    )
};

const VALIDATING: Entry = Entry {
    kind: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
    default: |configuration| webhook::default(configuration, false),
    ..MUTATING
};

/// Rules apply to objects of both scopes by default.
fn default_rules(owner: &mut Value, list: &str) {
    for rule in items_mut(owner, list) {
        fill(rule, "scope", "*");
    }
}

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// A rule: which operations on which resources.
fn check_rule(path: &Path, rule: &Value) -> Errors {
    let mut errors = Errors::new();
    let alone = |field: &str, what: &str| {
        let texts = rule.texts(field);
        (texts.len() > 1 && texts.contains(&"*")).then(|| {
            let detail = format!("if '*' is present, must not specify other {what}");
            FieldError::invalid(&path.child(field), rule.at(field).clone(), detail)
        })
    };
    let missing = |field: &str| {
        (rule.count(field) == 0).then(|| FieldError::required(&path.child(field), ""))
    };
    errors += missing("operations");
    errors += alone("operations", "operations");
    for (i, operation) in rule.texts("operations").iter().enumerate() {
        errors += check::supported(&path.child("operations").index(i), operation, OPERATIONS);
    }
    errors += missing("apiGroups");
    errors += alone("apiGroups", "API groups");
    errors += missing("apiVersions");
    errors += alone("apiVersions", "API versions");
    for (i, version) in rule.texts("apiVersions").iter().enumerate() {
        errors += check::required(&path.child("apiVersions").index(i), version);
    }
    errors += check_resources(&path.child("resources"), rule);
    errors += check::optional_choice(path, rule, "scope", &["*", "Cluster", "Namespaced"]);
    errors
}

fn check_resources(path: &Path, rule: &Value) -> Errors {
    let resources = rule.texts("resources");
    let mut errors = Errors::new();
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut all_of, mut of_all) = (Vec::new(), Vec::new());
    let mut plain = false;
    for (path, resource) in indexed(path, &resources) {
        if resource.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Some((main, sub)) = resource.split_once('/') else {
            plain = *resource != "*";
            continue;
        };
        if all_of.contains(&main) {
            let detail = format!("if '{main}/*' is present, must not specify {resource}");
            errors.invalid(&path, *resource, detail);
        }
        if of_all.contains(&sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.invalid(&path, *resource, detail);
        }
        if sub == "*" {
            all_of.push(main);
        }
        if main == "*" {
            of_all.push(sub);
        }
    }
    let shown = rule.at("resources");
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(path, shown.clone(), detail);
    }
    if resources.contains(&"*") && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, shown.clone(), detail);
    }
    errors
}

/// Conditions on requests; the expressions themselves are compiled elsewhere.
fn check_match_conditions(path: &Path, conditions: &[Value], variables: &Environment) -> Errors {
    let mut errors = Errors::new();
    if conditions.len() > 64 {
        errors.too_many(path, conditions.len(), 64);
    }
    let mut names = Vec::new();
    for (path, condition) in indexed(path, conditions) {
        let given = condition.text("expression");
        let here = path.child("expression");
        errors += check::required(&here, given.trim());
        if !given.trim().is_empty() {
            errors += expression::check(&here, given, variables, &["bool"]);
        }
        let name = condition.text("name");
        let here = path.child("name");
        if name.is_empty() {
            errors.required(&here, "");
            continue;
        }
        errors += check::qualified(&here, name);
        errors += check::unique(&here, name, &mut names);
    }
    errors
}
