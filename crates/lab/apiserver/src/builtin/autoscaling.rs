//! The `autoscaling` group.

mod v1;

use jiff::Timestamp;
use machinery::field::{FieldError, Path};
use serde_json::{Value, json};

use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, existing, fill, set};
use crate::builtin::{apps, check, print, resources};
use crate::kind::Part;

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[AUTOSCALER, v1::AUTOSCALER_V1];

pub(crate) use v1::{to_v1, to_v2};

const AUTOSCALER: Entry = Entry {
    short_names: &["hpa"],
    categories: &["all"],
    capabilities: Capabilities {
        status: true,
        ..Capabilities::NONE
    },
    default,
    prepare_create: |object, _| {
        let status = json!({ "currentMetrics": null, "desiredReplicas": 0 });
        set(object, "status", status);
    },
    validate: |object| check_spec(object, None),
    validate_update: |new, old, part| match part {
        Part::Status => {
            apps::check_counters(new.at("status"), &["currentReplicas", "desiredReplicas"])
        }
        _ => check_spec(new, Some(old)),
    },
    columns: COLUMNS,
    cells,
    ..Entry::new(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
    )
};

const COLUMNS: &[Column] = &[
    NAME,
    column("Reference", "string", "What is scaled"),
    column("Targets", "string", "Metrics: now and as they should be"),
    column("MinPods", "string", "Fewest pods"),
    column("MaxPods", "string", "Most pods"),
    column("Replicas", "string", "How many pods there are"),
    AGE,
];

/// The default metric is 80 percent CPU utilization.
fn default_metrics(object: &mut Value) {
    if object.count("spec.metrics") == 0 {
        let target = json!({ "type": "Utilization", "averageUtilization": 80 });
        let metric = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        set(object, "spec.metrics", json!([metric]));
    }
}

fn default(object: &mut Value) {
    fill(object, "spec.minReplicas", 1);
    default_metrics(object);
    if let Some(behavior) = existing(object, "spec.behavior") {
        let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
        let pods = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
        fill(behavior, "scaleUp.stabilizationWindowSeconds", 0);
        fill(behavior, "scaleUp.selectPolicy", "Max");
        fill(behavior, "scaleUp.policies", json!([pods, percent]));
        fill(behavior, "scaleDown.selectPolicy", "Max");
        fill(behavior, "scaleDown.policies", json!([percent]));
    }
}

fn check_spec(object: &Value, old: Option<&Value>) -> Errors {
    let path = Path::new("spec");
    let spec = object.at("spec");
    let mut errors = Errors::new();
    let (min, max) = (spec.int("minReplicas"), spec.number("maxReplicas"));
    if let Some(min) = min.filter(|min| *min < 1) {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(&path.child("minReplicas"), min, detail));
    }
    let here = path.child("maxReplicas");
    if max == 0 {
        errors.push(FieldError::required(
            &here,
            "must be set and greater than 0",
        ));
    } else if max < 0 {
        errors.push(FieldError::invalid(
            &here,
            max,
            "must be greater than or equal to 1",
        ));
    }
    if min.is_some_and(|min| max < min) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&here, max, detail));
    }
    let target = spec.at("scaleTargetRef");
    let version = TargetVersion::of(target, old.map(|old| old.at("spec.scaleTargetRef")));
    errors.extend(check_reference(
        &path.child("scaleTargetRef"),
        target,
        version,
    ));
    for (i, metric) in spec.items("metrics").iter().enumerate() {
        errors.extend(check_metric(&path.child("metrics").index(i), metric));
    }
    for field in ["scaleUp", "scaleDown"] {
        let rules = spec.at("behavior").at(field);
        if !rules.is_null() {
            errors.extend(check_scaling(&path.child("behavior").child(field), rules));
        }
    }
    errors
}

/// Requirements for the apiVersion of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetVersion {
    /// None: the reference is unchanged.
    Any,
    /// Well-formed.
    WellFormed,
    /// Well-formed and with a group.
    WithGroup,
}

impl TargetVersion {
    /// In the core group only replication controllers can be scaled.
    fn of(target: &Value, was: Option<&Value>) -> Self {
        let unchanged = |was: &Value| {
            ["apiVersion", "kind"]
                .iter()
                .all(|field| was.text(field) == target.text(field))
        };
        if was.is_some_and(unchanged) {
            Self::Any
        } else if target.text("kind") == "ReplicationController" {
            Self::WellFormed
        } else {
            Self::WithGroup
        }
    }
}

