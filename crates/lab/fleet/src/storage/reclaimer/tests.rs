//! Volumes to be deleted.

use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::json;

use super::{ReclaimStep, step};

#[rstest::rstest]
#[case::in_use(
    "storage.fleet.medley.dev",
    "Delete",
    "Bound",
    false,
    ReclaimStep::Nothing
)]
#[case::in_use_and_deleted(
    "storage.fleet.medley.dev",
    "Delete",
    "Bound",
    true,
    ReclaimStep::Nothing
)]
#[case::released(
    "storage.fleet.medley.dev",
    "Delete",
    "Released",
    false,
    ReclaimStep::Delete
)]
#[case::released_and_kept(
    "storage.fleet.medley.dev",
    "Retain",
    "Released",
    false,
    ReclaimStep::Nothing
)]
#[case::kept_and_deleted(
    "storage.fleet.medley.dev",
    "Retain",
    "Released",
    true,
    ReclaimStep::LetGo
)]
#[case::never_used_and_deleted(
    "storage.fleet.medley.dev",
    "Delete",
    "Available",
    true,
    ReclaimStep::Delete
)]
#[case::of_another_driver("example.com/disk", "Delete", "Released", false, ReclaimStep::Nothing)]
fn released_volumes_are_reclaimed(
    #[case] driver: &str,
    #[case] policy: &str,
    #[case] phase: &str,
    #[case] leaving: bool,
    #[case] expected: ReclaimStep,
) {
    let mut volume = json!({
        "metadata": {
            "name": "v",
            "annotations": { "pv.kubernetes.io/provisioned-by": driver },
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "persistentVolumeReclaimPolicy": policy,
            "csi": { "driver": driver, "volumeHandle": "v" },
        },
        "status": { "phase": phase },
    });
    if leaving {
        volume["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
    assert_eq!(step(&volume), expected);
}
