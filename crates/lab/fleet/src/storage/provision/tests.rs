//! Volumes of claims.

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::{Origin, Source, is_asked, source, volume};

fn claim(spec: &Value) -> PersistentVolumeClaim {
    let mut object = json!({
        "metadata": {
            "name": "data", "namespace": "shop", "uid": "c1",
            "annotations": { "volume.kubernetes.io/storage-provisioner": "storage.fleet.medley.dev" },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
            "resources": { "requests": { "storage": "5Gi" } },
        },
    });
    for (key, field) in spec.as_object().unwrap() {
        object["spec"][key] = field.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn class(rest: &Value) -> StorageClass {
    let mut object =
        json!({ "metadata": { "name": "fast" }, "provisioner": "storage.fleet.medley.dev" });
    for (key, field) in rest.as_object().unwrap() {
        object[key] = field.clone();
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn volume_follows_claim_and_class() {
    let class = class(&json!({ "reclaimPolicy": "Delete", "mountOptions": ["noatime"] }));
    let volume = volume(&claim(&json!({})), &class, None, None).unwrap();
    assert_eq!(
        json!(volume),
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": "pvc-c1",
                "annotations": { "pv.kubernetes.io/provisioned-by": "storage.fleet.medley.dev" },
                "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": { "storage": "5Gi" },
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": "shop", "name": "data", "uid": "c1",
                },
                "csi": { "driver": "storage.fleet.medley.dev", "volumeHandle": "pvc-c1" },
                "mountOptions": ["noatime"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "fast",
                "volumeMode": "Filesystem",
            },
        })
    );
}

#[rstest::rstest]
#[case::node("node", Some(("kubernetes.io/hostname", "n1")))]
#[case::zone("zone", Some(("topology.kubernetes.io/zone", "z1")))]
#[case::anywhere("anywhere", None)]
fn topology_parameter_restricts_volumes(
    #[case] topology: &str,
    #[case] expected: Option<(&str, &str)>,
) {
    let node: Node = serde_json::from_value(json!({
        "metadata": { "labels": { "kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "z1" } },
    }))
    .unwrap();
    let class = class(&json!({ "parameters": { "topology": topology } }));
    let volume = volume(&claim(&json!({})), &class, Some(&node), None).unwrap();
    let affinity = json!(volume.spec.unwrap().node_affinity);
    let term = affinity.pointer("/required/nodeSelectorTerms/0/matchExpressions");
    let expected =
        expected.map(|(key, value)| json!([{ "key": key, "operator": "In", "values": [value] }]));
    assert_eq!(term, expected.as_ref());
}

#[rstest::rstest]
#[case::nothing(json!({}), Source::Empty)]
#[case::claim(json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "a" } }), Source::Claim("a".to_owned()))]
#[case::snapshot(json!({ "dataSourceRef": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s" } }), Source::Snapshot("s".to_owned()))]
#[case::populator(json!({ "dataSourceRef": { "apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "i" } }), Source::Other)]
#[case::elsewhere(json!({ "dataSourceRef": { "kind": "PersistentVolumeClaim", "name": "a", "namespace": "other" } }), Source::Other)]
fn data_sources_of_claims_are_resolved(#[case] spec: Value, #[case] expected: Source) {
    let claim = claim(&spec);
    assert_eq!(
        is_asked(&claim),
        expected != Source::Other,
        "populators are left alone"
    );
    assert_eq!(source(&claim), expected);
}

#[test]
fn clone_is_at_least_as_large_as_its_source() {
    let origin = |size: &str| Origin {
        attribute: ("sourceVolume", "pvc-c0".to_owned()),
        size: size.parse().ok(),
    };
    let (claim, class) = (claim(&json!({})), class(&json!({})));
    let copy = volume(&claim, &class, None, Some(&origin("5Gi"))).unwrap();
    let attributes = copy.spec.unwrap().csi.unwrap().volume_attributes;
    assert_eq!(json!(attributes), json!({ "sourceVolume": "pvc-c0" }));
    let refused = volume(&claim, &class, None, Some(&origin("6Gi"))).unwrap_err();
    assert_eq!(
        refused,
        "requested volume size 5368709120 is less than the size 6442450944 of sourceVolume pvc-c0"
    );
}
