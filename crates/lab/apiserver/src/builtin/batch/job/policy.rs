//! Completion, success and failure policies of a job.

use machinery::field::{ErrorKind, FieldError, Path};
use machinery::json::go_quote;
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::entry::Errors;
use crate::builtin::value::{Read, indexed};

/// Completions by index or by count.
pub(super) fn check_completion(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let mode = spec.text("completionMode");
    if spec.has("completionMode") {
        let path = path.child("completionMode");
        errors += check::supported(&path, mode, &["NonIndexed", "Indexed"]);
    }
    let failed = spec.int("maxFailedIndexes");
    if mode == "Indexed" {
        let completions = spec.int("completions");
        let parallelism = spec.int("parallelism");
        if completions.is_none() {
            let path = path.child("completions");
            errors.required(&path, "when completion mode is Indexed");
        }
        let mut most = |field: &str, value: Option<i64>, most: i64, when: &str| {
            if let Some(value) = value.filter(|value| *value > most) {
                let detail = format!("must be less than or equal to {when}");
                errors.invalid(&path.child(field), value, detail);
            }
        };
        let when = "100000 when completion mode is Indexed";
        most("parallelism", parallelism, 100_000, when);
        if let Some(completions) = completions {
            most("maxFailedIndexes", failed, completions, "completions");
        }
        most("maxFailedIndexes", failed, 100_000, "100000");
        if completions.unwrap_or_default() > 100_000 && spec.has("backoffLimitPerIndex") {
            let when = "10000 when completions are above 100000 and used with backoff limit per \
                        index";
            most("parallelism", parallelism, 10_000, when);
            most("maxFailedIndexes", failed, 10_000, when);
            if failed.is_none() {
                let detail = "must be specified when completions is above 100000";
                errors.required(&path.child("maxFailedIndexes"), detail);
            }
        }
    } else {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = spec.int(field) {
                let detail = "requires indexed completion mode";
                errors.invalid(&path.child(field), value, detail);
            }
        }
    }
    errors
}

const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];

/// Rules for pods that fail.
pub(super) fn check_failure(path: &Path, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = path.child("rules");
    let rules = spec.items("podFailurePolicy.rules");
    if rules.len() > 20 {
        errors.too_many(&path, rules.len(), 20);
    }
    let containers: Vec<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| spec.at("template.spec").items(field))
        .map(|container| container.text("name"))
        .collect();
    for (path, rule) in indexed(&path, rules) {
        let here = path.child("action");
        match rule.text("action") {
            "" => errors.required(&here, valid_values(ACTIONS)),
            action @ "FailIndex" if !spec.has("backoffLimitPerIndex") => {
                errors.invalid(&here, action, "requires the backoffLimitPerIndex to be set");
            }
            action => errors += check::supported(&here, action, ACTIONS),
        }
        let (codes, conditions) = (rule.at("onExitCodes"), rule.items("onPodConditions"));
        if !codes.is_null() {
            errors += check_exit_codes(&path.child("onExitCodes"), codes, &containers);
        }
        errors += check_conditions(&path.child("onPodConditions"), conditions);
        let detail = match (codes.is_null(), conditions.is_empty()) {
            (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(FieldError::without_value(ErrorKind::Invalid, &path, detail));
    }
    errors
}

fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| go_quote(value)).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn check_exit_codes(path: &Path, codes: &Value, containers: &[&str]) -> Errors {
    let mut errors = Errors::new();
    let operator = codes.text("operator");
    let here = path.child("operator");
    if operator.is_empty() {
        errors.required(&here, valid_values(&["In", "NotIn"]));
    } else {
        errors += check::supported(&here, operator, &["In", "NotIn"]);
    }
    if let Some(name) = codes
        .maybe_text("containerName")
        .filter(|n| !containers.contains(n))
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), name, detail);
    }
    let path = path.child("values");
    let values: Vec<i64> = codes
        .items("values")
        .iter()
        .filter_map(Value::as_i64)
        .collect();
    if values.is_empty() {
        let shown = codes.at("values").clone();
        errors.invalid(&path, shown, "at least one value is required");
    } else if values.len() > 255 {
        errors.too_many(&path, values.len(), 255);
    }
    let mut seen = std::collections::BTreeSet::new();
    for (i, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(&path.index(i), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            errors.duplicate(&path.index(i), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&path, codes.at("values").clone(), "must be ordered");
    }
    errors
}

