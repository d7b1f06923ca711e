//! Quotas and limit ranges (`ValidateResourceQuota`, `ValidateLimitRange`).

use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::entry::Capability::{CreateOnUpdate, DeleteReturnsObject, Status};
use crate::builtin::entry::Cell::Of;
use crate::builtin::entry::{AGE, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, items_mut, object_at, same, set};
use crate::builtin::{check, resources};
use crate::kind::Part;

/// Resource quotas.
pub(crate) const QUOTA: Entry = Entry {
    short_names: &["quota"],
    capabilities: &[Status, DeleteReturnsObject],
    prepare_create: |quota, _| set(quota, "status", json!({})),
    validate: validate_quota,
    validate_update: |new, old, part| {
        if part == Part::Status {
            check_status(new)
        } else {
            let mut errors = validate_quota(new);
            let sorted = |object: &Value| {
                let mut scopes: Vec<String> = object
                    .texts("spec.scopes")
                    .into_iter()
                    .map(str::to_owned)
                    .collect();
                scopes.sort();
                scopes.dedup();
                scopes
            };
            if sorted(new) != sorted(old) {
                let path = Path::new("spec.scopes");
                let scopes = new.at("spec.scopes").clone();
                errors.invalid(&path, scopes, check::IMMUTABLE);
            }
            errors
        }
    },
    columns: &[
        NAME,
        column!("Request" string Of(|quota| amounts(quota, |name| !name.starts_with("limits.")))
            => "Used and hard amounts, other than limits"),
        column!("Limit" string Of(|quota| amounts(quota, |name| name.starts_with("limits.")))
            => "Used and hard amounts of limits"),
        AGE,
    ],
    ..Entry::new("", "v1", "ResourceQuota", "resourcequotas")
};

/// Limit ranges.
pub(crate) const LIMIT_RANGE: Entry = Entry {
    short_names: &["limits"],
    capabilities: &[CreateOnUpdate],
    default: default_limits,
    validate: validate_limits,
    validate_update: |new, _, _| validate_limits(new),
    ..Entry::new("", "v1", "LimitRange", "limitranges")
};

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

fn scope_fits(scope: &str, resource: &str) -> bool {
    let pods = resource == "pods";
    let compute = matches!(
        resource,
        "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory"
    );
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => pods || compute,
        "BestEffort" => pods,
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => true,
    }
}

fn check_list(path: &Path, list: &Value) -> Errors {
    let mut errors = Errors::new();
    for (name, value) in list.entries("") {
        errors += resources::check_quota_name(&path.key(name), name);
        errors += resources::check_amount(&path.key(name), name, value);
    }
    errors
}

fn check_status(quota: &Value) -> Errors {
    let mut errors = check_list(&Path::new("status.hard"), quota.at("status.hard"));
    errors += check_list(&Path::new("status.used"), quota.at("status.used"));
    errors
}

fn validate_quota(quota: &Value) -> Errors {
    let spec = quota.at("spec");
    let path = Path::new("spec");
    let mut errors = check_list(&path.child("hard"), spec.at("hard"));
    let hard: Vec<&str> = spec
        .entries("hard")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let unfit = |scope: &str| {
        let hard = hard
            .iter()
            .filter(|name| resources::is_standard_quota(name));
        hard.filter(|name| !scope_fits(scope, name)).count()
    };
    let scopes = spec.texts("scopes");
    let here = path.child("scopes");
    let wrong = |detail: &str| FieldError::invalid(&here, spec.at("scopes").clone(), detail);
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.push(wrong("unsupported scope"));
        }
        errors += (0..unfit(scope)).map(|_| wrong("unsupported scope applied to resource"));
    }
    for pair in [
        ["BestEffort", "NotBestEffort"],
        ["NotTerminating", "Terminating"],
    ] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.push(wrong("conflicting scopes"));
        }
    }
    errors += check_scope_selector(&path.child("scopeSelector"), spec, &unfit);
    errors
}

