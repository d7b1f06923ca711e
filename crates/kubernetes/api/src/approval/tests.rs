use serde_json::{Value, json};

use super::*;
use crate::definition::checks;

/// An object with every field of the CRD.
fn full() -> Value {
    json!({
        "apiVersion": "medley.dev/v1alpha1",
        "kind": "ApprovalPolicy",
        "metadata": { "name": "production" },
        "spec": {
            "profiles": ["load-aware-rebalancing"],
            "impacts": ["High"],
            "requiredApprovals": 2,
            "groups": ["platform-leads"],
            "authorsMayApprove": true,
            "maintenanceWindows": [{ "schedule": "0 2 * * 6", "duration": "4h", "timeZone": "Europe/Rome" }],
            "approvalsExpireAfter": "72h",
            "inFlightGates": [{
                "name": "nightly-jobs",
                "preset": "Migrations",
                "objects": { "apiVersion": "batch/v1", "kind": "Job" },
                "expression": "has(object.status.active)",
            }],
            "notifications": [{
                "name": "team-chat",
                "format": "Slack",
                "phases": ["ReviewRequired"],
                "consoleURL": "https://medley.example.com",
            }],
        },
    })
}

#[test]
fn types_and_definition_have_the_same_fields() {
    checks::has_the_fields_of_its_type::<ApprovalPolicy>(&definition(), &full());
}

#[test]
fn definition_is_accepted_by_the_server() {
    checks::is_accepted(&definition());
}

#[test]
fn approvals_by_authors_do_not_count_by_default() {
    let read: ApprovalPolicySpec =
        serde_json::from_value(json!({ "requiredApprovals": 1 })).unwrap();
    assert!(!read.authors_may_approve);
    assert_eq!(read.profiles, [""; 0]);
}
