//! Where pods may run: affinity, tolerations, spreading.

use machinery::field::{ErrorKind, FieldError, Path};
use serde_json::Value;

use crate::builtin::entry::Errors;
use crate::builtin::value::{Read, indexed};
use crate::builtin::{check, labels, layout};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Effects of taints, in the order messages list them.
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Node and pod affinity.
pub(crate) fn check_affinity(path: &Path, affinity: &Value) -> Errors {
    let mut errors = Errors::new();
    let node = affinity.at("nodeAffinity");
    let here = path.child("nodeAffinity");
    errors += check::if_set(&here, node, REQUIRED, check_node_selector);
    for (here, term) in node.each(&here, PREFERRED) {
        errors += check_weight(&here, term);
        errors += check_term(&here.child("preference"), term.at("preference"), false);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let here = path.child(field);
        let affinity = affinity.at(field);
        for (i, term) in affinity.items(REQUIRED).iter().enumerate() {
            errors += check_pod_term(&here.child(REQUIRED).index(i), term);
        }
        for (here, term) in affinity.each(&here, PREFERRED) {
            errors += check_weight(&here, term);
            errors += check_pod_term(&here.child("podAffinityTerm"), term.at("podAffinityTerm"));
        }
    }
    errors
}

fn check_weight(path: &Path, term: &Value) -> Errors {
    let weight = term.number("weight");
    Errors::when(!(1..=100).contains(&weight), || {
        FieldError::invalid(&path.child("weight"), weight, "must be in the range 1-100")
    })
}

/// A node selector: terms of which one has to hold.
pub(crate) fn check_node_selector(path: &Path, selector: &Value) -> Errors {
    let path = path.child("nodeSelectorTerms");
    let terms = selector.items("nodeSelectorTerms");
    if terms.is_empty() {
        return FieldError::required(&path, "must have at least one node selector term").into();
    }
    let terms = indexed(&path, terms);
    terms
        .flat_map(|(path, term)| check_term(&path, term, true))
        .collect()
}

