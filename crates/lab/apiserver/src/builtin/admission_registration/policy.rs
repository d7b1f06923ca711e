//! Validating admission policies and their bindings.

use machinery::cel::{Environment, is_identifier};
use machinery::field::Path;
use machinery::names::{is_dns1035_label, is_dns1123_subdomain};
use serde_json::{Value, json};

use super::{GROUP, check_match_conditions, check_rule, default_rules, expression};
use crate::builtin::entry::Capability::{ConditionalUpdate, Generation, Status};
use crate::builtin::entry::Cell::{Count, Of, Text};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, existing, fill, keep, set};
use crate::builtin::{check, labels, print};
use crate::kind::Part;

/// Policies.
pub(super) const POLICY: Entry = Entry {
    categories: &["api-extensions"],
    namespaced: false,
    capabilities: &[Generation, Status, ConditionalUpdate],
    default: |policy| {
        // A policy that cannot be evaluated rejects: it is there to keep something out.
        fill(policy, "spec.failurePolicy", "Fail");
        default_match(policy, "spec.matchConstraints");
    },
    prepare_create: |policy, _| set(policy, "status", json!({})),
    prepare_update: |new, old, part, _| match part {
        Part::Status => {
            keep(new, old, "spec");
            crate::builtin::core::pod::keep_metadata(new, old);
        }
        _ => keep(new, old, "status"),
    },
    validate: check_policy,
    validate_update: |new, _, part| match part {
        Part::Status => Errors::new(),
        _ => check_policy(new),
    },
    columns: POLICY_COLUMNS,
    status_resets: &["metadata", "spec"],
    ..Entry::new(
        GROUP,
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
    )
};

const POLICY_COLUMNS: &[Column] = &[
    NAME,
    column!("Validations" integer Count("spec.validations") => "How many rules there are"),
    column!("ParamKind" string Of(|policy| match policy.at("spec.paramKind") {
        Value::Null => "<unset>".into(),
        kind => format!("{}/{}", kind.text("apiVersion"), kind.text("kind")).into(),
    }) => "Kind of the parameters"),
    AGE,
];

/// Bindings.
pub(super) const BINDING: Entry = Entry {
    categories: &["api-extensions"],
    namespaced: false,
    capabilities: &[Generation, ConditionalUpdate],
    default: |binding| default_match(binding, "spec.matchResources"),
    validate: check_binding,
    validate_update: |new, _, _| check_binding(new),
    columns: BINDING_COLUMNS,
    ..Entry::new(
        GROUP,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    )
};

const BINDING_COLUMNS: &[Column] = &[
    NAME,
    column!("PolicyName" string Text("spec.policyName") => "The policy that is bound"),
    column!("ParamRef" string Of(param_ref) => "The parameters it is bound with"),
    AGE,
];

fn param_ref(binding: &Value) -> Value {
    let reference = binding.at("spec.paramRef");
    match (reference.text("name"), reference.text("namespace")) {
        ("", _) if reference.has("selector") => print::selector(reference.at("selector")),
        ("", _) => "<unset>".into(),
        (name, "") => format!("*/{name}").into(),
        (name, namespace) => format!("{namespace}/{name}").into(),
    }
}

fn default_match(owner: &mut Value, path: &str) {
    if let Some(resources) = existing(owner, path) {
        // Otherwise a request through another version of the API would get past the policy.
        fill(resources, "matchPolicy", "Equivalent");
        fill(resources, "namespaceSelector", json!({}));
        fill(resources, "objectSelector", json!({}));
        default_rules(resources, "resourceRules");
        default_rules(resources, "excludeResourceRules");
    }
}

fn check_policy(policy: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = policy.at("spec");
    let mut errors = Errors::new();
    errors += check::choice(&path, spec, "failurePolicy", &["Fail", "Ignore"]);
    errors += check::if_set(&path, spec, "paramKind", check_param_kind);
    let here = path.child("matchConstraints");
    if spec.has("matchConstraints") {
        errors += check_match(&here, spec.at("matchConstraints"));
        if spec.count("matchConstraints.resourceRules") == 0 {
            errors.required(&here.child("resourceRules"), "");
        }
    } else {
        errors.required(&here, "");
    }
    let conditions = spec.items("matchConditions");
    let variables = expression::variables(spec.has("paramKind"));
    errors += check_match_conditions(&path.child("matchConditions"), conditions, &variables);
    let composed = expression::with_composed(variables);
    for (i, variable) in spec.items("variables").iter().enumerate() {
        errors += check_variable(&path.child("variables").index(i), variable, &composed);
    }
    let (validations, audits) = (spec.items("validations"), spec.items("auditAnnotations"));
    if validations.is_empty() && audits.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        for field in ["validations", "auditAnnotations"] {
            errors.required(&path.child(field), detail);
        }
    }
    for (i, validation) in validations.iter().enumerate() {
        errors += check_validation(&path.child("validations").index(i), validation, &composed);
    }
    errors += check_audits(
        &path.child("auditAnnotations"),
        spec,
        policy.name(),
        &composed,
    );
    errors
}

fn check_param_kind(path: &Path, kind: &Value) -> Errors {
    let mut errors = Errors::new();
    let version = kind.text("apiVersion");
    let here = path.child("apiVersion");
    match machinery::gvk::split_api_version(version) {
        _ if version.is_empty() => errors.required(&here, ""),
        None => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.invalid(&here, version, detail);
        }
        Some((group, short)) => {
            let messages = is_dns1123_subdomain(group);
            if !group.is_empty() && !messages.is_empty() {
                errors.invalid(&here, group, messages.join(","));
            }
            let messages = is_dns1035_label(short);
            if short.is_empty() {
                errors.invalid(&here, version, "version must be specified");
            } else if !messages.is_empty() {
                errors.invalid(&here, short, messages.join(","));
            }
        }
    }
    let name = kind.text("kind");
    let messages = is_dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        errors.required(&path.child("kind"), "");
    } else if !messages.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            messages.join(",")
        );
        errors.invalid(&path.child("kind"), name, detail);
    }
    errors
}

