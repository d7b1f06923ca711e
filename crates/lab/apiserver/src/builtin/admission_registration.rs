//! The `admissionregistration.k8s.io` group: webhooks and admission policies.

mod expression;
mod policy;
mod webhook;

use machinery::cel::Environment;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::check;
use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column};
use crate::builtin::print;
use crate::builtin::value::{Read, fill, items_mut};

const GROUP: &str = "admissionregistration.k8s.io";

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[MUTATING, policy::POLICY, policy::BINDING, VALIDATING];

const WEBHOOK_COLUMNS: &[Column] = &[
    NAME,
    column("Webhooks", "integer", "How many webhooks are configured"),
    AGE,
];

const MUTATING: Entry = Entry {
    categories: &["api-extensions"],
    namespaced: false,
    capabilities: Capabilities {
        generation: true,
        conditional_update: true,
        ..Capabilities::NONE
    },
    default: |configuration| webhook::default(configuration, true),
    prepare_create: |_, _| (),
    prepare_update: |_, _, _, _| (),
    validate: |configuration| webhook::check(configuration, None),
    validate_update: |new, old, _| webhook::check(new, Some(old)),
    columns: WEBHOOK_COLUMNS,
    cells: |configuration, now| {
        let count = configuration.count("webhooks");
        vec![
            configuration.name().into(),
            json!(count),
            print::age(configuration, now),
        ]
    },
    ..Entry::new(
        GROUP,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
    )
};

const VALIDATING: Entry = Entry {
    kind: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
    singular: "validatingwebhookconfiguration",
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
    errors.extend(missing("operations"));
    errors.extend(alone("operations", "operations"));
    for (i, operation) in rule.texts("operations").iter().enumerate() {
        errors.extend(check::supported(
            &path.child("operations").index(i),
            operation,
            OPERATIONS,
        ));
    }
    errors.extend(missing("apiGroups"));
    errors.extend(alone("apiGroups", "API groups"));
    errors.extend(missing("apiVersions"));
    errors.extend(alone("apiVersions", "API versions"));
    for (i, version) in rule.texts("apiVersions").iter().enumerate() {
        errors.extend(check::required(
            &path.child("apiVersions").index(i),
            version,
        ));
    }
    errors.extend(check_resources(&path.child("resources"), rule));
    errors.extend(check::maybe_one_of(
        &path.child("scope"),
        rule.maybe_text("scope"),
        &["*", "Cluster", "Namespaced"],
    ));
    errors
}

fn check_resources(path: &Path, rule: &Value) -> Errors {
    let resources = rule.texts("resources");
    let mut errors = Errors::new();
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_of, mut of_all) = (Vec::new(), Vec::new());
    let mut plain = false;
    for (i, resource) in resources.iter().enumerate() {
        let path = path.index(i);
        if resource.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let Some((main, sub)) = resource.split_once('/') else {
            plain = *resource != "*";
            continue;
        };
        if all_of.contains(&main) {
            let detail = format!("if '{main}/*' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&path, *resource, detail));
        }
        if of_all.contains(&sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&path, *resource, detail));
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
        errors.push(FieldError::invalid(path, shown.clone(), detail));
    }
    if resources.contains(&"*") && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, shown.clone(), detail));
    }
    errors
}

/// Conditions on requests; the expressions themselves are compiled elsewhere.
fn check_match_conditions(path: &Path, conditions: &[Value], variables: &Environment) -> Errors {
    let mut errors = Errors::new();
    if conditions.len() > 64 {
        errors.push(FieldError::too_many(path, conditions.len(), 64));
    }
    let mut names = Vec::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let given = condition.text("expression");
        let here = path.child("expression");
        errors.extend(check::required(&here, given.trim()));
        if !given.trim().is_empty() {
            errors.extend(expression::check(&here, given, variables, &["bool"]));
        }
        let name = condition.text("name");
        let here = path.child("name");
        if name.is_empty() {
            errors.push(FieldError::required(&here, ""));
            continue;
        }
        errors.extend(check::qualified(&here, name));
        if names.contains(&name) {
            errors.push(FieldError::duplicate(&here, name));
        }
        names.push(name);
    }
    errors
}