fn check_term(path: &Path, term: &Value, check_values: bool) -> Errors {
    let mut errors = Errors::new();
    for (path, requirement) in term.each(path, "matchExpressions") {
        let values = requirement.texts("values");
        let here = path.child("values");
        match requirement.text("operator") {
            "Gt" | "Lt" if values.len() != 1 => errors.required(
                &here,
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            ),
            "Gt" | "Lt" => {}
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {
                errors += labels::check_values(&path, requirement);
            }
            other => errors.invalid(
                &path.child("operator"),
                other,
                "not a valid selector operator",
            ),
        }
        errors += check::qualified(&path.child("key"), requirement.text("key"));
        if check_values {
            for (i, value) in values.iter().enumerate() {
                errors += check::label_value(&here.index(i), value);
            }
        }
    }
    for (path, requirement) in term.each(path, "matchFields") {
        let values = requirement.texts("values");
        match requirement.text("operator") {
            "In" | "NotIn" if values.len() != 1 => errors.required(
                &path.child("values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ),
            "In" | "NotIn" => {}
            other => errors.invalid(
                &path.child("operator"),
                other,
                "not a valid selector operator",
            ),
        }
        let key = requirement.text("key");
        if key == "metadata.name" {
            for (i, value) in values.iter().enumerate() {
                errors += check::subdomain(&path.child("values").index(i), value);
            }
        } else {
            errors.invalid(&path.child("key"), key, "not a valid field selector key");
        }
    }
    errors
}

fn check_pod_term(path: &Path, term: &Value) -> Errors {
    let mut errors = labels::check_selector(&path.child("labelSelector"), term.at("labelSelector"));
    let namespaces = term.at("namespaceSelector");
    errors += labels::check_selector(&path.child("namespaceSelector"), namespaces);
    for name in term.texts("namespaces") {
        errors += check::label(&path.child("namespace"), name);
    }
    errors += check_label_keys(path, term);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    errors += check::qualified(&path.child("topologyKey"), key);
    errors
}

/// Label keys whose values are taken from the pod itself.
fn check_label_keys(path: &Path, term: &Value) -> Errors {
    let mut errors = Errors::new();
    let selector = term.at("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.texts(field);
        let here = path.child(field);
        if keys.is_empty() {
            continue;
        }
        if selector.is_null() {
            errors.forbidden(&here, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in keys.iter().enumerate() {
            errors += check::qualified(&here.index(i), key);
        }
    }
    let keys = term.texts("matchLabelKeys");
    let mut selected: Vec<&str> = selector
        .entries("matchLabels")
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    for expression in selector.items("matchExpressions") {
        let key = expression.text("key");
        if let (true, Some(i)) = (
            selected.contains(&key),
            keys.iter().rposition(|k| *k == key),
        ) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&path.index(i), key, detail);
        }
        selected.push(key);
    }
    let mismatched = term.texts("mismatchLabelKeys");
    for (i, key) in keys
        .iter()
        .enumerate()
        .filter(|(_, key)| mismatched.contains(key))
    {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.invalid(&path.child("matchLabelKeys").index(i), *key, detail);
    }
    errors
}

/// Tolerations of taints.
pub(crate) fn check_tolerations(path: &Path, tolerations: &[Value]) -> Errors {
    let mut errors = Errors::new();
    for (path, toleration) in indexed(path, tolerations) {
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        let (value, effect) = (toleration.text("value"), toleration.text("effect"));
        if !key.is_empty() {
            errors += check::qualified(&path.child("key"), key);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all \
                          values and all keys\"";
            errors.invalid(&path.child("operator"), operator, detail);
        }
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.child("effect"), effect, detail);
        }
        let here = path.child("operator");
        match operator {
            "Equal" | "" => {
                let messages = machinery::names::is_valid_label_value(value);
                if !messages.is_empty() {
                    errors.invalid(&here, value, messages.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.invalid(&here, value, detail);
            }
            "Exists" => {}
            // Behind the gate `TaintTolerationComparisonOperators`, which is off by default;
            // upstream's message still lists them.
            "Lt" | "Gt" => {
                errors.not_supported(&here, operator, ["Equal", "Exists", "Lt", "Gt"]);
            }
            _ => errors.not_supported(&here, operator, ["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            errors += check::supported(&path.child("effect"), effect, EFFECTS);
        }
    }
    errors
}

/// Taints of a node: unique by key and effect.
pub(crate) fn check_taints(path: &Path, taints: &[Value]) -> Errors {
    let mut errors = Errors::new();
    let mut seen = Vec::new();
    for (path, taint) in indexed(path, taints) {
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        errors += check::qualified(&path.child("key"), key);
        let messages = machinery::names::is_valid_label_value(value);
        if !messages.is_empty() {
            errors.invalid(&path.child("value"), value, messages.join(";"));
        }
        errors += check::one_of(&path.child("effect"), effect, EFFECTS);
        if seen.contains(&(key, effect)) {
            let mut error = layout::duplicate(&path, "Taint", taint);
            error
                .detail
                .push_str(": taints must be unique by key and effect pair");
            errors.push(error);
        } else {
            seen.push((key, effect));
        }
    }
    errors
}

/// Topology spread constraints.
pub(crate) fn check_spreading(path: &Path, constraints: &[Value]) -> Errors {
    let mut errors = Errors::new();
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        let skew = constraint.number("maxSkew");
        if skew <= 0 {
            errors.invalid(&path.child("maxSkew"), skew, "must be greater than zero");
        }
        let key = constraint.text("topologyKey");
        if key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        let action = constraint.text("whenUnsatisfiable");
        let accepted = ["DoNotSchedule", "ScheduleAnyway"];
        errors += check::supported(&path.child("whenUnsatisfiable"), action, &accepted);
        let same = |other: &Value| {
            other.text("topologyKey") == key && other.text("whenUnsatisfiable") == action
        };
        // Reported at the first of two, as upstream compares each with those behind it.
        if constraints[i + 1..].iter().any(same) {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&path, format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = constraint.int("minDomains") {
            let path = path.child("minDomains");
            if domains <= 0 {
                errors.invalid(&path, domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errors.invalid(&path, domains, detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors += check::optional_choice(&path, constraint, field, &["Honor", "Ignore"]);
        }
        errors += check_label_keys(&path, constraint);
        let selector = constraint.at("labelSelector");
        errors += labels::check_selector(&path.child("labelSelector"), selector);
    }
    errors
}

/// Whether a term only got longer: the old requirements are its prefix.
fn has_only_additions(new: &Value, old: &Value) -> bool {
    let fields = ["matchExpressions", "matchFields"];
    // An empty term matches no node. Requirements added to it would make it match some, which
    // widens the choice.
    if fields.iter().all(|field| old.count(field) == 0) {
        return fields.iter().all(|field| new.count(field) == 0);
    }
    fields
        .iter()
        .all(|field| new.items(field).starts_with(old.items(field)))
}

/// Permitted changes of node affinity while a pod is gated: requirements may be added.
pub(crate) fn check_affinity_mutation(path: &Path, new: &Value, old: &Value) -> Errors {
    if !old.has(REQUIRED) {
        return Errors::new();
    }
    let path = path.child(REQUIRED).child("nodeSelectorTerms");
    let old = old.at(REQUIRED).items("nodeSelectorTerms");
    let new = new.at(REQUIRED).items("nodeSelectorTerms");
    // Terms are alternatives, so that another one widens the choice, too.
    if !old.is_empty() && old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let terms: Vec<String> = new
            .iter()
            .map(|term| layout::text("NodeSelectorTerm", term))
            .collect();
        let detail = format!("[{}]: {detail}", terms.join(","));
        return FieldError::without_value(ErrorKind::Invalid, &path, detail).into();
    }
    let mut errors = Errors::new();
    for (i, (new, old)) in new.iter().zip(old).enumerate() {
        if !has_only_additions(new, old) {
            let detail = "only additions are allowed (no mutations or deletions)";
            let path = path.index(i);
            errors.push(layout::invalid(&path, "NodeSelectorTerm", new, detail));
        }
    }
    errors
}
