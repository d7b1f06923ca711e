//! The CRDs of snapshots, with their validation rules.

use serde_json::{Value, json};

/// Names of the CRDs.
pub(in crate::storage) const NAMES: [&str; 3] = [
    "volumesnapshots.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshotclasses.snapshot.storage.k8s.io",
];

/// All CRDs.
pub(in crate::storage) fn all() -> [Value; 3] {
    [snapshots(), contents(), classes()]
}

fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({ "name": name, "type": kind, "jsonPath": path })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn text_map() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

fn policy() -> Value {
    json!({ "type": "string", "enum": ["Delete", "Retain"] })
}

fn error() -> Value {
    json!({
        "type": "object",
        "properties": { "message": text(), "time": { "type": "string", "format": "date-time" } },
    })
}

fn snapshots() -> Value {
    let source = json!({
        "type": "object",
        "properties": { "persistentVolumeClaimName": text(), "volumeSnapshotContentName": text() },
        "oneOf": [
            { "required": ["persistentVolumeClaimName"] },
            { "required": ["volumeSnapshotContentName"] },
        ],
        "x-kubernetes-validations": [
            {
                "rule": "!has(oldSelf.persistentVolumeClaimName) || has(self.persistentVolumeClaimName)",
                "message": "persistentVolumeClaimName is required once set",
            },
            {
                "rule": "!has(oldSelf.volumeSnapshotContentName) || has(self.volumeSnapshotContentName)",
                "message": "volumeSnapshotContentName is required once set",
            },
        ],
    });
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["source"],
                "properties": { "source": source, "volumeSnapshotClassName": text() },
            },
            "status": {
                "type": "object",
                "properties": {
                    "boundVolumeSnapshotContentName": text(),
                    "creationTime": { "type": "string", "format": "date-time" },
                    "error": error(),
                    "readyToUse": { "type": "boolean" },
                    "restoreSize": {
                        "anyOf": [{ "type": "integer" }, { "type": "string" }],
                        "x-kubernetes-int-or-string": true,
                    },
                    "volumeGroupSnapshotName": text(),
                },
            },
        },
    });
    let columns = json!([
        column("ReadyToUse", "boolean", ".status.readyToUse"),
        column(
            "SourcePVC",
            "string",
            ".spec.source.persistentVolumeClaimName"
        ),
        column(
            "SourceSnapshotContent",
            "string",
            ".spec.source.volumeSnapshotContentName"
        ),
        column("RestoreSize", "string", ".status.restoreSize"),
        column("SnapshotClass", "string", ".spec.volumeSnapshotClassName"),
        column(
            "SnapshotContent",
            "string",
            ".status.boundVolumeSnapshotContentName"
        ),
        column("CreationTime", "date", ".status.creationTime"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]);
    definition(
        "VolumeSnapshot",
        "volumesnapshots",
        &["vs"],
        "Namespaced",
        schema,
        &columns,
        true,
    )
}

fn contents() -> Value {
    let reference = [
        "apiVersion",
        "fieldPath",
        "kind",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ];
    let reference: serde_json::Map<_, _> = reference
        .iter()
        .map(|name| ((*name).to_owned(), text()))
        .collect();
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["deletionPolicy", "driver", "source", "volumeSnapshotRef"],
                "properties": {
                    "deletionPolicy": policy(),
                    "driver": text(),
                    "source": {
                        "type": "object",
                        "properties": { "snapshotHandle": text(), "volumeHandle": text() },
                        "oneOf": [{ "required": ["volumeHandle"] }, { "required": ["snapshotHandle"] }],
                    },
                    "sourceVolumeMode": text(),
                    "volumeSnapshotClassName": text(),
                    "volumeSnapshotRef": {
                        "type": "object",
                        "properties": reference,
                        "x-kubernetes-map-type": "atomic",
                    },
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "creationTime": { "type": "integer", "format": "int64" },
                    "error": error(),
                    "readyToUse": { "type": "boolean" },
                    "restoreSize": { "type": "integer", "format": "int64", "minimum": 0 },
                    "snapshotHandle": text(),
                    "volumeGroupSnapshotHandle": text(),
                },
            },
        },
    });
    let columns = json!([
        column("ReadyToUse", "boolean", ".status.readyToUse"),
        column("RestoreSize", "integer", ".status.restoreSize"),
        column("DeletionPolicy", "string", ".spec.deletionPolicy"),
        column("Driver", "string", ".spec.driver"),
        column(
            "VolumeSnapshotClass",
            "string",
            ".spec.volumeSnapshotClassName"
        ),
        column("VolumeSnapshot", "string", ".spec.volumeSnapshotRef.name"),
        column(
            "VolumeSnapshotNamespace",
            "string",
            ".spec.volumeSnapshotRef.namespace"
        ),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]);
    definition(
        "VolumeSnapshotContent",
        "volumesnapshotcontents",
        &["vsc", "vscs"],
        "Cluster",
        schema,
        &columns,
        true,
    )
}

fn classes() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["deletionPolicy", "driver"],
        "properties": { "deletionPolicy": policy(), "driver": text(), "parameters": text_map() },
    });
    let columns = json!([
        column("Driver", "string", ".driver"),
        column("DeletionPolicy", "string", ".deletionPolicy"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]);
    definition(
        "VolumeSnapshotClass",
        "volumesnapshotclasses",
        &["vsclass", "vsclasses"],
        "Cluster",
        schema,
        &columns,
        false,
    )
}

fn definition(
    kind: &str,
    plural: &str,
    short: &[&str],
    scope: &str,
    mut schema: Value,
    columns: &Value,
    has_status: bool,
) -> Value {
    for name in ["apiVersion", "kind"] {
        schema["properties"][name] = text();
    }
    schema["properties"]["metadata"] = json!({ "type": "object" });
    let mut version = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "schema": { "openAPIV3Schema": schema },
        "additionalPrinterColumns": columns,
    });
    if has_status {
        version["subresources"] = json!({ "status": {} });
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.snapshot.storage.k8s.io"),
            // Groups under k8s.io require an approval annotation; these kinds have been reviewed.
            "annotations": { "api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/814" },
        },
        "spec": {
            "group": "snapshot.storage.k8s.io",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "shortNames": short,
                "singular": kind.to_lowercase(),
            },
            "scope": scope,
            "versions": [version],
        },
    })
}
