//! Rules common to replica sets and replication controllers.

use jiff::Timestamp;
use serde_json::Value;

use crate::builtin::apps::{check_at_most, check_counters};
use crate::builtin::entry::{AGE, Column, Errors, NAME, column, wide};
use crate::builtin::print;
use crate::builtin::value::Read;

/// Columns.
pub(crate) const COLUMNS: &[Column] = &[
    NAME,
    column("Desired", "integer", "How many pods there should be"),
    column("Current", "integer", "How many pods there are"),
    column("Ready", "integer", "How many pods are ready"),
    AGE,
    wide("Containers", "string", "Names of the containers"),
    wide("Images", "string", "Images of the containers"),
    wide("Selector", "string", "Which pods belong to it"),
];

/// The cells that are always shown.
pub(crate) fn counts(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        object.name().into(),
        print::number(object, "spec.replicas"),
        print::number(object, "status.replicas"),
        print::number(object, "status.readyReplicas"),
        print::age(object, now),
    ]
}

/// Counters of a status.
pub(crate) fn check_status(object: &Value) -> Errors {
    let status = object.at("status");
    let mut errors = check_counters(
        status,
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
    );
    errors.extend(check_at_most(
        status,
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        "replicas",
        "cannot be greater than status.replicas",
    ));
    errors.extend(check_at_most(
        status,
        &["availableReplicas"],
        "readyReplicas",
        "cannot be greater than readyReplicas",
    ));
    errors
}
