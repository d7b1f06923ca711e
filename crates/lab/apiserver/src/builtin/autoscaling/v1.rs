//! Autoscalers in the form of `autoscaling/v1`.
//!
//! It knows one metric, the use of CPU. Everything else is carried in annotations, as JSON:
//!
//! ```text
//! v2                              v1
//! spec.metrics, cpu utilization   spec.targetCPUUtilizationPercentage
//! spec.metrics, others            autoscaling.alpha.kubernetes.io/metrics
//! spec.behavior                   autoscaling.alpha.kubernetes.io/behavior
//! status.currentMetrics           autoscaling.alpha.kubernetes.io/current-metrics
//! status.conditions               autoscaling.alpha.kubernetes.io/conditions
//! ```

#[cfg(test)]
mod tests;

use machinery::json;
use serde_json::{Map, Value, json};

use super::{AUTOSCALER, check_spec, default_metrics};
use crate::builtin::apps;
use crate::builtin::entry::{Entry, keep_other_part};
use crate::builtin::layout;
use crate::builtin::value::{Read, fill, remove, set};
use crate::kind::Part;
use crate::types;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const STATUSES: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CARRIED: [&str; 6] = [
    METRICS,
    STATUSES,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

const V1: &str = "autoscaling/v1";
const V2: &str = "autoscaling/v2";

/// Autoscalers of `autoscaling/v1`; functions take that form.
pub(super) const AUTOSCALER_V1: Entry = Entry {
    version: "v1",
    default: |object| {
        fill(object, "spec.minReplicas", 1);
        // The default for CPU depends on the metrics in the annotations.
        *object = to_v1(&to_v2(object));
    },
    prepare_create: |object, _| {
        set(
            object,
            "status",
            json!({ "currentReplicas": 0, "desiredReplicas": 0 }),
        );
        for carried in [STATUSES, CONDITIONS] {
            drop_annotation(object, carried);
        }
    },
    prepare_update: |new, old, part, context| {
        let (mut full, was) = (to_v2(new), to_v2(old));
        keep_other_part(&mut full, &was, part, context);
        *new = to_v1(&full);
    },
    validate: |object| check_spec(&to_v2(object), None),
    validate_update: |new, old, part| match part {
        Part::Status => apps::check_counters(new.at("status"), "currentReplicas desiredReplicas"),
        _ => check_spec(&to_v2(new), Some(&to_v2(old))),
    },
    table_form: Some(to_v2),
    ..AUTOSCALER
};

/// Fields of metrics, a line each: the field of the kind, the name in v1, the path in v2, and the
/// value that v1 has for an absent one, if any.
const TARGETS: &str = r#"
    object            target                   describedObject
    object            metricName               metric.name                ""
    object            selector                 metric.selector
    object            targetValue              target.value               "0"
    object            averageValue             target.averageValue
    pods              metricName               metric.name                ""
    pods              selector                 metric.selector
    pods              targetAverageValue       target.averageValue        "0"
    resource          name                     name                       ""
    resource          targetAverageUtilization target.averageUtilization
    resource          targetAverageValue       target.averageValue
    containerResource name                     name                       ""
    containerResource container                container                  ""
    containerResource targetAverageUtilization target.averageUtilization
    containerResource targetAverageValue       target.averageValue
    external          metricName               metric.name                ""
    external          metricSelector           metric.selector
    external          targetValue              target.value
    external          targetAverageValue       target.averageValue"#;

/// The same for current values.
const CURRENTS: &str = r#"
    object            target                    describedObject
    object            metricName                metric.name                ""
    object            selector                  metric.selector
    object            currentValue              current.value              "0"
    object            averageValue              current.averageValue
    pods              metricName                metric.name                ""
    pods              selector                  metric.selector
    pods              currentAverageValue       current.averageValue       "0"
    resource          name                      name                       ""
    resource          currentAverageUtilization current.averageUtilization
    resource          currentAverageValue       current.averageValue       "0"
    containerResource name                      name                       ""
    containerResource container                 container                  ""
    containerResource currentAverageUtilization current.averageUtilization
    containerResource currentAverageValue       current.averageValue       "0"
    external          metricName                metric.name                ""
    external          metricSelector            metric.selector
    external          currentValue              current.value              "0"
    external          currentAverageValue       current.averageValue"#;

/// Sources of a metric, each with its rows of a table: v1, v2, zero.
fn sources<'a>(
    metric: &'a Value,
    table: &'static str,
) -> impl Iterator<Item = (&'a str, &'a Value, Vec<[&'static str; 3]>)> {
    let rows = |kind: &str| -> Vec<[&'static str; 3]> {
        let lines = table.lines().map(|line| line.split_whitespace());
        let rows = lines.filter_map(|mut words| {
            (words.next()? == kind).then_some([
                words.next()?,
                words.next()?,
                words.next().unwrap_or_default(),
            ])
        });
        rows.collect()
    };
    let sources = metric
        .entries("")
        .into_iter()
        .filter(|(_, source)| !source.is_null());
    sources
        .map(move |(kind, source)| (kind, source, rows(kind)))
        .filter(|(_, _, rows)| !rows.is_empty())
}

fn metric_to_v1(metric: &Value, table: &'static str) -> Value {
    let mut out = json!({ "type": metric.text("type") });
    for (kind, source, rows) in sources(metric, table) {
        let mut fields = Map::new();
        for [v1, v2, zero] in rows {
            match source.at(v2) {
                Value::Null if zero.is_empty() => {}
                Value::Null => {
                    fields.insert(v1.to_owned(), zero.trim_matches('"').into());
                }
                value => {
                    fields.insert(v1.to_owned(), value.clone());
                }
            }
        }
        out[kind] = fields.into();
    }
    out
}

fn metric_to_v2(metric: &Value, table: &'static str) -> Value {
    if !metric.is_object() {
        return metric.clone();
    }
    let mut out = json!({ "type": metric.text("type") });
    for (kind, source, rows) in sources(metric, table) {
        let mut made = json!({});
        for [v1, v2, _] in rows {
            if source.has(v1) {
                set(&mut made, v2, source.at(v1).clone());
            }
        }
        if table == TARGETS {
            let sort = target_type(kind, &made);
            set(&mut made, "target.type", sort);
            // v1 cannot leave the value out, so a zero beside an average is none.
            let averaged = kind == "object" && made.has("target.averageValue");
            if averaged && made.text("target.value") == "0" {
                remove(&mut made, "target.value");
            }
        } else {
            fill(&mut made, "current", json!({}));
        }
        out[kind] = made;
    }
    out
}

fn target_type(kind: &str, source: &Value) -> &'static str {
    match kind {
        "object" if !source.has("target.averageValue") => "Value",
        "external" if source.has("target.value") => "Value",
        "resource" | "containerResource" if source.has("target.averageUtilization") => {
            "Utilization"
        }
        _ => "AverageValue",
    }
}