fn check_reference(path: &Path, reference: &Value, accepted: TargetVersion) -> Errors {
    let mut errors = Errors::new();
    for field in ["kind", "name"] {
        match reference.text(field) {
            "" => errors.push(FieldError::required(&path.child(field), "")),
            text => errors.extend(check::segment(&path.child(field), text)),
        }
    }
    let version = reference.text("apiVersion");
    let wrong = match machinery::gvk::split_api_version(version) {
        _ if accepted == TargetVersion::Any => None,
        None => Some(format!("unexpected GroupVersion string: {version}")),
        Some(("", _)) if accepted == TargetVersion::WithGroup => {
            Some("apiVersion must specify API group".to_owned())
        }
        Some(_) => None,
    };
    if let Some(detail) = wrong {
        errors.push(FieldError::invalid(
            &path.child("apiVersion"),
            version,
            detail,
        ));
    }
    errors
}

fn check_scaling(path: &Path, rules: &Value) -> Errors {
    let mut errors = Errors::new();
    let here = path.child("stabilizationWindowSeconds");
    match rules.int("stabilizationWindowSeconds") {
        Some(window) if window < 0 => {
            let detail = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(&here, window, detail));
        }
        Some(window) if window > 3600 => {
            let detail = "must be less than or equal to 3600";
            errors.push(FieldError::invalid(&here, window, detail));
        }
        _ => {}
    }
    let policy = rules.maybe_text("selectPolicy");
    let accepted = ["Disabled", "Max", "Min"];
    errors.extend(check::maybe_one_of(
        &path.child("selectPolicy"),
        policy,
        &accepted,
    ));
    let policies = rules.items("policies");
    let here = path.child("policies");
    if policies.is_empty() {
        errors.push(FieldError::required(
            &here,
            "must specify at least one Policy",
        ));
    }
    for (i, policy) in policies.iter().enumerate() {
        let path = here.index(i);
        let kind = policy.text("type");
        errors.extend(check::supported(
            &path.child("type"),
            kind,
            &["Percent", "Pods"],
        ));
        for field in ["value", "periodSeconds"] {
            let value = policy.number(field);
            if value <= 0 {
                let path = path.child(field);
                errors.push(FieldError::invalid(
                    &path,
                    value,
                    "must be greater than zero",
                ));
            }
        }
        let period = policy.number("periodSeconds");
        if period > 1800 {
            let path = path.child("periodSeconds");
            let detail = "must be less than or equal to 1800";
            errors.push(FieldError::invalid(&path, period, detail));
        }
    }
    if rules.has("tolerance") {
        let tolerance = rules.at("tolerance");
        errors.extend(resources::check_amount(
            &path.child("tolerance"),
            "",
            tolerance,
        ));
    }
    errors
}

/// Types of metrics with the field each is described in.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn check_metric(path: &Path, metric: &Value) -> Errors {
    let mut errors = Errors::new();
    let kind = metric.text("type");
    let here = path.child("type");
    if kind.is_empty() {
        errors.push(FieldError::required(
            &here,
            "must specify a metric source type",
        ));
    }
    let accepted = [
        "ContainerResource",
        "External",
        "Object",
        "Pods",
        "Resource",
    ];
    let wrong = check::supported(&here, kind, &accepted);
    errors.extend(wrong.clone());
    let present: Vec<&str> = SOURCES
        .iter()
        .map(|(_, field)| *field)
        .filter(|field| metric.has(field))
        .collect();
    if let Some(field) = present.first() {
        errors.extend(check_source(&path.child(field), field, metric.at(field)));
    }
    let expected = SOURCES
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, field)| *field);
    match expected {
        None => errors.extend(wrong),
        Some(field) if !metric.has(field) => errors.push(FieldError::required(
            &path.child(field),
            "must populate information for the given metric source",
        )),
        Some(_) => {}
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
    errors
}

