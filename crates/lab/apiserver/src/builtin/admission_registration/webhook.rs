//! Webhook configurations (`pkg/apis/admissionregistration/validation`).

use machinery::field::{FieldError, Path};
use machinery::names::{is_dns1035_label, is_dns1123_subdomain, is_valid_port_num};
use serde_json::{Value, json};

use super::{check_match_conditions, check_rule, default_rules, expression};
use crate::builtin::entry::Errors;
use crate::builtin::value::{Read, existing, fill, items_mut};
use crate::builtin::{check, labels};

/// Sets the defaults of webhooks.
pub(super) fn default(configuration: &mut Value, mutating: bool) {
    for hook in items_mut(configuration, "webhooks") {
        fill(hook, "failurePolicy", "Fail");
        fill(hook, "matchPolicy", "Equivalent");
        fill(hook, "namespaceSelector", json!({}));
        fill(hook, "objectSelector", json!({}));
        fill(hook, "timeoutSeconds", 10);
        if mutating {
            fill(hook, "reinvocationPolicy", "Never");
        }
        default_rules(hook, "rules");
        if let Some(service) = existing(hook, "clientConfig.service") {
            fill(service, "port", 443);
        }
    }
}

const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const VERSIONS: &[&str] = &["v1", "v1beta1"];

/// Errors that the old object had already are ignored.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four mistakes, each made or not"
)]
struct Leniency {
    side_effects: bool,
    versions: bool,
    names: bool,
    conditions: bool,
}

impl Leniency {
    fn of(new: &Value, old: Option<&Value>) -> Self {
        let Some(old) = old else {
            return Self {
                side_effects: false,
                versions: false,
                names: false,
                conditions: false,
            };
        };
        let hooks = old.items("webhooks");
        let names: Vec<&str> = hooks.iter().map(|hook| hook.text("name")).collect();
        let known = |hook: &Value| {
            let versions = hook.texts("admissionReviewVersions");
            versions.is_empty() || versions.iter().any(|version| VERSIONS.contains(version))
        };
        let conditions = |object: &Value| -> Vec<Value> {
            object
                .items("webhooks")
                .iter()
                .map(|hook| hook.at("matchConditions").clone())
                .collect()
        };
        Self {
            side_effects: hooks
                .iter()
                .any(|h| !NO_SIDE_EFFECTS.contains(&h.text("sideEffects"))),
            versions: !hooks.iter().all(known),
            names: names
                .iter()
                .enumerate()
                .any(|(i, name)| names[..i].contains(name)),
            conditions: conditions(new) == conditions(old),
        }
    }
}

/// Checks a configuration.
pub(super) fn check(configuration: &Value, old: Option<&Value>) -> Errors {
    let lenient = Leniency::of(configuration, old);
    let mut errors = Errors::new();
    let mut names = Vec::new();
    for (path, hook) in configuration.each(&Path::root(), "webhooks") {
        errors += check_hook(&path, hook, &lenient);
        errors += check_versions(&path.child("admissionReviewVersions"), hook, &lenient);
        let name = hook.text("name");
        if !lenient.names && !name.is_empty() {
            errors += check::unique(&path.child("name"), name, &mut names);
        }
    }
    errors
}

fn check_hook(path: &Path, hook: &Value, lenient: &Leniency) -> Errors {
    let mut errors = check_name(&path.child("name"), hook.text("name"));
    for (i, rule) in hook.items("rules").iter().enumerate() {
        errors += check_rule(&path.child("rules").index(i), rule);
    }
    errors += check::optional_choice(path, hook, "failurePolicy", &["Fail", "Ignore"]);
    errors += check::optional_choice(path, hook, "matchPolicy", &["Equivalent", "Exact"]);
    let allowed = if lenient.side_effects {
        SIDE_EFFECTS
    } else {
        NO_SIDE_EFFECTS
    };
    let here = path.child("sideEffects");
    match hook.maybe_text("sideEffects") {
        None => {
            errors.required(&here, format!("must specify one of {}", allowed.join(", ")));
        }
        Some(effects) => errors += check::supported(&here, effects, allowed),
    }
    match hook.int("timeoutSeconds") {
        Some(seconds) if !(1..=30).contains(&seconds) => errors.invalid(
            &path.child("timeoutSeconds"),
            seconds,
            "the timeout value must be between 1 and 30 seconds",
        ),
        _ => {}
    }
    for field in ["namespaceSelector", "objectSelector"] {
        errors += labels::check_selector(&path.child(field), hook.at(field));
    }
    errors += check::optional_choice(path, hook, "reinvocationPolicy", &["IfNeeded", "Never"]);
    errors += check_client(&path.child("clientConfig"), hook.at("clientConfig"));
    // Unchanged conditions are not compiled again, so that a stricter release cannot block other
    // changes of the configuration.
    if !lenient.conditions {
        let conditions = hook.items("matchConditions");
        errors += check_match_conditions(
            &path.child("matchConditions"),
            conditions,
            &expression::variables(false),
        );
    }
    errors
}

