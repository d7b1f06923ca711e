use serde_json::json;

use super::*;

/// The example in CDI's documentation, with unknown fields.
#[test]
fn unknown_fields_are_preserved() {
    let cron = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataImportCron",
        "metadata": { "name": "fedora", "namespace": "images" },
        "spec": {
            "template": {
                "metadata": { "annotations": { "a": "b" } },
                "spec": {
                    "source": {
                        "registry": {
                            "url": "docker://quay.io/a/b:c", "pullMethod": "node",
                            "platform": { "architecture": "arm64", "variant": "v8" },
                            "later": 1,
                        },
                    },
                    "storage": {
                        "resources": { "requests": { "storage": "5Gi" }, "claims": [] },
                        "volumeMode": "Block",
                    },
                    "priorityClassName": "high",
                },
                "kept": true,
            },
            "schedule": "0 */12 * * *",
            "managedDataSource": "fedora",
            "garbageCollect": "Whatever",
            "importsToKeep": 2,
            "createdBy": "somebody",
        },
        "status": {
            "currentImports": [{ "DataVolumeName": "fedora-1", "Digest": "sha256:1" }],
            "lastImportedPVC": { "namespace": "images", "name": "fedora-1" },
            "conditions": [{ "type": "UpToDate", "status": "True", "x": 1 }],
            "extra": { "deep": [1, 2.5, null] },
        },
    });
    let read: DataImportCron = serde_json::from_value(cron.clone()).unwrap();
    assert_eq!(read.spec.architecture(), Some("arm64"));
    assert!(read.spec.collects_garbage(), "an unknown word is no Never");
    assert!(!read.spec.cleans_up());
    assert_eq!(serde_json::to_value(&read).unwrap(), cron);
}

#[test]
fn pointer_precedes_pvc_precedes_snapshot() {
    let mut source = Source::of_snapshot("n", "s");
    assert_eq!(
        source.which(),
        Some(DataSourceRef::Snapshot(&Named {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
        }))
    );
    source.pvc = Source::of_pvc("n", "p").pvc;
    assert!(matches!(source.which(), Some(DataSourceRef::Pvc(it)) if it.name == "p"));
    source.data_source = Source::of_data_source("n", "d").data_source;
    assert!(matches!(source.which(), Some(DataSourceRef::DataSource(it)) if it.name == "d"));
    assert_eq!(Source::default().which(), None);
}

#[test]
fn sparse_objects_can_be_read() {
    let read: DataSource = serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource", "metadata": { "name": "a" },
        "spec": { "source": {} },
    }))
    .unwrap();
    assert_eq!(read.spec.source, Source::default());
    let read: StorageProfile = serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "StorageProfile", "metadata": { "name": "a" },
        "spec": {}, "status": { "claimPropertySets": [{}], "dataImportCronSourceFormat": "snapshot" },
    }))
    .unwrap();
    let status = read.status.unwrap();
    assert_eq!(
        status.data_import_cron_source_format.as_deref(),
        Some("snapshot")
    );
    assert_eq!(status.rest["claimPropertySets"], json!([{}]));
}
