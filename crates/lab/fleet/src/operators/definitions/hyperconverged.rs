//! `HyperConverged`, in one of its two versions.
//!
//! The real CRD serves both with a conversion webhook. There is none here, so a cluster serves one
//! version.

use serde_json::{Value, json};

use super::cdi::data_import_cron_template;
use super::schema::{
    Names, anything, boolean, choice, conditions, defaulted, definition as define, int_or_text,
    int32, int64, keyed, label_selector, list, merged, object, open, requiring, text, with,
};

/// Which version of `hco.kubevirt.io` is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HyperConvergedVersion {
    /// `v1beta1`: fields are directly in the spec.
    V1Beta1,
    /// `v1`: fields are in `spec.virtualization`, `spec.workloadSources` and `spec.deployment`.
    #[default]
    V1,
}

impl HyperConvergedVersion {
    /// The version part of `apiVersion`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1 => "v1",
        }
    }
}

pub(super) fn definition(version: HyperConvergedVersion) -> Value {
    let spec = match version {
        HyperConvergedVersion::V1Beta1 => v1beta1(),
        HyperConvergedVersion::V1 => v1(),
    };
    let status = object([
        ("conditions", conditions()),
        ("dataImportCronTemplates", list(&template_with_status())),
        ("dataImportSchedule", text()),
        ("infrastructureHighlyAvailable", boolean()),
        ("nodeInfo", node_info()),
        ("observedGeneration", int64()),
        ("systemHealthStatus", text()),
    ]);
    let schema = object([("spec", defaulted(spec, &json!({}))), ("status", status)]);
    let names = Names::new(
        "hco.kubevirt.io",
        version.name(),
        "HyperConverged",
        "hyperconvergeds",
    )
    .short(&["hco", "hcos"]);
    define(&names, schema, &[])
}

fn v1() -> Value {
    let sources = merged(
        boot_images(),
        object([
            ("enableMultiArchBootImageImport", boolean()),
            // Name of the field before its release.
            ("enableMultiArchCommonBootImageImport", boolean()),
        ]),
    );
    let deployment = open(object([(
        "nodePlacements",
        object([("infra", anything()), ("workload", anything())]),
    )]));
    let gate = requiring(
        object([
            (
                "name",
                json!({ "type": "string", "minLength": 1, "maxLength": 256 }),
            ),
            ("state", choice(&["Enabled", "Disabled"])),
        ]),
        &["name"],
    );
    let gates = with(keyed(&gate, &["name"]), json!({ "maxItems": 64 }));
    object([
        ("deployment", deployment),
        ("featureGates", gates),
        ("virtualization", defaulted(virtualization(), &json!({}))),
        ("workloadSources", defaulted(sources, &json!({}))),
    ])
}

fn v1beta1() -> Value {
    let gates = open(object([
        ("enableMultiArchBootImageImport", boolean()),
        ("enableMultiArchCommonBootImageImport", boolean()),
    ]));
    let placement = || open(object([("nodePlacement", anything())]));
    let others = object([
        ("featureGates", gates),
        ("infra", placement()),
        ("workloads", placement()),
    ]);
    merged(merged(virtualization(), boot_images()), others)
}

/// Fields about boot images, common to all versions.
fn boot_images() -> Value {
    object([
        ("commonBootImageNamespace", text()),
        ("commonTemplatesNamespace", text()),
        (
            "dataImportCronTemplates",
            list(&data_import_cron_template()),
        ),
        (
            "enableCommonBootImageImport",
            defaulted(boolean(), &json!(true)),
        ),
    ])
}

/// A boot image template and its status.
fn template_with_status() -> Value {
    let status = object([
        ("commonTemplate", boolean()),
        ("conditions", conditions()),
        ("modified", boolean()),
        ("originalSupportedArchitectures", text()),
    ]);
    merged(
        data_import_cron_template(),
        object([("status", open(status))]),
    )
}

fn node_info() -> Value {
    open(object([
        ("controlPlaneArchitectures", list(&text())),
        ("defaultWorkloadArchitecture", text()),
        ("workloadsArchitectures", list(&text())),
    ]))
}

fn virtualization() -> Value {
    let no = || defaulted(boolean(), &json!(false));
    let number = |default: i64| defaulted(int32(), &json!(default));
    let migration = object([
        ("allowAutoConverge", no()),
        ("allowPostCopy", no()),
        ("allowWorkloadDisruption", no()),
        ("bandwidthPerMigration", int_or_text()),
        ("completionTimeoutPerGiB", defaulted(int64(), &json!(20))),
        ("network", text()),
        ("parallelMigrationsPerCluster", number(5)),
        ("parallelOutboundMigrationsPerNode", number(1)),
        ("progressTimeout", defaulted(int64(), &json!(150))),
    ]);
    let density = object([(
        "memoryOvercommitPercentage",
        with(number(100), json!({ "minimum": 10 })),
    )]);
    object([
        ("liveMigrationConfig", defaulted(migration, &json!({}))),
        ("higherWorkloadDensity", defaulted(density, &json!({}))),
        (
            "ksmConfiguration",
            object([("nodeLabelSelector", label_selector())]),
        ),
    ])
}
