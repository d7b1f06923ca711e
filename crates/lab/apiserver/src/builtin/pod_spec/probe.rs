//! Probes and lifecycle handlers.

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Errors;
use crate::builtin::value::Read;

/// A liveness or startup probe, whose success threshold has to be 1.
pub(crate) fn check_single_success(path: &Path, probe: &Value, grace: Option<i64>) -> Errors {
    if probe.is_null() {
        return Vec::new();
    }
    let mut errors = check_probe(path, probe, grace);
    let threshold = probe.number("successThreshold");
    if threshold != 1 {
        errors.push(FieldError::invalid(
            &path.child("successThreshold"),
            threshold,
            "must be 1",
        ));
    }
    errors
}

/// A readiness probe.
pub(crate) fn check_readiness(path: &Path, probe: &Value, grace: Option<i64>) -> Errors {
    if probe.is_null() {
        return Vec::new();
    }
    let mut errors = check_probe(path, probe, grace);
    if let Some(seconds) = probe.int("terminationGracePeriodSeconds") {
        errors.push(FieldError::invalid(
            &path.child("terminationGracePeriodSeconds"),
            seconds,
            "must not be set for readinessProbes",
        ));
    }
    errors
}

fn check_probe(path: &Path, probe: &Value, grace: Option<i64>) -> Errors {
    let mut errors = check_handler(
        path,
        probe,
        grace,
        &["exec", "httpGet", "tcpSocket", "grpc"],
    );
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errors.extend(check::not_negative(&path.child(field), probe.int(field)));
    }
    match probe.int("terminationGracePeriodSeconds") {
        Some(seconds) if seconds <= 0 => errors.push(FieldError::invalid(
            &path.child("terminationGracePeriodSeconds"),
            seconds,
            "must be greater than 0",
        )),
        _ => {}
    }
    errors
}

/// Lifecycle handlers of a container.
pub(crate) fn check_lifecycle(
    path: &Path,
    lifecycle: &Value,
    grace: Option<i64>,
    os: Option<&str>,
) -> Errors {
    let mut errors = Errors::new();
    for field in ["postStart", "preStop"] {
        if lifecycle.has(field) {
            let sorts = ["exec", "httpGet", "tcpSocket", "sleep"];
            errors.extend(check_handler(
                &path.child(field),
                lifecycle.at(field),
                grace,
                &sorts,
            ));
        }
    }
    if let Some(signal) = lifecycle.maybe_text("stopSignal") {
        let path = path.child("stopSignal");
        match os {
            None => errors.push(FieldError::forbidden(
                &path,
                "may not be set for containers with empty `spec.os.name`",
            )),
            Some("windows") => {
                errors.extend(check::supported(&path, signal, &["SIGKILL", "SIGTERM"]));
            }
            Some(_) => {}
        }
    }
    errors
}

fn check_handler(path: &Path, handler: &Value, grace: Option<i64>, sorts: &[&str]) -> Errors {
    let mut errors = Errors::new();
    let mut found = false;
    for sort in sorts {
        let action = handler.at(sort);
        if action.is_null() {
            continue;
        }
        let path = path.child(sort);
        if found {
            errors.push(FieldError::forbidden(
                &path,
                "may not specify more than 1 handler type",
            ));
            continue;
        }
        found = true;
        match *sort {
            "exec" if action.items("command").is_empty() => {
                errors.push(FieldError::required(&path.child("command"), ""));
            }
            "httpGet" => errors.extend(check_http_get(&path, action)),
            "tcpSocket" | "grpc" => {
                errors.extend(check::port(&path.child("port"), action.at("port")));
            }
            "sleep" => errors.extend(check_sleep(&path, action.number("seconds"), grace)),
            _ => {}
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
    errors
}

fn check_http_get(path: &Path, get: &Value) -> Errors {
    let mut errors = check::required(&path.child("path"), get.text("path"));
    errors.extend(check::port(&path.child("port"), get.at("port")));
    errors.extend(check::supported(
        &path.child("scheme"),
        get.text("scheme"),
        &["HTTP", "HTTPS"],
    ));
    for header in get.items("httpHeaders") {
        errors.extend(check::header_name(
            &path.child("httpHeaders"),
            header.text("name"),
        ));
    }
    errors
}

fn check_sleep(path: &Path, seconds: i64, grace: Option<i64>) -> Errors {
    match grace {
        Some(grace) if !(0..=grace).contains(&seconds) => {
            let detail = format!(
                "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            );
            vec![FieldError::invalid(path, seconds, detail)]
        }
        _ => Vec::new(),
    }
}