fn check_match(path: &Path, resources: &Value) -> Errors {
    let mut errors = Errors::new();
    errors += check::choice(path, resources, "matchPolicy", &["Equivalent", "Exact"]);
    for field in ["namespaceSelector", "objectSelector"] {
        if resources.has(field) {
            errors += labels::check_selector(&path.child(field), resources.at(field));
        } else {
            errors.required(&path.child(field), "");
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (path, rule) in resources.each(path, list) {
            let names = rule.texts("resourceNames");
            for (j, name) in names.iter().enumerate() {
                let path = path.child("resourceNames").index(j);
                errors += check::segment(&path, name);
                if names[..j].contains(name) {
                    errors.duplicate(&path, *name);
                }
            }
            errors += check_rule(&path, rule);
        }
    }
    errors
}

fn check_variable(path: &Path, variable: &Value, variables: &Environment) -> Errors {
    let mut errors = Errors::new();
    let name = variable.text("name");
    if name.trim().is_empty() {
        errors.required(&path.child("name"), "name is not specified");
    } else if !is_identifier(name) {
        errors.invalid(&path.child("name"), name, "must be a valid CEL identifier");
    }
    let given = variable.text("expression");
    let path = path.child("expression");
    if given.trim().is_empty() {
        errors.required(&path, "expression is not specified");
    } else {
        errors += expression::check(&path, given, variables, &[]);
    }
    errors
}

fn check_validation(path: &Path, validation: &Value, variables: &Environment) -> Errors {
    let mut errors = Errors::new();
    let given = validation.text("expression");
    let here = path.child("expression");
    if given.trim().is_empty() {
        errors.required(&here, "expression is not specified");
    } else {
        errors += expression::check(&here, given, variables, &["bool"]);
    }
    for field in ["messageExpression", "message"] {
        let text = validation.text(field);
        let here = path.child(field);
        if !text.is_empty() && text.trim().is_empty() {
            errors.invalid(&here, text, "must be non-empty if specified");
        } else if field == "messageExpression" && !text.is_empty() {
            errors += expression::check(&here, text, variables, &["string"]);
        } else if field == "message" && text.trim().contains(['\n', '\r']) {
            errors.invalid(&here, text, "must not contain line breaks");
        }
    }
    let accepted = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    errors += check::optional_choice(path, validation, "reason", &accepted);
    errors
}

fn check_audits(path: &Path, spec: &Value, policy: &str, variables: &Environment) -> Errors {
    let audits = spec.items("auditAnnotations");
    let mut errors = Errors::new();
    if audits.len() > 20 {
        let shown = spec.at("auditAnnotations").clone();
        errors.invalid(path, shown, "must not have more than 20 auditAnnotations");
    }
    for (i, audit) in audits.iter().enumerate() {
        let path = path.index(i);
        let key = audit.text("key");
        let here = path.child("key");
        if policy.is_empty() {
            let detail = "requires metadata.name be non-empty";
            errors.invalid(&here, key, detail);
        } else {
            errors += check::qualified(&here, &format!("{policy}/{key}"));
        }
        let given = audit.text("valueExpression");
        let here_value = path.child("valueExpression");
        if given.trim().is_empty() {
            let detail = "valueExpression is not specified";
            errors.required(&here_value, detail);
        } else if given.trim().len() > 5 * 1024 {
            let detail = "must not exceed 5120 bytes in length";
            errors.required(&here_value, detail);
        } else {
            let results = ["string", "null_type"];
            errors += expression::check(&here_value, given, variables, &results);
        }
        if audits[..i].iter().any(|other| other.text("key") == key) {
            errors.duplicate(&here, key);
        }
    }
    errors
}

fn check_binding(binding: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = binding.at("spec");
    let mut errors = Errors::new();
    errors += check::required_as(&path, spec, "policyName", check::subdomain);
    errors += check::if_set(&path, spec, "paramRef", check_param_ref);
    errors += check::if_set(&path, spec, "matchResources", check_match);
    let here = path.child("validationActions");
    let actions = spec.texts("validationActions");
    for (i, action) in actions.iter().enumerate() {
        errors += check::supported(&here.index(i), action, &["Audit", "Deny", "Warn"]);
        if actions[..i].contains(action) {
            errors.duplicate(&here.index(i), *action);
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure \
                      information in the API response and headers serves no purpose)";
        errors.invalid(&here, spec.at("validationActions").clone(), detail);
    }
    if actions.is_empty() {
        errors.required(&here, "at least one validation action is required");
    }
    errors
}

fn check_param_ref(path: &Path, reference: &Value) -> Errors {
    let mut errors = Errors::new();
    let name = reference.text("name");
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        errors += check::segment(&path.child("name"), name);
        if reference.has("selector") {
            errors.forbidden(&path.child("name"), exclusive);
        }
    }
    if reference.has("selector") {
        let here = path.child("selector");
        errors += labels::check_selector(&here, reference.at("selector"));
        if !name.is_empty() {
            errors.forbidden(&here, exclusive);
        }
    } else if name.is_empty() {
        errors.required(path, "one of name or selector must be specified");
    }
    errors += check::choice(
        path,
        reference,
        "parameterNotFoundAction",
        &["Deny", "Allow"],
    );
    errors
}
