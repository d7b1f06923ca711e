use rstest::rstest;

use super::*;

fn volume(spec: &Value) -> DataVolume {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": {
            "name": "v", "namespace": "n", "uid": "1",
            "labels": { "template.kubevirt.io/architecture": "arm64" },
            "annotations": { "cdi.kubevirt.io/storage.bind.immediate.requested": "true" },
        },
        "spec": spec,
    }))
    .unwrap()
}

fn profile() -> StorageProfile {
    serde_json::from_value(json!({
        "metadata": { "name": "fast" }, "spec": {},
        "status": { "claimPropertySets": [
            { "accessModes": ["ReadWriteMany"], "volumeMode": "Block" },
            { "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem" },
        ] },
    }))
    .unwrap()
}

fn made(spec: &Value, profile: Option<&StorageProfile>) -> Value {
    let storage = Storage {
        class: Some("fast"),
        profile,
        overhead: Overhead::DEFAULT,
    };
    claim(&volume(spec), &storage, None).unwrap()
}

/// `[calc]` of the reference: 5Gi on a filesystem with 6 percent of overhead.
#[rstest]
#[case::profiled(json!({ "storage": { "resources": { "requests": { "storage": "5Gi" } } } }), "5368709120", "Block", "ReadWriteMany")]
#[case::filesystem(json!({ "storage": { "volumeMode": "Filesystem", "resources": { "requests": { "storage": "5Gi" } } } }), "5690831668", "Filesystem", "ReadWriteOnce")]
#[case::once(json!({ "storage": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "5Gi" } } } }), "5690831668", "Filesystem", "ReadWriteOnce")]
#[case::plain(json!({ "pvc": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "5Gi" } } } }), "5368709120", "Filesystem", "ReadWriteMany")]
fn size_and_modes_come_from_spec_and_profile(
    #[case] spec: Value,
    #[case] size: &str,
    #[case] mode: &str,
    #[case] access: &str,
) {
    let made = made(&spec, Some(&profile()));
    assert_eq!(made["spec"]["resources"]["requests"]["storage"], size);
    assert_eq!(made["spec"]["volumeMode"], mode);
    assert_eq!(made["spec"]["accessModes"], json!([access]));
    assert_eq!(made["spec"]["storageClassName"], "fast");
    // The API types can read it.
    let claim: PersistentVolumeClaim = serde_json::from_value(made).unwrap();
    let wanted = if mode == "Filesystem" && size == "5368709120" {
        usable(Overhead::DEFAULT, 5 << 30)
    } else {
        5 << 30
    };
    assert_eq!(room(&claim, Overhead::DEFAULT), Some(wanted));
}

#[test]
fn claim_has_owner_and_import_annotations() {
    let spec = json!({
        "source": { "registry": {
            "url": "docker://x/y@sha256:1", "secretRef": "s", "platform": { "architecture": "arm64" },
        } },
        "storage": { "resources": { "requests": { "storage": "1Gi" } } },
    });
    let made = made(&spec, None);
    let metadata = &made["metadata"];
    assert_eq!(metadata["ownerReferences"][0]["uid"], "1");
    assert_eq!(
        metadata["labels"]["template.kubevirt.io/architecture"],
        "arm64"
    );
    let note = |name: &str| metadata["annotations"][format!("{IMPORT}{name}")].clone();
    assert_eq!(note("source"), "registry");
    assert_eq!(note("endpoint"), "docker://x/y@sha256:1");
    assert_eq!(note("secretName"), "s");
    assert_eq!(note("registryImageArchitecture"), "arm64");
    assert_eq!(note("certConfigMap"), Value::Null);
    let claim = serde_json::from_value(made.clone()).unwrap();
    assert!(is_of(&claim, &volume(&spec)));
}

#[rstest]
#[case(json!({}), "spec.storage or spec.pvc")]
#[case(json!({ "storage": {} }), "such as 10Gi")]
#[case(json!({ "storage": { "resources": { "requests": { "storage": "much" } } } }), "\"much\" is not a quantity")]
fn invalid_storage_spec_is_rejected(#[case] spec: Value, #[case] part: &str) {
    let storage = Storage {
        class: None,
        profile: None,
        overhead: Overhead::DEFAULT,
    };
    let failure = claim(&volume(&spec), &storage, None).unwrap_err();
    assert!(failure.message.contains(part), "{failure}");
}

#[test]
fn clone_sets_data_source() {
    let spec = json!({ "storage": { "volumeMode": "Block" } });
    let storage = Storage {
        class: None,
        profile: None,
        overhead: Overhead::NONE,
    };
    let here = Source::of_snapshot("n", "s");
    let made = claim(&volume(&spec), &storage, Some((&here, Some("1Gi")))).unwrap();
    let expected =
        json!({ "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s" });
    assert_eq!(made["spec"]["dataSource"], expected);
    assert_eq!(
        made["spec"]["resources"]["requests"]["storage"],
        "1073741824"
    );
}
