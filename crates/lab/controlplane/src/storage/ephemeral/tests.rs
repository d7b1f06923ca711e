//! Claims of ephemeral volumes.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::wanted;
use crate::object::is_controlled_by;

fn pod(uid: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "a", "namespace": "shop", "uid": uid },
        "spec": {
            "containers": [],
            "volumes": [
                { "name": "named", "persistentVolumeClaim": { "claimName": "c" } },
                { "name": "scratch", "ephemeral": { "volumeClaimTemplate": {
                    "metadata": { "labels": { "kind": "scratch" } },
                    "spec": { "accessModes": ["ReadWriteOnce"] },
                } } },
            ],
        },
    }))
    .unwrap()
}

#[test]
fn ephemeral_template_becomes_a_claim_of_the_pod() {
    let found = wanted(&pod("u1"));
    let [(volume, claim)] = found.as_slice() else {
        panic!("one claim: {found:?}");
    };
    assert_eq!(volume, "scratch");
    assert_eq!(
        json!(claim),
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "a-scratch",
                "namespace": "shop",
                "labels": { "kind": "scratch" },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": { "accessModes": ["ReadWriteOnce"] },
        })
    );
    assert!(is_controlled_by(&claim.metadata, &pod("u1").metadata));
    assert!(
        !is_controlled_by(&claim.metadata, &pod("u2").metadata),
        "a pod of the same name that came later"
    );
}

#[test]
fn terminating_pod_gets_no_claims() {
    let mut leaving = pod("u1");
    leaving.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert!(wanted(&leaving).is_empty());
}
