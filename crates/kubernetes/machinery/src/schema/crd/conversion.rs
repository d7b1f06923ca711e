//! How versions of a CRD are converted.

use serde_json::{Value, json};

use super::{dns1035_label, dns1123_subdomain, one_of};
use crate::field::{ErrorList, FieldError, Path};
use crate::schema::node::Node;

/// Everything wrong with `spec.conversion`.
pub(super) fn check(spec: Node<'_>, preserve_unknown: bool, path: &Path) -> Vec<FieldError> {
    let Some(conversion) = spec.child("conversion") else {
        return Vec::new();
    };
    let strategy = conversion.text("strategy");
    let at_strategy = path.child("strategy");
    let mut errors = Vec::new();
    if preserve_unknown && strategy != "None" {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(&at_strategy, strategy, detail);
    }
    errors.extend(one_of(&at_strategy, strategy, ["None", "Webhook"]));
    let webhook = conversion.child("webhook");
    let client = webhook.and_then(|w| w.child("clientConfig"));
    let reviews = webhook
        .map(|w| w.texts("conversionReviewVersions"))
        .unwrap_or_default();
    // The internal form has the two fields of the webhook side by side.
    let at_client = path.child("webhookClientConfig");
    let at_reviews = path.child("conversionReviewVersions");
    if strategy == "Webhook" {
        match client {
            None => {
                let detail = "required when strategy is set to Webhook";
                errors.required(&at_client, detail);
            }
            Some(client) => errors.extend(client_config(client, &at_client)),
        }
        errors.extend(review_versions(&reviews, &at_reviews));
    } else {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.forbidden(&at_client, detail);
        }
        if !reviews.is_empty() {
            errors.forbidden(&at_reviews, detail);
        }
    }
    errors
}

fn client_config(client: Node<'_>, path: &Path) -> Vec<FieldError> {
    match (
        client.get("url").and_then(Value::as_str),
        client.child("service"),
    ) {
        (Some(url), None) => webhook_url(url, &path.child("url")),
        (None, Some(service)) => webhook_service(service, &path.child("service")),
        _ => vec![FieldError::required(
            path,
            "exactly one of url or service is required",
        )],
    }
}

fn webhook_url(url: &str, path: &Path) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut errors = Vec::new();
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_scheme = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, after)) if is_scheme(scheme) => (scheme, after),
        _ => ("", rest),
    };
    let authority = rest
        .strip_prefix("//")
        .and_then(|r| r.split('/').next())
        .unwrap_or_default();
    let (user, host) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(u, h)| (Some(u), h));
    if !scheme.eq_ignore_ascii_case("https") {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.invalid(path, scheme.to_ascii_lowercase(), detail);
    }
    if host.is_empty() {
        errors.invalid(path, "", format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        let detail = "user information is not permitted in the URL";
        errors.invalid(path, user, detail);
    }
    if !fragment.is_empty() {
        errors.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        let detail = "query parameters are not permitted in the URL";
        errors.invalid(path, query, detail);
    }
    errors
}

fn webhook_service(service: Node<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Upstream passes name and namespace in the wrong order, so each is reported as the other.
    for (key, reported) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(key).is_empty() {
            errors.required(&path.child(reported), "");
        }
    }
    let port = service
        .get("port")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&path.child("port"), port, detail);
    }
    let url_path = service.text("path");
    let at = path.child("path");
    let mut wrong = |detail: String| errors.invalid(&at, url_path, detail);
    if url_path.is_empty() || url_path == "/" {
        return errors;
    }
    if url_path == "//" {
        wrong("segment[0] may not be empty".to_owned());
        return errors;
    }
    if !url_path.starts_with('/') {
        wrong("must start with a '/'".to_owned());
    }
    let mut rest = url_path.chars();
    rest.next();
    let inner = rest.as_str();
    for (i, step) in inner
        .strip_suffix('/')
        .unwrap_or(inner)
        .split('/')
        .enumerate()
    {
        if step.is_empty() {
            wrong(format!("segment[{i}] may not be empty"));
            continue;
        }
        for failure in dns1123_subdomain(step) {
            wrong(format!("segment[{i}]: {failure}"));
        }
    }
    errors
}

fn review_versions(versions: &[&str], path: &Path) -> Vec<FieldError> {
    if versions.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let at = path.index(i);
        if versions.iter().take(i).any(|earlier| earlier == version) {
            // The value was checked at its first occurrence.
            errors.invalid(&at, *version, "duplicate version");
            continue;
        }
        for wrong in dns1035_label(version) {
            errors.invalid(&at, *version, wrong);
        }
    }
    if !versions
        .iter()
        .any(|version| matches!(*version, "v1" | "v1beta1"))
    {
        let detail = "must include at least one of v1, v1beta1";
        errors.invalid(path, json!(versions), detail);
    }
    errors
}
