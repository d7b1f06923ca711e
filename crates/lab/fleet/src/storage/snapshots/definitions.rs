//! The CRDs of snapshots, with their validation rules.

use serde_json::{Value, json};

use crate::schema::{
    AGE, Crd, boolean, choice, int_or_text, int64, object, reference, spec_and_status, text,
    text_map, time, validated, with,
};
use crate::storage::names::SNAPSHOT_GROUP;

/// Groups under k8s.io require an approval annotation; these kinds have been reviewed.
const APPROVED: &str = "https://github.com/kubernetes-csi/external-snapshotter/pull/814";

/// All CRDs.
pub(in crate::storage) fn all() -> [Crd; 3] {
    [snapshots(), contents(), classes()]
}

fn crd(kind: &str, short: &[&str], schema: Value) -> Crd {
    Crd::new(SNAPSHOT_GROUP, "v1", kind, schema)
        .short(short)
        .annotated("api-approved.kubernetes.io", APPROVED)
}

fn policy() -> Value {
    choice(&["Delete", "Retain"])
}

fn error() -> Value {
    object([("message", text()), ("time", time())])
}

/// An object with exactly one of two fields.
fn one_of(schema: Value, [one, other]: [&str; 2]) -> Value {
    with(
        schema,
        json!({ "oneOf": [{ "required": [one] }, { "required": [other] }] }),
    )
}

fn snapshots() -> Crd {
    let names = ["persistentVolumeClaimName", "volumeSnapshotContentName"];
    let source = one_of(object([(&*names.join(" "), text())]), names);
    let source = validated(
        source,
        &[
            (
                "!has(oldSelf.persistentVolumeClaimName) || has(self.persistentVolumeClaimName)",
                "persistentVolumeClaimName is required once set",
            ),
            (
                "!has(oldSelf.volumeSnapshotContentName) || has(self.volumeSnapshotContentName)",
                "volumeSnapshotContentName is required once set",
            ),
        ],
    );
    let spec = object([("source!", source), ("volumeSnapshotClassName", text())]);
    let status = object([
        (
            "boundVolumeSnapshotContentName volumeGroupSnapshotName",
            text(),
        ),
        ("creationTime", time()),
        ("error", error()),
        ("readyToUse", boolean()),
        ("restoreSize", int_or_text()),
    ]);
    let schema = spec_and_status(spec, status);
    crd("VolumeSnapshot", &["vs"], schema).columns(&[
        "ReadyToUse:boolean .status.readyToUse",
        "SourcePVC .spec.source.persistentVolumeClaimName",
        "SourceSnapshotContent .spec.source.volumeSnapshotContentName",
        "RestoreSize .status.restoreSize",
        "SnapshotClass .spec.volumeSnapshotClassName",
        "SnapshotContent .status.boundVolumeSnapshotContentName",
        "CreationTime:date .status.creationTime",
        AGE,
    ])
}

fn contents() -> Crd {
    let source = object([("snapshotHandle volumeHandle", text())]);
    let spec = object([
        ("deletionPolicy!", policy()),
        ("driver! sourceVolumeMode volumeSnapshotClassName", text()),
        (
            "source!",
            one_of(source, ["volumeHandle", "snapshotHandle"]),
        ),
        ("volumeSnapshotRef!", reference()),
    ]);
    let status = object([
        ("creationTime", int64()),
        ("error", error()),
        ("readyToUse", boolean()),
        ("restoreSize", with(int64(), json!({ "minimum": 0 }))),
        ("snapshotHandle volumeGroupSnapshotHandle", text()),
    ]);
    let schema = spec_and_status(spec, status);
    crd("VolumeSnapshotContent", &["vsc", "vscs"], schema)
        .cluster_wide()
        .columns(&[
            "ReadyToUse:boolean .status.readyToUse",
            "RestoreSize:integer .status.restoreSize",
            "DeletionPolicy .spec.deletionPolicy",
            "Driver .spec.driver",
            "VolumeSnapshotClass .spec.volumeSnapshotClassName",
            "VolumeSnapshot .spec.volumeSnapshotRef.name",
            "VolumeSnapshotNamespace .spec.volumeSnapshotRef.namespace",
            AGE,
        ])
}

fn classes() -> Crd {
    let schema = object([
        ("deletionPolicy!", policy()),
        ("driver!", text()),
        ("parameters", text_map()),
    ]);
    crd("VolumeSnapshotClass", &["vsclass", "vsclasses"], schema)
        .cluster_wide()
        .without_status()
        .columns(&["Driver .driver", "DeletionPolicy .deletionPolicy", AGE])
}