/// A name that is fully qualified: a domain of three parts or more.
fn check_name(path: &Path, name: &str) -> Errors {
    if name.is_empty() {
        return FieldError::required(path, "").into();
    }
    let messages = is_dns1123_subdomain(name);
    if !messages.is_empty() {
        return FieldError::invalid(path, name, messages.join(",")).into();
    }
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        return FieldError::invalid(path, name, detail).into();
    }
    Errors::new()
}

fn check_versions(path: &Path, hook: &Value, lenient: &Leniency) -> Errors {
    let versions = hook.texts("admissionReviewVersions");
    if versions.is_empty() {
        let detail = format!("must specify one of {}", VERSIONS.join(", "));
        return FieldError::required(path, detail).into();
    }
    let mut errors = Errors::new();
    for (i, version) in versions.iter().enumerate() {
        let path = path.index(i);
        if versions[..i].contains(version) {
            errors.invalid(&path, *version, "duplicate version");
        } else {
            errors += check::invalid_each(&path, version, is_dns1035_label(version));
        }
    }
    if !lenient.versions && !versions.iter().any(|version| VERSIONS.contains(version)) {
        let detail = format!("must include at least one of {}", VERSIONS.join(", "));
        errors.invalid(path, hook.at("admissionReviewVersions").clone(), detail);
    }
    errors
}

fn check_client(path: &Path, config: &Value) -> Errors {
    match (config.maybe_text("url"), config.has("service")) {
        (Some(url), false) => check_url(&path.child("url"), url),
        (None, true) => check_service(&path.child("service"), config.at("service")),
        _ => FieldError::required(path, "exactly one of url or service is required").into(),
    }
}

/// A URL in parts, as Go's `url.Parse` takes it apart.
fn check_url(path: &Path, text: &str) -> Errors {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut errors = Errors::new();
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => (scheme.to_lowercase(), rest),
        _ => (String::new(), rest),
    };
    let authority = rest
        .strip_prefix("//")
        .map(|rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = match authority.unwrap_or_default().rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.unwrap_or_default()),
    };
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.invalid(path, scheme, detail);
    }
    if host.is_empty() {
        errors.invalid(path, "", format!("host must be specified{FORM}"));
    }
    for (part, detail) in [
        (user, "user information is not permitted in the URL"),
        (
            Some(fragment).filter(|f| !f.is_empty()),
            "fragments are not permitted in the URL",
        ),
        (
            Some(query).filter(|q| !q.is_empty()),
            "query parameters are not permitted in the URL",
        ),
    ] {
        if let Some(part) = part {
            errors.invalid(path, part, detail);
        }
    }
    errors
}

fn check_service(path: &Path, service: &Value) -> Errors {
    // Upstream swaps name and namespace here, so each is reported missing under the other.
    let mut errors = check::required(&path.child("name"), service.text("namespace"));
    errors += check::required(&path.child("namespace"), service.text("name"));
    let port = service.number("port");
    let messages = is_valid_port_num(port);
    if !messages.is_empty() {
        let detail = format!("port is not valid: {}", messages.join(", "));
        errors.invalid(&path.child("port"), port, detail);
    }
    let at = service.text("path");
    let path = path.child("path");
    let mut wrong = |detail: String| errors.invalid(&path, at, detail);
    match at {
        "" | "/" => {}
        "//" => wrong("segment[0] may not be empty".to_owned()),
        _ => {
            if !at.starts_with('/') {
                wrong("must start with a '/'".to_owned());
            }
            let mut letters = at.chars();
            letters.next();
            let steps = letters.as_str();
            let steps = steps.strip_suffix('/').unwrap_or(steps);
            for (i, step) in steps.split('/').enumerate() {
                if step.is_empty() {
                    wrong(format!("segment[{i}] may not be empty"));
                    continue;
                }
                for message in is_dns1123_subdomain(step) {
                    wrong(format!("segment[{i}]: {message}"));
                }
            }
        }
    }
    errors
}