fn check_source(path: &Path, field: &str, source: &Value) -> Errors {
    let mut errors = Errors::new();
    let target = source.at("target");
    let here = path.child("target");
    if field == "object" {
        let object = source.at("describedObject");
        errors.extend(check_reference(
            &path.child("describedObject"),
            object,
            TargetVersion::WellFormed,
        ));
    }
    if matches!(field, "object" | "external" | "pods") {
        let path = path.child("metric").child("name");
        match source.text("metric.name") {
            "" => errors.push(FieldError::required(&path, "must specify a metric name")),
            name => errors.extend(check::segment(&path, name)),
        }
    } else {
        let path = path.child("name");
        match source.text("name") {
            "" => errors.push(FieldError::required(&path, "must specify a resource name")),
            name if field == "containerResource" => {
                errors.extend(resources::check_container_name(&path, name));
            }
            _ => {}
        }
    }
    if field == "containerResource" {
        let path = path.child("container");
        match source.text("container") {
            "" => errors.push(FieldError::required(&path, "must specify a container")),
            name => errors.extend(check::label(&path, name)),
        }
    }
    errors.extend(check_target(&here, target));
    let (value, average) = (target.has("value"), target.has("averageValue"));
    let utilization = target.has("averageUtilization");
    match field {
        "object" if !value && !average => errors.push(FieldError::required(
            &here.child("averageValue"),
            "must set either a target value or averageValue",
        )),
        "external" if !value && !average => errors.push(FieldError::required(
            &here.child("averageValue"),
            "must set either a target value for metric or a per-pod target",
        )),
        "external" if value && average => errors.push(FieldError::forbidden(
            &here.child("value"),
            "may not set both a target value for metric and a per-pod target",
        )),
        "pods" if !average => errors.push(FieldError::required(
            &here.child("averageValue"),
            "must specify a positive target averageValue",
        )),
        "resource" | "containerResource" if !utilization && !average => {
            errors.push(FieldError::required(
                &here.child("averageUtilization"),
                "must set either a target raw value or a target utilization",
            ));
        }
        "resource" | "containerResource" if utilization && average => {
            errors.push(FieldError::forbidden(
                &here.child("averageValue"),
                "may not set both a target raw value and a target utilization",
            ));
        }
        _ => {}
    }
    errors
}

fn check_target(path: &Path, target: &Value) -> Errors {
    let mut errors = Errors::new();
    let kind = target.text("type");
    if kind.is_empty() {
        let detail = "must specify a metric target type";
        errors.push(FieldError::required(&path.child("type"), detail));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&path.child("type"), kind, detail));
    }
    for field in ["value", "averageValue"] {
        if target.has(field) && resources::quantity(target.at(field)).sign() != 1 {
            let shown = target.at(field).clone();
            errors.push(FieldError::invalid(
                &path.child(field),
                shown,
                "must be positive",
            ));
        }
    }
    match target.int("averageUtilization") {
        Some(percent) if percent < 1 => {
            let path = path.child("averageUtilization");
            errors.push(FieldError::invalid(
                &path,
                percent,
                "must be greater than 0",
            ));
        }
        _ => {}
    }
    errors
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = object.at("spec.scaleTargetRef");
    let min = match object.int("spec.minReplicas") {
        Some(min) => min.to_string(),
        None => "<unset>".to_owned(),
    };
    vec![
        object.name().into(),
        format!("{}/{}", target.text("kind"), target.text("name")).into(),
        metrics(object).into(),
        min.into(),
        print::number(object, "spec.maxReplicas"),
        print::number(object, "status.currentReplicas"),
        print::age(object, now),
    ]
}

fn metrics(object: &Value) -> String {
    let specs = object.items("spec.metrics");
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let statuses = object.items("status.currentMetrics");
    let mut list: Vec<String> = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        let status = statuses.get(i).unwrap_or(&Value::Null);
        list.push(metric_text(spec, status));
    }
    let shown = list.iter().take(2).cloned().collect::<Vec<_>>().join(", ");
    if list.len() > 2 {
        format!("{shown} + {} more...", list.len() - 2)
    } else {
        shown
    }
}

fn metric_text(spec: &Value, status: &Value) -> String {
    let Some((_, field)) = SOURCES.iter().find(|(name, _)| *name == spec.text("type")) else {
        return "<unknown type>".to_owned();
    };
    let (spec, current) = (spec.at(field), status.at(field).at("current"));
    let target = spec.at("target");
    let known = |value: &Value| match value {
        Value::Null => "<unknown>".to_owned(),
        value => print::count_text(value),
    };
    let percent = |value: &Value, otherwise: &str| match value.as_i64() {
        Some(percent) => format!("{percent}%"),
        None => otherwise.to_owned(),
    };
    let by_average = target.has("averageValue");
    match *field {
        "pods" => {
            format!(
                "{}/{}",
                known(current.at("averageValue")),
                known(target.at("averageValue"))
            )
        }
        "object" | "external" if by_average => format!(
            "{}/{} (avg)",
            known(current.at("averageValue")),
            known(target.at("averageValue"))
        ),
        "object" | "external" => {
            format!(
                "{}/{}",
                known(current.at("value")),
                known(target.at("value"))
            )
        }
        _ if by_average => format!(
            "{}: {}/{}",
            spec.text("name"),
            known(current.at("averageValue")),
            known(target.at("averageValue"))
        ),
        _ => format!(
            "{}: {}/{}",
            spec.text("name"),
            percent(current.at("averageUtilization"), "<unknown>"),
            percent(target.at("averageUtilization"), "<auto>")
        ),
    }
}
