//! The `autoscaling` group (rules: `pkg/apis/autoscaling/validation`).

mod v1;

use machinery::field::Path;
use serde_json::{Value, json};

use crate::builtin::entry::Capability::Status;
use crate::builtin::entry::Cell::{Number, Of};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, existing, fill, indexed, set};
use crate::builtin::{apps, check, print, resources};
use crate::kind::Part;

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[AUTOSCALER, v1::AUTOSCALER_V1];

pub(crate) use v1::{to_v1, to_v2};

const AUTOSCALER: Entry = Entry {
    short_names: &["hpa"],
    categories: &["all"],
    capabilities: &[Status],
    default,
    prepare_create: |object, _| {
        let status = json!({ "currentMetrics": null, "desiredReplicas": 0 });
        set(object, "status", status);
    },
    validate: |object| check_spec(object, None),
    validate_update: |new, old, part| match part {
        Part::Status => apps::check_counters(new.at("status"), "currentReplicas desiredReplicas"),
        _ => check_spec(new, Some(old)),
    },
    columns: COLUMNS,
    ..Entry::new(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    )
};

const COLUMNS: &[Column] = &[
    NAME,
    column!("Reference" string Of(|object| {
        let target = object.at("spec.scaleTargetRef");
        format!("{}/{}", target.text("kind"), target.text("name")).into()
    }) => "What is scaled"),
    column!("Targets" string Of(metrics) => "Metrics: current and target values"),
    column!("MinPods" string Of(|object| match object.int("spec.minReplicas") {
        Some(min) => min.to_string().into(),
        None => "<unset>".into(),
    }) => "Fewest pods"),
    column!("MaxPods" string Number("spec.maxReplicas") => "Most pods"),
    column!("Replicas" string Number("status.currentReplicas") => "How many pods there are"),
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
        // The stabilization window of scaling down stays unset: its default is a flag of the
        // controller, `--horizontal-pod-autoscaler-downscale-stabilization`.
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
        errors.invalid(&path.child("minReplicas"), min, detail);
    }
    let here = path.child("maxReplicas");
    if max == 0 {
        errors.required(&here, "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(&here, max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(&here, max, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.at("scaleTargetRef");
    let version = TargetVersion::of(target, old.map(|old| old.at("spec.scaleTargetRef")));
    errors += check_reference(&path.child("scaleTargetRef"), target, version);
    for (i, metric) in spec.items("metrics").iter().enumerate() {
        errors += check_metric(&path.child("metrics").index(i), metric);
    }
    for field in ["scaleUp", "scaleDown"] {
        let rules = spec.at("behavior").at(field);
        if !rules.is_null() {
            errors += check_scaling(&path.child("behavior").child(field), rules);
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
        // Autoscalers of before this rule must stay updatable.
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
        errors += check::required_as(path, reference, field, check::segment);
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
        errors.invalid(&path.child("apiVersion"), version, detail);
    }
    errors
}

fn check_scaling(path: &Path, rules: &Value) -> Errors {
    let mut errors = Errors::new();
    let here = path.child("stabilizationWindowSeconds");
    match rules.int("stabilizationWindowSeconds") {
        Some(window) if window < 0 => {
            errors.invalid(&here, window, "must be greater than or equal to zero");
        }
        Some(window) if window > 3600 => {
            errors.invalid(&here, window, "must be less than or equal to 3600");
        }
        _ => {}
    }
    errors += check::optional_choice(path, rules, "selectPolicy", &["Disabled", "Max", "Min"]);
    let policies = rules.items("policies");
    let here = path.child("policies");
    if policies.is_empty() {
        errors.required(&here, "must specify at least one Policy");
    }
    for (path, policy) in indexed(&here, policies) {
        let kind = policy.text("type");
        errors += check::supported(&path.child("type"), kind, &["Percent", "Pods"]);
        for field in ["value", "periodSeconds"] {
            let value = policy.number(field);
            if value <= 0 {
                errors.invalid(&path.child(field), value, "must be greater than zero");
            }
        }
        let period = policy.number("periodSeconds");
        if period > 1800 {
            let detail = "must be less than or equal to 1800";
            errors.invalid(&path.child("periodSeconds"), period, detail);
        }
    }
    if rules.has("tolerance") {
        let tolerance = rules.at("tolerance");
        errors += resources::check_amount(&path.child("tolerance"), "", tolerance);
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
        errors.required(&here, "must specify a metric source type");
    }
    let accepted = [
        "ContainerResource",
        "External",
        "Object",
        "Pods",
        "Resource",
    ];
    let wrong = check::supported(&here, kind, &accepted);
    errors += wrong.clone();
    let present: Vec<&str> = SOURCES
        .iter()
        .map(|(_, field)| *field)
        .filter(|field| metric.has(field))
        .collect();
    if let Some(field) = present.first() {
        errors += check_source(&path.child(field), field, metric.at(field));
    }
    let expected = SOURCES
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, field)| *field);
    match expected {
        None => errors += wrong,
        Some(field) if !metric.has(field) => errors.required(
            &path.child(field),
            "must populate information for the given metric source",
        ),
        Some(_) => {}
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            let detail = "must populate the given metric source only";
            errors.forbidden(&path.child(field), detail);
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
        errors += check_reference(
            &path.child("describedObject"),
            object,
            TargetVersion::WellFormed,
        );
    }
    if matches!(field, "object" | "external" | "pods") {
        let path = path.child("metric").child("name");
        match source.text("metric.name") {
            "" => errors.required(&path, "must specify a metric name"),
            name => errors += check::segment(&path, name),
        }
    } else {
        let path = path.child("name");
        match source.text("name") {
            "" => errors.required(&path, "must specify a resource name"),
            name if field == "containerResource" => {
                errors += resources::check_container_name(&path, name);
            }
            _ => {}
        }
    }
    if field == "containerResource" {
        let path = path.child("container");
        match source.text("container") {
            "" => errors.required(&path, "must specify a container"),
            name => errors += check::label(&path, name),
        }
    }
    errors += check_target(&here, target);
    let (value, average) = (target.has("value"), target.has("averageValue"));
    let utilization = target.has("averageUtilization");
    match field {
        "object" if !value && !average => errors.required(
            &here.child("averageValue"),
            "must set either a target value or averageValue",
        ),
        "external" if !value && !average => errors.required(
            &here.child("averageValue"),
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value && average => errors.forbidden(
            &here.child("value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average => errors.required(
            &here.child("averageValue"),
            "must specify a positive target averageValue",
        ),
        "resource" | "containerResource" if !utilization && !average => {
            errors.required(
                &here.child("averageUtilization"),
                "must set either a target raw value or a target utilization",
            );
        }
        "resource" | "containerResource" if utilization && average => {
            errors.forbidden(
                &here.child("averageValue"),
                "may not set both a target raw value and a target utilization",
            );
        }
        _ => {}
    }
    errors
}

fn check_target(path: &Path, target: &Value) -> Errors {
    let mut errors = Errors::new();
    let kind = target.text("type");
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.invalid(&path.child("type"), kind, detail);
    }
    for field in ["value", "averageValue"] {
        if target.has(field) && resources::quantity(target.at(field)).sign() != 1 {
            let shown = target.at(field).clone();
            errors.invalid(&path.child(field), shown, "must be positive");
        }
    }
    match target.int("averageUtilization") {
        Some(percent) if percent < 1 => {
            let path = path.child("averageUtilization");
            errors.invalid(&path, percent, "must be greater than 0");
        }
        _ => {}
    }
    errors
}

fn metrics(object: &Value) -> Value {
    let specs = object.items("spec.metrics");
    if specs.is_empty() {
        return "<none>".into();
    }
    let statuses = object.items("status.currentMetrics").iter();
    let statuses = statuses.chain(std::iter::repeat(&Value::Null));
    let texts: Vec<String> = specs
        .iter()
        .zip(statuses)
        .map(|(spec, status)| metric_text(spec, status))
        .collect();
    let shown = texts[..texts.len().min(2)].join(", ");
    match texts.len() {
        0..=2 => shown.into(),
        all => format!("{shown} + {} more...", all - 2).into(),
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
