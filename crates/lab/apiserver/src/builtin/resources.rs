//! Resource names and quantities in requests, limits, quotas and capacities.

use std::cmp::Ordering;

use machinery::field::{FieldError, Path};
use machinery::names;
use machinery::quantity::{Format, Quantity};
use serde_json::{Map, Value};

use crate::builtin::check;
use crate::builtin::entry::Errors;
use crate::builtin::value::{Read, indexed};

/// Parses a quantity; an invalid one counts as zero, decoding has rejected it before.
pub(crate) fn quantity(value: &Value) -> Quantity {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(nothing)
}

/// Zero.
pub(crate) fn nothing() -> Quantity {
    Quantity::from_i64(0, Format::DecimalSi)
}

/// Whether the quantity is an integer, at a precision of thousandths.
pub(crate) fn is_whole(amount: &Quantity) -> bool {
    amount.milli_value() % 1000 == 0
}

/// The text of a quantity; `0` when absent.
pub(crate) fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or("0").to_owned()
}

const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Huge pages of some size.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name) || name.starts_with("requests.hugepages-")
}

fn is_native(name: &str) -> bool {
    // Also `example.kubernetes.io/x`: upstream tests for the substring (`pkg/apis/core/v1/helper`).
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::is_qualified_name(&format!("requests.{name}")).is_empty()
}

/// Resources that may be overcommitted.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Errors in the name of any resource.
pub(crate) fn check_name(path: &Path, name: &str) -> Errors {
    let mut errors = check::qualified(path, name);
    if errors.is_empty()
        && !name.contains('/')
        && !STANDARD.contains(&name)
        && !is_quota_huge_page(name)
    {
        let detail = "must be a standard resource type or fully qualified";
        errors.invalid(path, name, detail);
    }
    errors
}

/// Errors in the name of a resource that containers use.
pub(crate) fn check_container_name(path: &Path, name: &str) -> Errors {
    let mut errors = check_name(path, name);
    if !name.contains('/') {
        let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name);
        if !standard {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
    errors
}

/// Errors in the name of a pod-level resource.
pub(crate) fn check_pod_level_name(path: &Path, name: &str) -> Errors {
    let errors = check_name(path, name);
    if !errors.is_empty() || matches!(name, "cpu" | "memory") || is_huge_page(name) {
        return errors;
    }
    FieldError::not_supported(path, name, ["cpu", "hugepages-", "memory"]).into()
}

/// Errors in the name of a resource that a quota limits.
pub(crate) fn check_quota_name(path: &Path, name: &str) -> Errors {
    let mut errors = check_name(path, name);
    if !name.contains('/') && !is_standard_quota(name) {
        errors.invalid(path, name, "must be a standard resource for quota");
    }
    errors
}

/// Resources known to quotas.
pub(crate) fn is_standard_quota(name: &str) -> bool {
    (STANDARD.contains(&name) && name != "storage") || is_quota_huge_page(name)
}

/// Errors in a quantity: negative, or fractional for countable resources.
pub(crate) fn check_amount(path: &Path, name: &str, value: &Value) -> Errors {
    let mut errors = Errors::new();
    let amount = quantity(value);
    if amount.sign() < 0 {
        errors.invalid(path, value.clone(), check::NOT_NEGATIVE);
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !is_whole(&amount) {
        errors.invalid(path, value.clone(), "must be an integer");
    }
    errors
}

/// A quantity that has to be positive.
pub(crate) fn check_positive(path: &Path, value: &Value) -> Errors {
    if quantity(value).sign() > 0 {
        Errors::new()
    } else {
        FieldError::invalid(path, value.clone(), "must be greater than zero").into()
    }
}

/// Requests and limits of a container; `claims` are the pod's claim names.
pub(crate) fn check_requirements(
    path: &Path,
    requirements: &Value,
    name_check: fn(&Path, &str) -> Errors,
    claims: &[&str],
) -> Errors {
    let mut errors = Errors::new();
    let limits_path = path.child("limits");
    let requests_path = path.child("requests");
    let mut compute = false;
    let mut huge_pages = false;
    for (name, value) in requirements.entries("limits") {
        let path = limits_path.key(name);
        errors += name_check(&path, name);
        errors += check_amount(&path, name, value);
        errors += check_huge_page(&path, name, value);
        huge_pages |= is_huge_page(name);
        compute |= matches!(name, "cpu" | "memory");
    }
    for (name, value) in requirements.entries("requests") {
        let path = requests_path.key(name);
        errors += name_check(&path, name);
        errors += check_amount(&path, name, value);
        match requirements.entry("limits", name) {
            Some(limit) => {
                let order = quantity(value).cmp(&quantity(limit));
                let limit = text(Some(limit));
                if order != Ordering::Equal && !may_overcommit(name) {
                    let detail = format!("must be equal to {name} limit of {limit}");
                    errors.invalid(&requests_path, value.clone(), detail);
                } else if order == Ordering::Greater {
                    let detail = format!("must be less than or equal to {name} limit of {limit}");
                    errors.invalid(&requests_path, value.clone(), detail);
                }
            }
            None if !may_overcommit(name) => errors.required(
                &limits_path,
                "Limit must be set for non overcommitable resources",
            ),
            None => {}
        }
        errors += check_huge_page(&path, name, value);
        huge_pages |= is_huge_page(name);
        compute |= matches!(name, "cpu" | "memory");
    }
    if huge_pages && !compute {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    errors += check_claims(&path.child("claims"), requirements.items("claims"), claims);
    errors
}

fn check_huge_page(path: &Path, name: &str, value: &Value) -> Errors {
    let Some(size) = name.strip_prefix("hugepages-") else {
        return Errors::new();
    };
    let divisible = size.parse::<Quantity>().is_ok_and(|size| {
        let (page, amount) = (size.value(), quantity(value).value());
        page > 0 && amount % page == 0
    });
    if divisible {
        return Errors::new();
    }
    let detail = format!(
        "{} is not positive integer multiple of {name}",
        text(Some(value))
    );
    FieldError::invalid(path, value.clone(), detail).into()
}

fn check_claims(path: &Path, claims: &[Value], known: &[&str]) -> Errors {
    let mut errors = Errors::new();
    let mut seen: Vec<String> = Vec::new();
    for (path, claim) in indexed(path, claims) {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        if seen.iter().any(|key| key == name) {
            errors.duplicate(&path, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errors += check::label(&path.child("request"), request);
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                errors.duplicate(&path, key.as_str());
            } else if request.is_empty() {
                let prefix = format!("{name}/");
                let parts = seen.iter().filter(|key| key.starts_with(&prefix)).count();
                errors += (0..parts).map(|_| FieldError::duplicate(&path, name));
            }
            seen.push(key);
        }
        if !known.contains(&name) {
            let mut error = FieldError::not_found(&path, name);
            let names = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            error.detail = format!("must be one of the names in pod.spec.resourceClaims{names}");
            errors.push(error);
        }
    }
    errors
}

/// Rounds quantities up to thousandths, as defaulting does with every resource list.
pub(crate) fn round_up(list: Option<&mut Map<String, Value>>) {
    for value in list.into_iter().flat_map(|list| list.values_mut()) {
        if let Some(amount) = value
            .as_str()
            .and_then(|text| text.parse::<Quantity>().ok())
        {
            let rounded = Quantity::from_milli(amount.milli_value(), amount.format());
            // Quantities too large to count in thousandths have no such fractions.
            if rounded > amount && amount.milli_value() < i64::MAX {
                *value = Value::String(rounded.to_string());
            }
        }
    }
}
