//! Probes and lifecycle handlers (`validateProbe`, `validateHandler`).

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Errors;
use crate::builtin::value::Read;

/// A liveness or startup probe, whose success threshold has to be 1.
pub(crate) fn check_single_success(path: &Path, probe: &Value, grace: Option<i64>) -> Errors {
    if probe.is_null() {
        return Errors::new();
    }
    let mut errors = check_probe(path, probe, grace);
    let threshold = probe.number("successThreshold");
    if threshold != 1 {
        errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
    }
    errors
}

/// A readiness probe.
pub(crate) fn check_readiness(path: &Path, probe: &Value, grace: Option<i64>) -> Errors {
    if probe.is_null() {
        return Errors::new();
    }
    let mut errors = check_probe(path, probe, grace);
    if let Some(seconds) = probe.int("terminationGracePeriodSeconds") {
        errors.invalid(
            &path.child("terminationGracePeriodSeconds"),
            seconds,
            "must not be set for readinessProbes",
        );
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
    let counts = "initialDelaySeconds timeoutSeconds periodSeconds successThreshold \
                  failureThreshold";
    errors += check::counts(path, probe, counts);
    match probe.int("terminationGracePeriodSeconds") {
        Some(seconds) if seconds <= 0 => errors.invalid(
            &path.child("terminationGracePeriodSeconds"),
            seconds,
            "must be greater than 0",
        ),
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
            errors += check_handler(&path.child(field), lifecycle.at(field), grace, &sorts);
        }
    }
    if let Some(signal) = lifecycle.maybe_text("stopSignal") {
        let path = path.child("stopSignal");
        match os {
            None => errors.forbidden(
                &path,
                "may not be set for containers with empty `spec.os.name`",
            ),
            Some("windows") => {
                errors += check::supported(&path, signal, &["SIGKILL", "SIGTERM"]);
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
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *sort {
            "exec" if action.items("command").is_empty() => {
                errors.required(&path.child("command"), "");
            }
            "httpGet" => errors += check_http_get(&path, action),
            "tcpSocket" | "grpc" => {
                errors += check::port(&path.child("port"), action.at("port"));
            }
            "sleep" => errors += check_sleep(&path, action.number("seconds"), grace),
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
    errors
}

fn check_http_get(path: &Path, get: &Value) -> Errors {
    let mut errors = check::required(&path.child("path"), get.text("path"));
    errors += check::port(&path.child("port"), get.at("port"));
    errors += check::supported(
        &path.child("scheme"),
        get.text("scheme"),
        &["HTTP", "HTTPS"],
    );
    for header in get.items("httpHeaders") {
        errors += check::header_name(&path.child("httpHeaders"), header.text("name"));
    }
    errors
}

fn check_sleep(path: &Path, seconds: i64, grace: Option<i64>) -> Errors {
    match grace {
        Some(grace) if !(0..=grace).contains(&seconds) => {
            let detail = format!(
                "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            );
            FieldError::invalid(path, seconds, detail).into()
        }
        _ => Errors::new(),
    }
}
