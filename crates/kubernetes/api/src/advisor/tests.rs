//! The CRD equals the published one, and the types agree with it.

use serde_json::{Value, json};

use super::*;
use crate::definition::checks;

#[test]
fn the_kind_is_named_as_published() {
    let definition = serde_json::to_value(definition()).unwrap();
    assert_eq!(
        definition["metadata"]["name"],
        "virtplatformconfigs.advisor.kubevirt.io"
    );
    assert_eq!(definition["spec"]["scope"], "Cluster");
    assert_eq!(
        definition["spec"]["names"],
        json!({
            "kind": "VirtPlatformConfig",
            "listKind": "VirtPlatformConfigList",
            "plural": "virtplatformconfigs",
            "singular": "virtplatformconfig",
        })
    );
    let columns: Vec<_> = definition["spec"]["versions"][0]["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            (
                column["name"].as_str().unwrap(),
                column["jsonPath"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            ("Action", ".spec.action"),
            ("Impact", ".status.impactSeverity"),
            ("Phase", ".status.phase"),
            ("Age", ".metadata.creationTimestamp"),
        ]
    );
}

/// An object with every field of the CRD.
fn full() -> Value {
    let target = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "n", "namespace": "ns" });
    let digest = format!("sha256:{}", "0".repeat(64));
    let options = json!({
        "loadAware": {
            "deschedulingIntervalSeconds": 60, "mode": "Automatic", "enablePSIMetrics": true,
            "devDeviationThresholds": "AsymmetricLow", "evictionLimitTotal": 5, "evictionLimitNode": 2,
        },
        "virtHigherDensity": {
            "enableSwap": true,
            "ksmConfiguration": {
                "enabled": true,
                "nodeLabelSelector": {
                    "matchLabels": {}, "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }],
                },
            },
            "memoryToRequestRatio": 150,
        },
        "values": { "size": 1 },
        "nodeHealth": {
            "minHealthy": "51%", "unhealthySeconds": 300, "remediationTemplate": "t",
            "remediationKind": "k", "remediationNamespace": "n",
        },
    });
    let time = "2026-01-01T00:00:00Z";
    let deviations = json!([{
        "path": "spec.a", "class": "ChangedByAdmission", "wanted": 1, "kept": 2, "by": "MutatingAdmissionPolicy p",
    }]);
    json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1",
        "kind": "VirtPlatformConfig",
        "metadata": { "name": "load-aware-rebalancing" },
        "spec": {
            "profile": "load-aware-rebalancing", "action": "Apply", "failurePolicy": "Continue",
            "bypassOptimisticLock": true, "waitTimeout": "1h", "options": options,
            "approval": {
                "planDigest": digest, "items": ["a"], "takeovers": [{ "item": "a", "path": "spec.b", "manager": "kubectl" }],
                "rejected": { "planDigest": digest, "reason": "no" },
            },
            "approvalPolicy": { "requiredApprovals": { "low": 0, "medium": 1, "high": 2 }, "authorMayApprove": true },
            "maintenanceWindows": [{ "schedule": "0 1 * * *", "duration": "2h", "timeZone": "UTC" }],
            "rollbackTo": 3,
        },
        "status": {
            "phase": "Drifted", "impactSeverity": "High", "observedGeneration": 2, "sourceSnapshotHash": digest,
            "operatorVersion": "v1", "profileHash": "sha256:0", "appliedOptions": options,
            "items": [{
                "name": "a", "targetRef": target, "impactSeverity": "Low", "diff": "d", "desiredState": {},
                "state": "Failed", "message": "m", "lastTransitionTime": time, "managedFields": ["spec.a"],
                "operation": "Restore", "dependsOn": ["b"], "base": { "spec.a": 1 },
                "targetUid": "u", "unchanged": true,
                "takeovers": [{
                    "path": "spec.a", "manager": "kubectl", "since": time, "live": 1, "wanted": 2, "reclaimed": true,
                }],
                "deviations": deviations,
            }],
            "conditions": [{
                "type": "Drifted", "status": "True", "reason": "DriftDetected", "message": "",
                "lastTransitionTime": time, "observedGeneration": 2,
            }],
            "planDigest": digest,
            "requiredApprovals": [{
                "source": "ApprovalPolicy two", "approvals": 2, "groups": ["leads"], "authorsExcluded": true,
            }],
            "inputs": [{ "name": "i", "object": target, "path": "spec.a", "raw": 5, "derived": 5 }],
            "warnings": ["w"], "revision": 4,
            "applied": [{
                "name": "a", "targetRef": target, "values": { "spec.a": 1 }, "created": true,
                "appliedAt": time, "revision": 1, "deviations": deviations,
            }],
            "drift": [{
                "item": "a", "path": "spec.a", "applied": 1, "live": 2, "manager": "kubectl-edit",
                "time": time, "class": "ExternalEdit",
            }],
            "enforcement": {
                "corrections": [time], "paused": true, "against": "kubectl-edit",
            },
            "nextWindow": time, "rolledBackTo": 3, "reviewedDigest": digest,
            "retry": { "attempts": 2, "at": time },
            "capabilities": [{ "name": "things.example.com", "version": "v1", "revision": "u/2" }],
        },
    })
}

#[test]
fn types_have_every_field_of_the_crd() {
    checks::has_the_fields_of_its_type::<VirtPlatformConfig>(&definition(), &full());
}

#[test]
fn server_accepts_the_crd() {
    checks::is_accepted(&definition());
}

#[test]
fn phases_are_named_as_published() {
    let names: Vec<_> = Phase::ALL.iter().map(|phase| phase.as_str()).collect();
    assert_eq!(
        checks::schema(&definition())["properties"]["status"]["properties"]["phase"]["enum"],
        json!(names)
    );
    for phase in Phase::ALL {
        assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
    }
}
