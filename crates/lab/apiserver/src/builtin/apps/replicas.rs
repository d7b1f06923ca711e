//! Rules common to replica sets and replication controllers.

use serde_json::Value;

use crate::builtin::apps::{CONTAINERS, IMAGES, check_at_most, check_counters};
use crate::builtin::entry::Cell::Number;
use crate::builtin::entry::{AGE, Column, Errors, NAME, column};
use crate::builtin::value::Read;

/// Columns. The two kinds show their selectors differently.
pub(crate) const fn columns(selector: Column) -> [Column; 8] {
    [
        NAME,
        column!("Desired" integer Number("spec.replicas") => "How many pods there should be"),
        column!("Current" integer Number("status.replicas") => "How many pods there are"),
        column!("Ready" integer Number("status.readyReplicas") => "How many pods are ready"),
        AGE,
        CONTAINERS,
        IMAGES,
        selector,
    ]
}

/// Counters of a status.
pub(crate) fn check_status(object: &Value) -> Errors {
    let status = object.at("status");
    let mut errors = check_counters(
        status,
        "replicas fullyLabeledReplicas readyReplicas availableReplicas observedGeneration \
         terminatingReplicas",
    );
    let parts = "fullyLabeledReplicas readyReplicas availableReplicas";
    errors += check_at_most(status, parts, "status.replicas");
    errors += check_at_most(status, "availableReplicas", "readyReplicas");
    errors
}