fn check_conditions(path: &Path, conditions: &[Value]) -> Errors {
    const STATUSES: &[&str] = &["False", "True", "Unknown"];
    let mut errors = Errors::new();
    if conditions.len() > 20 {
        errors.too_many(path, conditions.len(), 20);
    }
    for (path, pattern) in indexed(path, conditions) {
        errors += check::qualified(&path.child("type"), pattern.text("type"));
        let here = path.child("status");
        match pattern.text("status") {
            "" => errors.required(&here, valid_values(STATUSES)),
            status => errors += check::supported(&here, status, STATUSES),
        }
    }
    errors
}

/// Rules for early success.
pub(super) fn check_success(path: &Path, spec: &Value) -> Errors {
    if spec.text("completionMode") != "Indexed" {
        let shown = spec.at("successPolicy").clone();
        return FieldError::invalid(path, shown, "requires indexed completion mode").into();
    }
    let path = path.child("rules");
    let rules = spec.items("successPolicy.rules");
    let mut errors = Errors::new();
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required(&path, detail);
    }
    if rules.len() > 20 {
        errors.too_many(&path, rules.len(), 20);
    }
    let completions = spec.number("completions");
    for (i, rule) in rules.iter().enumerate() {
        errors += check_success_rule(&path.index(i), rule, completions);
    }
    errors
}

fn check_success_rule(path: &Path, rule: &Value, completions: i64) -> Errors {
    let mut errors = Errors::new();
    let (count, indexes) = (
        rule.int("succeededCount"),
        rule.maybe_text("succeededIndexes"),
    );
    if count.is_none() && indexes.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.required(path, detail);
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let path = path.child("succeededIndexes");
        if indexes.len() > 64 * 1024 {
            errors.too_long(&path, 64 * 1024);
        }
        match count_indexes(indexes, completions) {
            Ok(count) => total = count,
            Err(why) => {
                let detail = format!("error parsing succeededIndexes: {why}");
                errors.invalid(&path, indexes, detail);
            }
        }
    }
    if let Some(count) = count {
        let path = path.child("succeededCount");
        errors += check::not_negative(&path, Some(count));
        let mut most = |most: i64, what: &str| {
            if count > most {
                let detail = format!("must be less than or equal to {most} (the number of {what})");
                errors.invalid(&path, count, detail);
            }
        };
        most(completions, "specified completions");
        if indexes.is_some() {
            most(total, "indexes in the specified succeededIndexes field");
        }
    }
    errors
}

/// How many indexes a list such as `0,2-4` has.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let index = |part: &str| {
        let number: i64 = part.parse().map_err(|_| {
            format!(
                "cannot convert string to integer for index: {}",
                go_quote(part)
            )
        })?;
        if number < completions {
            Ok(number)
        } else {
            Err(format!("too large index: {}", go_quote(part)))
        }
    };
    let order = |last: i64, next: i64| {
        Err(format!(
            "non-increasing order, previous: {last}, current: {next}"
        ))
    };
    let (mut last, mut total) = (None, 0);
    for interval in text.split(',') {
        let parts: Vec<&str> = interval.split('-').collect();
        let (from, to) = match parts.as_slice() {
            [one] => (index(one)?, index(one)?),
            [from, to] => {
                let (from, to) = (index(from)?, index(to)?);
                if from >= to {
                    return order(from, to);
                }
                (from, to)
            }
            _ => {
                return Err(format!(
                    "the fragment {} violates the requirement that an index interval can have at \
                     most two parts separated by '-'",
                    go_quote(interval)
                ));
            }
        };
        match last {
            Some(last) if last >= from => return order(last, from),
            _ => last = Some(to),
        }
        // Indexes of any size are parsed; the caller checks their range.
        total = to
            .saturating_sub(from)
            .saturating_add(1)
            .saturating_add(total);
    }
    Ok(total)
}
