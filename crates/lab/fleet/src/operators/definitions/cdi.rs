//! CRDs of the containerized data importer: data volumes, their sources, and crons that keep them
//! current.
//!
//! `DataImportCron` and `DataSource` have no status subresource, as upstream: a client that may
//! update the object may update its status.

use serde_json::{Value, json};

use super::schema::{
    AGE, Names, PHASE, among_all, anything, boolean, choice, definition, embedded, int_or_text,
    int32, keyed, list, object, open, requiring, spec_and_status, text, texts, time, with,
    with_columns, without_status,
};

const GROUP: &str = "cdi.kubevirt.io";
const VERSION: &str = "v1beta1";

pub(super) fn definitions() -> [Value; 6] {
    [
        data_volume(),
        data_import_cron(),
        data_source(),
        storage_profile(),
        importer(),
        config(),
    ]
}

fn names(kind: &'static str, plural: &'static str, short: &'static [&'static str]) -> Names {
    Names::new(GROUP, VERSION, kind, plural).short(short)
}

fn data_volume() -> Value {
    let status = open(object([
        ("claimName", text()),
        ("conditions", conditions()),
        ("phase", text()),
        ("progress", text()),
        ("restartCount", int32()),
    ]));
    let schema = spec_and_status(data_volume_spec(), status);
    let columns = [
        PHASE,
        ("Progress", "string", ".status.progress"),
        ("Restarts", "integer", ".status.restartCount"),
    ];
    among_all(definition(
        &names("DataVolume", "datavolumes", &["dv", "dvs"]),
        schema,
        &columns,
    ))
}

/// Source and storage of a `DataVolume`.
fn data_volume_spec() -> Value {
    let reference = requiring(
        object([("kind", text()), ("name", text()), ("namespace", text())]),
        &["kind", "name"],
    );
    open(object([
        (
            "checkpoints",
            list(&object([("current", text()), ("previous", text())])),
        ),
        ("contentType", choice(&["kubevirt", "archive"])),
        ("finalCheckpoint", boolean()),
        ("preallocation", boolean()),
        ("priorityClassName", text()),
        ("pvc", claim()),
        ("source", data_volume_source()),
        ("sourceRef", reference),
        ("storage", claim()),
    ]))
}

fn data_volume_source() -> Value {
    let registry = object([
        ("certConfigMap", text()),
        ("imageStream", text()),
        ("platform", open(object([("architecture", text())]))),
        ("pullMethod", text()),
        ("secretRef", text()),
        ("url", text()),
    ]);
    let http = requiring(
        object([
            ("certConfigMap", text()),
            ("checksum", text()),
            ("extraHeaders", list(&text())),
            ("secretExtraHeaders", list(&text())),
            ("secretRef", text()),
            ("url", text()),
        ]),
        &["url"],
    );
    open(object([
        ("blank", anything()),
        ("http", http),
        ("pvc", place()),
        ("registry", registry),
        ("snapshot", place()),
        ("upload", anything()),
    ]))
}

/// Claim properties; those left out come from the storage profile.
fn claim() -> Value {
    let quantities = json!({ "type": "object", "additionalProperties": int_or_text() });
    let resources = object([("limits", quantities.clone()), ("requests", quantities)]);
    open(object([
        ("accessModes", list(&text())),
        ("resources", resources),
        ("storageClassName", text()),
        ("volumeMode", text()),
        ("volumeName", text()),
    ]))
}

/// Namespace and name of an object.
fn place() -> Value {
    requiring(
        object([("name", text()), ("namespace", text())]),
        &["name", "namespace"],
    )
}

/// A condition with a heartbeat time.
fn condition() -> Value {
    open(requiring(
        object([
            ("lastHeartbeatTime", time()),
            ("lastTransitionTime", time()),
            ("message", text()),
            ("reason", text()),
            ("status", text()),
            ("type", text()),
        ]),
        &["status", "type"],
    ))
}

fn conditions() -> Value {
    list(&condition())
}

/// The spec of a `DataImportCron`, which templates of other operators share.
pub(super) fn data_import_cron_spec() -> Value {
    let template = requiring(embedded(data_volume_spec()), &["spec"]);
    requiring(
        object([
            ("createdBy", text()),
            ("garbageCollect", text()),
            ("importsToKeep", int32()),
            ("managedDataSource", text()),
            ("retentionPolicy", text()),
            ("schedule", text()),
            ("serviceAccountName", text()),
            ("template", template),
        ]),
        &["managedDataSource", "schedule", "template"],
    )
}

