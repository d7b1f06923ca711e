//! Recommendations for storage classes.

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
    let recommended = advice(&class(DRIVER, &parameters), &wanted, &classes);
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
        advice(&class(DRIVER, &json!({})), &json!({}), classes)["snapshotClass"].clone()
    };
    let (b, a) = (snapshots("b", DRIVER, false), snapshots("a", DRIVER, false));
    assert_eq!(of(&[b.clone(), a.clone()]), "a");
    assert_eq!(of(&[b, a, snapshots("z", DRIVER, true)]), "z");
}

#[test]
fn unknown_drivers_get_the_users_properties_only() {
    let theirs = class("csi.example.com", &json!({}));
    let snapshots = [snapshots("s", "csi.example.com", true)];
    let recommended = advice(&theirs, &json!({}), &snapshots);
    assert_eq!(
        recommended,
        json!({ "storageClass": "c", "provisioner": "csi.example.com" })
    );
    let recommended = advice(&theirs, &json!({ "cloneStrategy": "copy" }), &snapshots);
    assert_eq!(recommended["cloneStrategy"], "copy");
}
