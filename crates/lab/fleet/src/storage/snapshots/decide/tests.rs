//! Desired state of snapshots.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};

use super::super::kinds::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use super::{belongs, class, content, status, trouble};

fn snapshot(class: Option<&str>) -> VolumeSnapshot {
    serde_json::from_value(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": { "name": "s", "namespace": "shop", "uid": "u1" },
        "spec": {
            "source": { "persistentVolumeClaimName": "data" },
            "volumeSnapshotClassName": class,
        },
    }))
    .unwrap()
}

fn snapshot_class(name: &str, driver: &str, default: &str) -> Arc<VolumeSnapshotClass> {
    let class = serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "annotations": { "snapshot.storage.kubernetes.io/is-default-class": default },
        },
        "driver": driver,
        "deletionPolicy": "Retain",
    }));
    Arc::new(class.unwrap())
}

#[rstest::rstest]
#[case::named(Some("b"), "d", Ok("b"))]
#[case::not_there(
    Some("x"),
    "d",
    Err("volumesnapshotclass.snapshot.storage.k8s.io \"x\" not found")
)]
#[case::default(None, "d", Ok("a"))]
#[case::no_default(None, "f", Err("cannot find default snapshot class"))]
#[case::two_defaults(None, "e", Err("2 default snapshot classes were found"))]
fn snapshot_class_is_resolved(
    #[case] named: Option<&str>,
    #[case] driver: &str,
    #[case] expected: Result<&str, &str>,
) {
    let classes = [
        snapshot_class("a", "d", "true"),
        snapshot_class("b", "d", "false"),
        snapshot_class("c", "e", "true"),
        snapshot_class("d", "e", "true"),
    ];
    let snapshot = snapshot(named);
    let found = class(&snapshot, &classes, driver);
    let found = found.map(|class| class.metadata.name.as_deref().unwrap());
    assert_eq!(
        found.map_err(|error| error.clone()),
        expected.map_err(str::to_owned)
    );
}

fn volume(csi: &Value) -> PersistentVolume {
    serde_json::from_value(json!({
        "metadata": { "name": "v" }, "spec": { "csi": csi, "volumeMode": "Block" },
    }))
    .unwrap()
}

#[test]
fn content_references_its_snapshot() {
    let class = snapshot_class("a", "d", "true");
    let made = volume(&json!({ "driver": "d", "volumeHandle": "h" }));
    let content = content(&snapshot(None), &made, &class).unwrap();
    assert_eq!(
        json!(content),
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": {
                "name": "snapcontent-u1",
                "finalizers": ["snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"],
            },
            "spec": {
                "deletionPolicy": "Retain",
                "driver": "d",
                "source": { "volumeHandle": "h" },
                "sourceVolumeMode": "Block",
                "volumeSnapshotClassName": "a",
                "volumeSnapshotRef": {
                    "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                    "namespace": "shop", "name": "s", "uid": "u1",
                },
            },
        })
    );
    assert!(belongs(&content, &snapshot(None)));
    let other = volume(&json!({ "driver": "e", "volumeHandle": "h" }));
    assert!(super::content(&snapshot(None), &other, &class).is_err());
    assert!(super::content(&snapshot(None), &volume(&Value::Null), &class).is_err());
}

#[test]
fn snapshot_status_follows_its_content() {
    let content: VolumeSnapshotContent = serde_json::from_value(json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": { "name": "c" },
        "spec": { "deletionPolicy": "Delete", "driver": "d", "source": {}, "volumeSnapshotRef": {} },
        "status": { "creationTime": 1_767_225_600_123_456_789_i64, "readyToUse": true, "restoreSize": 5_368_709_120_i64 },
    }))
    .unwrap();
    assert_eq!(
        json!(status(&content)),
        json!({
            "boundVolumeSnapshotContentName": "c",
            "creationTime": "2026-01-01T00:00:00Z",
            "readyToUse": true,
            "restoreSize": "5Gi",
        })
    );
}

#[test]
fn unchanged_error_keeps_its_time() {
    let at = |text: &str| serde_json::from_value(json!(text)).unwrap();
    let mut snapshot = snapshot(None);
    let first = trouble(&snapshot, "no".to_owned(), at("2026-01-01T00:00:00Z"));
    snapshot.status = Some(first.clone());
    assert_eq!(
        trouble(&snapshot, "no".to_owned(), at("2026-01-02T00:00:00Z")),
        first
    );
    let other = trouble(&snapshot, "never".to_owned(), at("2026-01-02T00:00:00Z"));
    assert_eq!(
        json!(other)["error"],
        json!({ "message": "never", "time": "2026-01-02T00:00:00Z" })
    );
    assert_eq!(other.ready_to_use, Some(false));
}
