//! Recommendations for storage classes.

use k8s_openapi::api::storage::v1::StorageClass;
use rstest::rstest;
use serde_json::{Value, json};

use super::profile::{SnapshotClass, advice, recognized};
use crate::storage::DRIVER;

fn class(provisioner: &str, parameters: &Value) -> StorageClass {
    serde_json::from_value(json!({
        "metadata": { "name": "c" }, "provisioner": provisioner, "parameters": parameters,
    }))
    .unwrap()
}

fn snapshots(name: &str, driver: &str, is_default: bool) -> SnapshotClass {
    SnapshotClass {
        name: name.to_owned(),
        driver: driver.to_owned(),
        is_default,
    }
}

#[rstest]
#[case::shared(json!({}), json!({}), true, "snapshot", "ReadWriteMany", "Block")]
#[case::nothing_snapshots_it(json!({}), json!({}), false, "pvc", "ReadWriteMany", "Block")]
#[case::local(json!({ "topology": "node" }), json!({}), true, "pvc", "ReadWriteOnce", "Filesystem")]
#[case::the_user_says_so(
    json!({}),
    json!({
        "dataImportCronSourceFormat": "pvc",
        "claimPropertySets": [{ "accessModes": ["ReadOnlyMany"], "volumeMode": "Block" }],
    }),
    true, "pvc", "ReadOnlyMany", "Block"
)]
fn driver_recommendations_yield_to_the_user(
    #[case] parameters: Value,
    #[case] wanted: Value,
    #[case] can_snapshot: bool,
    #[case] format: &str,
    #[case] access: &str,
    #[case] mode: &str,
) {
    let mut classes = vec![snapshots("theirs", "other.example.com", true)];
    if can_snapshot {
        classes.push(snapshots("ours", DRIVER, false));
    }
    let recommended = advice(&class(DRIVER, &parameters), &wanted, &classes).unwrap();
    assert_eq!(recommended["dataImportCronSourceFormat"], format);
    assert_eq!(
        recommended["claimPropertySets"][0]["accessModes"][0],
        access
    );
    assert_eq!(recommended["claimPropertySets"][0]["volumeMode"], mode);
    let expected = if can_snapshot {
        json!("ours")
    } else {
        json!(null)
    };
    assert_eq!(recommended["snapshotClass"], expected);
    assert_eq!(recommended["provisioner"], DRIVER);
}

#[test]
fn default_snapshot_class_is_preferred() {
    let of = |classes: &[SnapshotClass]| {
        let advised = advice(&class(DRIVER, &json!({})), &json!({}), classes);
        advised.unwrap()["snapshotClass"].clone()
    };
    let (b, a) = (snapshots("b", DRIVER, false), snapshots("a", DRIVER, false));
    assert_eq!(of(&[b.clone(), a.clone()]), "a");
    assert_eq!(of(&[b, a, snapshots("z", DRIVER, true)]), "z");
}

#[test]
fn unknown_drivers_clone_by_their_snapshots_or_copy() {
    let theirs = class("csi.example.com", &json!({}));
    let snapshots = [snapshots("s", "csi.example.com", true)];
    let advised = |wanted: Value, snapshots: &[SnapshotClass]| advice(&theirs, &wanted, snapshots);
    let copying = advised(json!({}), &[]).unwrap();
    assert_eq!(
        copying,
        json!({
            "storageClass": "c", "provisioner": "csi.example.com", "claimPropertySets": null,
            "cloneStrategy": "copy", "dataImportCronSourceFormat": "pvc",
        })
    );
    assert_eq!(
        advised(json!({}), &snapshots).unwrap()["cloneStrategy"],
        "snapshot"
    );
    let wanted = json!({ "cloneStrategy": "copy" });
    assert_eq!(
        advised(wanted, &snapshots).unwrap()["cloneStrategy"],
        "copy"
    );
}

#[test]
fn profile_with_a_missing_snapshot_class_gets_no_status() {
    let wanted = json!({ "snapshotClass": "missing" });
    let classes = [snapshots("s", DRIVER, true)];
    assert_eq!(advice(&class(DRIVER, &json!({})), &wanted, &classes), None);
}

#[test]
fn unchanged_recognition_keeps_its_times() {
    let now = crate::operators::report::now();
    let first = recognized(&class(DRIVER, &json!({})), &Value::Null, &now);
    assert_eq!(first["reason"], "RecognizedProvisioner");
    let mut earlier = first.clone();
    earlier["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
    let old = json!({ "conditions": [earlier] });
    assert_eq!(recognized(&class(DRIVER, &json!({})), &old, &now), earlier);
    let changed = recognized(&class("csi.example.com", &json!({})), &old, &now);
    assert_eq!(changed["status"], "False");
}