/// Whether v1 has a field for the metric.
fn is_cpu_utilization(metric: &Value, part: &str) -> bool {
    metric.text("type") == "Resource"
        && metric.text("resource.name") == "cpu"
        && metric.at("resource").at(part).has("averageUtilization")
}

fn drop_annotation(object: &mut Value, key: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(key);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

fn carry(object: &mut Value, key: &str, text: String) {
    let metadata = &mut object["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][key] = text.into();
}

/// The form of v1 of an autoscaler in the form of v2.
pub(crate) fn to_v1(object: &Value) -> Value {
    if object.text("apiVersion") == V1 {
        return object.clone();
    }
    let mut out = object.clone();
    out["apiVersion"] = V1.into();
    for key in CARRIED {
        drop_annotation(&mut out, key);
    }
    for field in ["spec.metrics", "spec.behavior"] {
        remove(&mut out, field);
    }
    let metrics = object.items("spec.metrics");
    let is_cpu = |metric: &&Value| is_cpu_utilization(metric, "target");
    if let Some(cpu) = metrics.iter().find(is_cpu) {
        let percentage = cpu.at("resource.target.averageUtilization").clone();
        set(&mut out, "spec.targetCPUUtilizationPercentage", percentage);
    }
    let others: Vec<Value> = metrics
        .iter()
        .filter(|metric| !is_cpu(metric))
        .map(|metric| metric_to_v1(metric, TARGETS))
        .collect();
    if !others.is_empty() {
        carry(&mut out, METRICS, json::to_string(&others.into()));
    }
    if object.has("spec.behavior") {
        let behavior = object.at("spec.behavior");
        let text = layout::text("HorizontalPodAutoscalerBehavior", behavior);
        carry(&mut out, BEHAVIOR, text);
    }
    if object.has("status") {
        status_to_v1(object, &mut out);
    }
    out
}

fn status_to_v1(object: &Value, out: &mut Value) {
    for field in ["status.currentMetrics", "status.conditions"] {
        remove(out, field);
    }
    for field in ["status.currentReplicas", "status.desiredReplicas"] {
        fill(out, field, 0);
    }
    let metrics = object.items("status.currentMetrics");
    if let Some(cpu) = metrics
        .iter()
        .find(|metric| is_cpu_utilization(metric, "current"))
    {
        let percentage = cpu.at("resource.current.averageUtilization").clone();
        set(out, "status.currentCPUUtilizationPercentage", percentage);
    }
    if !metrics.is_empty() {
        let metrics: Vec<Value> = metrics
            .iter()
            .map(|metric| metric_to_v1(metric, CURRENTS))
            .collect();
        carry(out, STATUSES, json::to_string(&metrics.into()));
    }
    if object.count("status.conditions") > 0 {
        let conditions = json::to_string(object.at("status.conditions"));
        carry(out, CONDITIONS, conditions);
    }
}

/// The form of v2 of an autoscaler in the form of v1. Annotations that cannot be read are dropped.
pub(crate) fn to_v2(object: &Value) -> Value {
    if object.text("apiVersion") == V2 {
        return object.clone();
    }
    let mut out = object.clone();
    out["apiVersion"] = V2.into();
    for key in CARRIED {
        drop_annotation(&mut out, key);
    }
    let carried = |key: &str| -> Option<Value> {
        let text = object.annotation(key)?;
        Some(json::decode(text.as_bytes()).ok()?.value)
    };
    let list = |key: &str| carried(key).and_then(|value| value.as_array().cloned());
    let others: Option<Value> = list(METRICS).and_then(|metrics| {
        let metrics = metrics.iter().map(|metric| metric_to_v2(metric, TARGETS));
        typed("spec.metrics", metrics.collect())
    });
    let mut metrics = others
        .and_then(|metrics| metrics.as_array().cloned())
        .unwrap_or_default();
    if let Some(percentage) = object.int("spec.targetCPUUtilizationPercentage") {
        let target = json!({ "type": "Utilization", "averageUtilization": percentage });
        metrics
            .push(json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }));
    }
    remove(&mut out, "spec.targetCPUUtilizationPercentage");
    set(&mut out, "spec.metrics", metrics);
    default_metrics(&mut out);
    if let Some(behavior) = carried(BEHAVIOR)
        .filter(Value::is_object)
        .and_then(|behavior| typed("spec.behavior", served_names(behavior)))
    {
        set(&mut out, "spec.behavior", behavior);
    }
    if object.has("status") {
        let statuses = list(STATUSES).and_then(|metrics| {
            let metrics = metrics.iter().map(|metric| metric_to_v2(metric, CURRENTS));
            typed("status.currentMetrics", metrics.collect())
        });
        let conditions =
            list(CONDITIONS).and_then(|conditions| typed("status.conditions", conditions.into()));
        status_to_v2(object, statuses, conditions, &mut out);
    }
    out
}

