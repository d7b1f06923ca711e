//! The `policy` group (rules: `pkg/apis/policy/validation`).

use machinery::field::Path;
use serde_json::{Value, json};

use crate::builtin::entry::Capability::{ConditionalUpdate, Generation, Status};
use crate::builtin::entry::Cell::{Number, Of};
use crate::builtin::entry::{AGE, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, set};
use crate::builtin::{apps, check, labels, layout, print};
use crate::kind::Part;

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[DISRUPTION_BUDGET];

const DISRUPTION_BUDGET: Entry = Entry {
    short_names: &["pdb"],
    capabilities: &[Generation, Status, ConditionalUpdate],
    prepare_create: |budget, _| {
        let status = json!({
            // Zero until the disruption controller has counted: a new budget blocks evictions
            // rather than allowing them all.
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        });
        set(budget, "status", status);
    },
    validate,
    validate_update: |new, _, part| match part {
        Part::Status => {
            let counters = "disruptionsAllowed currentHealthy desiredHealthy expectedPods";
            apps::check_counters(new.at("status"), counters)
        }
        _ => validate(new),
    },
    columns: COLUMNS,
    ..Entry::new(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
    )
};

const COLUMNS: &[Column] = &[
    NAME,
    column!("Min Available" string Of(|budget| amount(budget.at("spec.minAvailable")))
        => "Pods that have to stay available"),
    column!("Max Unavailable" string Of(|budget| amount(budget.at("spec.maxUnavailable")))
        => "Pods that may be unavailable"),
    column!("Allowed Disruptions" integer Number("status.disruptionsAllowed")
        => "Pods that may be disrupted now"),
    AGE,
];

fn amount(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        value => print::count_text(value).into(),
    }
}

fn validate(budget: &Value) -> Errors {
    let path = Path::new("spec");
    let spec = budget.at("spec");
    let mut errors = Errors::new();
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(layout::invalid(
            &path,
            "PodDisruptionBudgetSpec",
            spec,
            detail,
        ));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if spec.has(field) {
            errors += check::count_or_percent(&path.child(field), spec.at(field));
            errors += check::at_most_all(&path.child(field), spec.at(field));
        }
    }
    errors += labels::check_selector(&path.child("selector"), spec.at("selector"));
    let accepted = ["AlwaysAllow", "IfHealthyBudget"];
    errors += check::optional_choice(&path, spec, "unhealthyPodEvictionPolicy", &accepted);
    errors
}
