//! The `policy` group.

use machinery::field::Path;
use serde_json::{Value, json};

use crate::builtin::entry::{AGE, Capabilities, Column, Entry, Errors, NAME, column};
use crate::builtin::value::{Read, set};
use crate::builtin::{apps, check, labels, layout, print};
use crate::kind::Part;

/// All kinds of the group.
pub(crate) const ENTRIES: &[Entry] = &[DISRUPTION_BUDGET];

const DISRUPTION_BUDGET: Entry = Entry {
    short_names: &["pdb"],
    capabilities: Capabilities {
        generation: true,
        status: true,
        conditional_update: true,
        ..Capabilities::NONE
    },
    prepare_create: |budget, _| {
        let status = json!({
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        });
        set(budget, "status", status);
    },
    validate,
    validate_update: |new, _, part| match part {
        Part::Status => apps::check_counters(
            new.at("status"),
            &[
                "disruptionsAllowed",
                "currentHealthy",
                "desiredHealthy",
                "expectedPods",
            ],
        ),
        _ => validate(new),
    },
    columns: COLUMNS,
    cells: |budget, now| {
        let shown = |field: &str| match budget.at("spec").at(field) {
            Value::Null => "N/A".into(),
            value => Value::String(print::count_text(value)),
        };
        vec![
            budget.name().into(),
            shown("minAvailable"),
            shown("maxUnavailable"),
            print::number(budget, "status.disruptionsAllowed"),
            print::age(budget, now),
        ]
    },
    ..Entry::new(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "poddisruptionbudget",
    )
};

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Min Available",
        "string",
        "Pods that have to stay available",
    ),
    column("Max Unavailable", "string", "Pods that may be unavailable"),
    column(
        "Allowed Disruptions",
        "integer",
        "Pods that may be disturbed now",
    ),
    AGE,
];

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
            errors.extend(check::count_or_percent(&path.child(field), spec.at(field)));
            errors.extend(check::at_most_all(&path.child(field), spec.at(field)));
        }
    }
    errors.extend(labels::check_selector(
        &path.child("selector"),
        spec.at("selector"),
    ));
    errors.extend(check::maybe_one_of(
        &path.child("unhealthyPodEvictionPolicy"),
        spec.maybe_text("unhealthyPodEvictionPolicy"),
        &["AlwaysAllow", "IfHealthyBudget"],
    ));
    errors
}