/// A part of an autoscaler after decoding; `None` when it does not decode, because users can write
/// the annotation it comes from.
fn typed(path: &str, part: Value) -> Option<Value> {
    let id = types::table().kind("autoscaling", "v2", "HorizontalPodAutoscaler")?;
    let mut object = json!({});
    set(&mut object, path, part);
    let decoded = types::decode_json(id, object).ok()?.object;
    let found = decoded.at(path);
    (!found.is_null()).then(|| found.clone())
}

fn status_to_v2(
    object: &Value,
    statuses: Option<Value>,
    conditions: Option<Value>,
    out: &mut Value,
) {
    remove(out, "status.currentCPUUtilizationPercentage");
    if object.number("status.currentReplicas") == 0 {
        remove(out, "status.currentReplicas");
    }
    fill(out, "status.desiredReplicas", 0);
    let metrics = match (
        statuses,
        object.int("status.currentCPUUtilizationPercentage"),
    ) {
        (Some(statuses), _) => statuses,
        (None, Some(percentage)) => {
            let current = json!({ "averageUtilization": percentage });
            json!([{ "type": "Resource", "resource": { "name": "cpu", "current": current } }])
        }
        (None, None) => Value::Null,
    };
    out["status"]["currentMetrics"] = metrics;
    if let Some(conditions) = conditions {
        set(out, "status.conditions", conditions);
    }
}

/// Behaviour is stored with Go's field names; decoders ignore the case of the first letter.
fn served_names(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                let name: String = first.into_iter().chain(letters).collect();
                (name, served_names(value))
            })
            .collect::<Map<String, Value>>()
            .into(),
        Value::Array(items) => items.into_iter().map(served_names).collect(),
        other => other,
    }
}
