//! CRDs of the containerized data importer: data volumes, their sources, and crons that keep them
//! current.
//!
//! `DataImportCron` and `DataSource` have no status subresource, as upstream: a client that may
//! update the object may update its status.

use serde_json::{Value, json};

use crate::schema::{
    AGE, Crd, PHASE, anything, boolean, choice, embedded, int_or_text, int32, keyed, list, object,
    open, spec_and_status, text, text_map, time, validated, with,
};

const GROUP: &str = "cdi.kubevirt.io";
const VERSION: &str = "v1beta1";

pub(super) fn definitions() -> [Crd; 6] {
    [
        data_volume(),
        data_import_cron(),
        data_source(),
        storage_profile(),
        importer(),
        config(),
    ]
}

fn data_volume() -> Crd {
    let status = open(object([
        ("claimName phase progress", text()),
        ("conditions", list(&condition())),
        ("restartCount", int32()),
    ]));
    let schema = spec_and_status(data_volume_spec(), status);
    Crd::new(GROUP, VERSION, "DataVolume", schema)
        .short(&["dv", "dvs"])
        .among_all()
        .columns(&[
            PHASE,
            "Progress .status.progress",
            "Restarts:integer .status.restartCount",
            AGE,
        ])
}

/// Source and storage of a `DataVolume`.
fn data_volume_spec() -> Value {
    let reference = object([("kind! name! namespace", text())]);
    let checkpoint = object([("current previous", text())]);
    open(object([
        ("checkpoints", list(&checkpoint)),
        ("contentType", choice(&["kubevirt", "archive"])),
        ("finalCheckpoint preallocation", boolean()),
        ("priorityClassName", text()),
        ("pvc storage", claim()),
        ("source", data_volume_source()),
        ("sourceRef", reference),
    ]))
}

fn data_volume_source() -> Value {
    let registry = object([
        ("certConfigMap imageStream pullMethod secretRef url", text()),
        ("platform", open(object([("architecture", text())]))),
    ]);
    let http = object([
        ("certConfigMap checksum secretRef url!", text()),
        ("extraHeaders secretExtraHeaders", list(&text())),
    ]);
    open(object([
        ("blank upload", anything()),
        ("http", http),
        ("pvc snapshot", place()),
        ("registry", registry),
    ]))
}

/// Claim properties; those left out come from the storage profile.
fn claim() -> Value {
    let quantities = json!({ "type": "object", "additionalProperties": int_or_text() });
    open(object([
        ("accessModes", list(&text())),
        ("resources", object([("limits requests", quantities)])),
        ("storageClassName volumeMode volumeName", text()),
    ]))
}

/// Namespace and name of an object.
fn place() -> Value {
    object([("name! namespace!", text())])
}

/// A condition with a heartbeat time.
fn condition() -> Value {
    open(object([
        ("lastHeartbeatTime lastTransitionTime", time()),
        ("message reason status! type!", text()),
    ]))
}

/// The spec of a `DataImportCron`, which templates of other operators share.
pub(super) fn data_import_cron_spec() -> Value {
    let template = with(
        embedded(data_volume_spec()),
        json!({ "required": ["spec"] }),
    );
    object([
        (
            "createdBy garbageCollect managedDataSource! retentionPolicy schedule! serviceAccountName",
            text(),
        ),
        ("importsToKeep", int32()),
        ("template!", template),
    ])
}

/// A `DataImportCron` template of another operator: for a built-in one only the overrides are set.
pub(super) fn data_import_cron_template() -> Value {
    object([("metadata", anything()), ("spec", data_import_cron_spec())])
}

fn data_import_cron() -> Crd {
    let import = object([("DataVolumeName! Digest!", text())]);
    let status = open(object([
        ("conditions", list(&condition())),
        ("currentImports", list(&import)),
        ("lastExecutionTimestamp lastImportTimestamp", time()),
        ("lastImportedPVC", place()),
        ("sourceFormat", text()),
    ]));
    let schema = spec_and_status(data_import_cron_spec(), status);
    Crd::new(GROUP, VERSION, "DataImportCron", schema)
        .short(&["dic", "dics"])
        .among_all()
        .without_status()
        .columns(&["Format .status.sourceFormat"])
}

fn data_source() -> Crd {
    let source = object([("dataSource pvc snapshot", place())]);
    let spec = object([("source!", source.clone())]);
    let status = object([("conditions", list(&condition())), ("source", source)]);
    let schema = spec_and_status(spec, open(status));
    Crd::new(GROUP, VERSION, "DataSource", schema)
        .short(&["das"])
        .among_all()
        .without_status()
}

fn storage_profile() -> Crd {
    let modes = with(list(&text()), json!({ "maxItems": 4 }));
    let known = "self.all(am, am in ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOncePod'])";
    let modes = validated(modes, &[(known, "Illegal AccessMode")]);
    let set = object([
        ("accessModes!", modes),
        ("volumeMode!", choice(&["Block", "Filesystem"])),
    ]);
    let sets = with(list(&set), json!({ "maxItems": 8 }));
    let spec = object([
        ("claimPropertySets", sets),
        (
            "cloneStrategy dataImportCronSourceFormat snapshotClass",
            text(),
        ),
    ]);
    let mut status = spec.clone();
    status["properties"]["provisioner"] = text();
    status["properties"]["storageClass"] = text();
    let schema = spec_and_status(spec, open(status));
    Crd::new(GROUP, VERSION, "StorageProfile", schema).cluster_wide()
}

/// `CDI`: configuration of all imports.
fn importer() -> Crd {
    let description = json!({ "description": "What all imports keep to." });
    let spec = open(object([
        ("config", with(config_spec(), description)),
        ("imagePullPolicy", text()),
        ("infra workload", anything()),
    ]));
    let conditions = keyed(&condition(), &["type"]);
    let status = open(object([("conditions", conditions), ("phase", text())]));
    Crd::new(GROUP, VERSION, "CDI", spec_and_status(spec, status))
        .short(&["cdi"])
        .cluster_wide()
        .columns(&[AGE, PHASE])
}

/// `CDIConfig`: the effective configuration, with properties detected in the cluster.
fn config() -> Crd {
    let status = open(object([
        ("filesystemOverhead", overhead()),
        ("preallocation", boolean()),
        ("scratchSpaceStorageClass", text()),
    ]));
    let schema = spec_and_status(config_spec(), status);
    Crd::new(GROUP, VERSION, "CDIConfig", schema).cluster_wide()
}

fn config_spec() -> Value {
    open(object([
        ("featureGates insecureRegistries", list(&text())),
        ("filesystemOverhead", overhead()),
        ("preallocation", boolean()),
        ("scratchSpaceStorageClass", text()),
    ]))
}

/// Share of a volume reserved for file system overhead.
fn overhead() -> Value {
    object([("global", text()), ("storageClass", text_map())])
}
