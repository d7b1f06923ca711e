//! `HyperConverged`, in one of its two versions.
//!
//! The real CRD serves both with a conversion webhook. There is none here, so a cluster serves one
//! version.

use serde_json::{Value, json};

use super::cdi::data_import_cron_template;
use crate::schema::{
    Crd, anything, boolean, choice, conditions, defaulted, int_or_text, int32, int64, keyed,
    label_selector, list, merged, object, open, text, with,
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

pub(super) fn definition(version: HyperConvergedVersion) -> Crd {
    let spec = match version {
        HyperConvergedVersion::V1Beta1 => v1beta1(),
        HyperConvergedVersion::V1 => v1(),
    };
    let status = object([
        ("conditions", conditions()),
        ("dataImportCronTemplates", list(&template_with_status())),
        ("dataImportSchedule systemHealthStatus", text()),
        ("infrastructureHighlyAvailable", boolean()),
        ("nodeInfo", node_info()),
        ("observedGeneration", int64()),
    ]);
    let schema = object([("spec", defaulted(spec, json!({}))), ("status", status)]);
    Crd::new("hco.kubevirt.io", version.name(), "HyperConverged", schema).short(&["hco", "hcos"])
}

/// The field that imports boot images of all architectures, and its name before its release.
const MULTI_ARCH: &str = "enableMultiArchBootImageImport enableMultiArchCommonBootImageImport";

fn v1() -> Value {
    let sources = merged(boot_images(), object([(MULTI_ARCH, boolean())]));
    let placements = object([("infra workload", anything())]);
    let name = json!({ "minLength": 1, "maxLength": 256 });
    let gate = object([
        ("name!", with(text(), name)),
        ("state", choice(&["Enabled", "Disabled"])),
    ]);
    let gates = with(keyed(&gate, &["name"]), json!({ "maxItems": 64 }));
    object([
        ("deployment", open(object([("nodePlacements", placements)]))),
        ("featureGates", gates),
        ("virtualization", defaulted(virtualization(), json!({}))),
        ("workloadSources", defaulted(sources, json!({}))),
    ])
}

fn v1beta1() -> Value {
    let placement = open(object([("nodePlacement", anything())]));
    let others = object([
        ("featureGates", open(object([(MULTI_ARCH, boolean())]))),
        ("infra workloads", placement),
    ]);
    merged(merged(virtualization(), boot_images()), others)
}

/// Fields about boot images, common to all versions.
fn boot_images() -> Value {
    let templates = list(&data_import_cron_template());
    object([
        ("commonBootImageNamespace commonTemplatesNamespace", text()),
        ("dataImportCronTemplates", templates),
        ("enableCommonBootImageImport", defaulted(boolean(), true)),
    ])
}

/// A boot image template and its status.
fn template_with_status() -> Value {
    let status = object([
        ("commonTemplate modified", boolean()),
        ("conditions", conditions()),
        ("originalSupportedArchitectures", text()),
    ]);
    merged(
        data_import_cron_template(),
        object([("status", open(status))]),
    )
}

fn node_info() -> Value {
    let architectures = "controlPlaneArchitectures workloadsArchitectures";
    open(object([
        (architectures, list(&text())),
        ("defaultWorkloadArchitecture", text()),
    ]))
}

fn virtualization() -> Value {
    let switches = "allowAutoConverge allowPostCopy allowWorkloadDisruption";
    let migration = object([
        (switches, defaulted(boolean(), false)),
        ("bandwidthPerMigration", int_or_text()),
        ("completionTimeoutPerGiB", defaulted(int64(), 20)),
        ("network", text()),
        ("parallelMigrationsPerCluster", defaulted(int32(), 5)),
        ("parallelOutboundMigrationsPerNode", defaulted(int32(), 1)),
        ("progressTimeout", defaulted(int64(), 150)),
    ]);
    let percentage = with(defaulted(int32(), 100), json!({ "minimum": 10 }));
    let density = object([("memoryOvercommitPercentage", percentage)]);
    let ksm = object([("nodeLabelSelector", label_selector())]);
    object([
        ("liveMigrationConfig", defaulted(migration, json!({}))),
        ("higherWorkloadDensity", defaulted(density, json!({}))),
        ("ksmConfiguration", ksm),
    ])
}
