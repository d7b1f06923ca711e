use serde_json::{Value, json};

use super::*;
use crate::definition::checks;

/// An object with every field of the CRD.
fn full() -> Value {
    let time = "2026-01-01T00:00:00Z";
    json!({
        "apiVersion": "medley.dev/v1alpha1",
        "kind": "GoldenImagePolicy",
        "metadata": { "name": "default" },
        "spec": {
            "defaultArchitecture": "arm64", "gracePeriod": "2h",
            "retention": { "importsToKeep": 2, "history": 5 },
            "polling": { "jitter": "1m" },
            "retry": { "initialDelay": "10s", "maxDelay": "30m" },
            "discovery": "Adopt", "sniffing": "Warn", "unchangedContent": "Import", "mode": "Assist",
            "images": [{
                "name": "fedora", "namespace": "images", "defaultArchitecture": "s390x",
                "pins": [{
                    "architecture": "arm64", "digest": format!("sha256:{}", "0".repeat(64)), "reason": "r",
                }],
            }],
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [{
                "type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
                "lastTransitionTime": time, "observedGeneration": 1,
            }],
            "nodes": {
                "workload": ["amd64"], "controlPlane": ["amd64"], "ignored": ["riscv64"],
                "defaultArchitecture": "amd64", "defaultReason": "ControlPlane",
            },
            "images": [{
                "namespace": "images", "name": "fedora", "defaultArchitecture": "amd64", "defaultReason": "Override",
                "architectures": [{
                    "architecture": "amd64", "dataSource": "fedora-amd64", "state": "Ready", "reason": "Ready",
                    "digest": "sha256:1", "leavesAt": time,
                }],
            }],
            "verifications": [{
                "namespace": "images", "dataSource": "fedora-amd64", "architecture": "amd64", "digest": "sha256:1",
                "result": "Mismatch", "reason": "Mismatch", "message": "m",
            }],
        },
    })
}

#[test]
fn types_have_every_field_of_the_crd() {
    checks::has_the_fields_of_its_type::<GoldenImagePolicy>(&definition(), &full());
}

#[test]
fn server_accepts_the_crd() {
    checks::is_accepted(&definition());
    let definition = serde_json::to_value(definition()).unwrap();
    assert_eq!(
        definition["metadata"]["name"],
        "goldenimagepolicies.medley.dev"
    );
    assert_eq!(definition["spec"]["scope"], "Cluster");
}

#[test]
fn an_empty_policy_is_the_default_one() {
    let read: GoldenImagePolicySpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(read, GoldenImagePolicySpec::default());
    assert_eq!(read.sniffing, Sniffing::Refuse);
    assert_eq!(read.discovery, Discovery::Report);
    assert_eq!(read.unchanged_content, UnchangedContent::Skip);
    let image: ImagePolicy = serde_json::from_value(json!({ "name": "fedora" })).unwrap();
    assert_eq!(image.namespace, "kubevirt-os-images");
}
