//! What is advised about storage classes.

use k8s_openapi::api::storage::v1::StorageClass;
use rstest::rstest;
use serde_json::{Value, json};

use super::profile::{SnapshotClass, advice};
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
fn what_is_known_of_the_driver_is_said_unless_the_user_says_otherwise(
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
    let said = advice(&class(DRIVER, &parameters), &wanted, &classes);
    assert_eq!(said["dataImportCronSourceFormat"], format);
    assert_eq!(said["claimPropertySets"][0]["accessModes"][0], access);
    assert_eq!(said["claimPropertySets"][0]["volumeMode"], mode);
    let expected = if can_snapshot {
        json!("ours")
    } else {
        json!(null)
    };
    assert_eq!(said["snapshotClass"], expected);
    assert_eq!(said["provisioner"], DRIVER);
}

#[test]
fn the_default_class_of_snapshots_is_advised_else_the_first_by_name() {
    let of = |classes: &[SnapshotClass]| {
        advice(&class(DRIVER, &json!({})), &json!({}), classes)["snapshotClass"].clone()
    };
    let (b, a) = (snapshots("b", DRIVER, false), snapshots("a", DRIVER, false));
    assert_eq!(of(&[b.clone(), a.clone()]), "a");
    assert_eq!(of(&[b, a, snapshots("z", DRIVER, true)]), "z");
}

#[test]
fn of_other_drivers_only_what_the_user_says_is_said() {
    let theirs = class("csi.example.com", &json!({}));
    let snapshots = [snapshots("s", "csi.example.com", true)];
    let said = advice(&theirs, &json!({}), &snapshots);
    assert_eq!(
        said,
        json!({ "storageClass": "c", "provisioner": "csi.example.com" })
    );
    let said = advice(&theirs, &json!({ "cloneStrategy": "copy" }), &snapshots);
    assert_eq!(said["cloneStrategy"], "copy");
}