fn check_scope_selector(path: &Path, spec: &Value, unfit: &dyn Fn(&str) -> usize) -> Errors {
    let mut errors = Errors::new();
    let path = path.child("matchExpressions");
    for expression in spec.items("scopeSelector.matchExpressions") {
        let (scope, operator) = (expression.text("scopeName"), expression.text("operator"));
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..unfit(scope) {
            let detail = "unsupported scope applied to resource";
            errors.invalid(&path, spec.at("scopeSelector").clone(), detail);
        }
        let exists_only = !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if exists_only && SCOPES.contains(&scope) && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or \
                          ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(&path.child("operator"), operator, detail);
        }
        let values = expression.texts("values");
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.required(
                &path.child("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.invalid(
                &path.child("values"),
                expression.at("values").clone(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(
                &path.child("operator"),
                other,
                "not a valid selector operator",
            ),
        }
    }
    errors
}

fn amounts(quota: &Value, shown: fn(&str) -> bool) -> Value {
    let hard = quota.entries("status.hard").into_iter();
    let amounts = hard.filter(|(name, _)| shown(name)).map(|(name, hard)| {
        let used = resources::text(quota.entry("status.used", name));
        format!("{name}: {used}/{}", resources::text(Some(hard)))
    });
    amounts.collect::<Vec<_>>().join(", ").into()
}

/// Derives missing fields of a container range from the others.
fn default_limits(range: &mut Value) {
    for limit in items_mut(range, "spec.limits") {
        if limit.text("type") != "Container" {
            continue;
        }
        let max = limit.map("max").cloned().unwrap_or_default();
        let min = limit.map("min").cloned().unwrap_or_default();
        let Some(default) = object_at(limit, "default") else {
            continue;
        };
        for (name, value) in max {
            default.entry(name).or_insert(value);
        }
        let default = default.clone();
        if let Some(request) = object_at(limit, "defaultRequest") {
            for (name, value) in default.into_iter().chain(min) {
                request.entry(name).or_insert(value);
            }
        }
        for field in ["default", "defaultRequest"] {
            if limit.count(field) == 0 {
                crate::builtin::value::remove(limit, field);
            }
        }
    }
}

fn validate_limits(range: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut seen = Vec::new();
    for (path, limit) in range.each(&Path::root(), "spec.limits") {
        let sort = limit.text("type");
        let mut wrong = check::qualified(&path.child("type"), sort);
        let standard = matches!(sort, "Pod" | "Container" | "PersistentVolumeClaim");
        if wrong.is_empty() && !sort.contains('/') && !standard {
            let detail = "must be a standard limit type or fully qualified";
            wrong.push(FieldError::invalid(&path.child("type"), sort, detail));
        }
        errors += wrong;
        errors += check::unique(&path.child("type"), sort, &mut seen);
        errors += check_limit(&path, limit);
    }
    errors
}

fn check_limit(path: &Path, limit: &Value) -> Errors {
    let sort = limit.text("type");
    let check_name = if matches!(sort, "Pod" | "Container") {
        resources::check_container_name
    } else {
        resources::check_name
    };
    let mut errors = Errors::new();
    let mut names: Vec<&str> = Vec::new();
    for field in [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ] {
        if sort == "Pod" && field.starts_with("default") {
            if limit.count(field) > 0 {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.forbidden(&path.child(field), detail);
            }
            continue;
        }
        if field == "maxLimitRequestRatio"
            && sort == "PersistentVolumeClaim"
            && limit.entry("min", "storage").is_none()
            && limit.entry("max", "storage").is_none()
        {
            let detail = "either minimum or maximum storage value is required, but neither was \
                          provided";
            errors.required(&path.child("limits"), detail);
        }
        for (name, _) in limit.entries(field) {
            errors += check_name(&path.child(field).key(name), name);
            names.push(name);
        }
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        errors += check_order(path, limit, name);
    }
    errors
}

/// The amounts of one resource have to be in order: min, default request, default, max.
fn check_order(path: &Path, limit: &Value, name: &str) -> Errors {
    let of = |field: &str| match (limit.text("type"), field) {
        ("Pod", "default" | "defaultRequest") => None,
        _ => limit.entry(field, name),
    };
    // Lower, upper, where to report, and whether to show the lower one.
    let rules = [
        ("min", "max", "min", true),
        ("min", "defaultRequest", "defaultRequest", false),
        ("defaultRequest", "max", "defaultRequest", true),
        ("defaultRequest", "default", "defaultRequest", true),
        ("min", "default", "default", true),
        ("default", "max", "default", false),
    ];
    let described = |field: &str, low: &str| match (field, low) {
        ("defaultRequest", _) => "default request",
        ("default", "defaultRequest") => "default limit",
        ("min", _) => "min",
        ("max", _) => "max",
        _ => "default",
    };
    let mut errors = Errors::new();
    for (low, high, at, show_low) in rules {
        let (Some(lower), Some(upper)) = (of(low), of(high)) else {
            continue;
        };
        if resources::quantity(lower) > resources::quantity(upper) {
            let detail = format!(
                "{} value {} is greater than {} value {}",
                described(low, ""),
                resources::text(Some(lower)),
                described(high, low),
                resources::text(Some(upper))
            );
            let shown = if show_low { lower } else { upper }.clone();
            errors.invalid(&path.child(at).key(name), shown, detail);
        }
    }
    if let Some(ratio) = of("maxLimitRequestRatio") {
        let one = resources::quantity(&Value::from("1"));
        if resources::quantity(ratio) < one {
            let path = path.child("maxLimitRequestRatio").key(name);
            let detail = format!("ratio {} is less than 1", resources::text(Some(ratio)));
            errors.invalid(&path, ratio.clone(), detail);
        }
    }
    if let (Some(request), Some(default)) = (of("defaultRequest"), of("default"))
        && !resources::may_overcommit(name)
        && !same(request, default)
    {
        let path = path.child("defaultRequest").key(name);
        let detail = format!(
            "default value {} must equal to defaultRequest value {} in {name}",
            resources::text(Some(default)),
            resources::text(Some(request))
        );
        errors.invalid(&path, request.clone(), detail);
    }
    errors
}