/// A `DataImportCron` template of another operator: for a built-in one only the overrides are set.
pub(super) fn data_import_cron_template() -> Value {
    object([("metadata", anything()), ("spec", data_import_cron_spec())])
}

fn data_import_cron() -> Value {
    let import = requiring(
        object([("DataVolumeName", text()), ("Digest", text())]),
        &["DataVolumeName", "Digest"],
    );
    let status = open(object([
        ("conditions", conditions()),
        ("currentImports", list(&import)),
        ("lastExecutionTimestamp", time()),
        ("lastImportTimestamp", time()),
        ("lastImportedPVC", place()),
        ("sourceFormat", text()),
    ]));
    let schema = spec_and_status(data_import_cron_spec(), status);
    let names = names("DataImportCron", "dataimportcrons", &["dic", "dics"]);
    let definition = without_status(among_all(definition(&names, schema, &[])));
    with_columns(definition, &[("Format", "string", ".status.sourceFormat")])
}

fn data_source() -> Value {
    let source = || {
        object([
            ("dataSource", place()),
            ("pvc", place()),
            ("snapshot", place()),
        ])
    };
    let spec = requiring(object([("source", source())]), &["source"]);
    let status = open(object([("conditions", conditions()), ("source", source())]));
    let schema = spec_and_status(spec, status);
    let names = names("DataSource", "datasources", &["das"]);
    without_status(among_all(definition(&names, schema, &[])))
}

fn storage_profile() -> Value {
    let modes = json!({
        "type": "array",
        "maxItems": 4,
        "items": { "type": "string" },
        "x-kubernetes-validations": [{
            "rule": "self.all(am, am in ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOncePod'])",
            "message": "Illegal AccessMode",
        }],
    });
    let set = requiring(
        object([
            ("accessModes", modes),
            ("volumeMode", choice(&["Block", "Filesystem"])),
        ]),
        &["accessModes", "volumeMode"],
    );
    let sets = with(list(&set), json!({ "maxItems": 8 }));
    let fields = || {
        object([
            ("claimPropertySets", sets.clone()),
            ("cloneStrategy", text()),
            ("dataImportCronSourceFormat", text()),
            ("snapshotClass", text()),
        ])
    };
    let mut status = fields();
    status["properties"]["provisioner"] = text();
    status["properties"]["storageClass"] = text();
    let schema = spec_and_status(fields(), open(status));
    let names = names("StorageProfile", "storageprofiles", &[]).cluster_wide();
    definition(&names, schema, &[])
}

/// `CDI`: configuration of all imports.
fn importer() -> Value {
    let spec = open(object([
        (
            "config",
            with(
                config_spec(),
                json!({ "description": "What all imports keep to." }),
            ),
        ),
        ("imagePullPolicy", text()),
        ("infra", anything()),
        ("workload", anything()),
    ]));
    let conditions = keyed(&condition(), &["type"]);
    let status = open(object([("conditions", conditions), ("phase", text())]));
    let schema = spec_and_status(spec, status);
    let names = names("CDI", "cdis", &["cdi"]).cluster_wide();
    with_columns(definition(&names, schema, &[]), &[AGE, PHASE])
}

/// `CDIConfig`: the effective configuration, with properties detected in the cluster.
fn config() -> Value {
    let status = open(object([
        ("filesystemOverhead", overhead()),
        ("preallocation", boolean()),
        ("scratchSpaceStorageClass", text()),
    ]));
    let schema = spec_and_status(config_spec(), status);
    let names = names("CDIConfig", "cdiconfigs", &[]).cluster_wide();
    definition(&names, schema, &[])
}

fn config_spec() -> Value {
    open(object([
        ("featureGates", list(&text())),
        ("filesystemOverhead", overhead()),
        ("insecureRegistries", list(&text())),
        ("preallocation", boolean()),
        ("scratchSpaceStorageClass", text()),
    ]))
}

/// Share of a volume reserved for file system overhead.
fn overhead() -> Value {
    object([("global", text()), ("storageClass", texts())])
}
