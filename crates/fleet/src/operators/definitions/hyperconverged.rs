//! `HyperConverged`, in one of its two versions.
//!
//! The real one serves both and converts between them. Nothing converts here, so a cluster has one.

use serde_json::{Value, json};

use super::schema::{
    Names, boolean, conditions, defaulted, definition as define, int_or_text, int32, int64,
    label_selector, object, text, with,
};

/// Which version of `hco.kubevirt.io` is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HyperConvergedVersion {
    /// `v1beta1`: fields are directly in the spec.
    V1Beta1,
    /// `v1`: fields are in `spec.virtualization`.
    #[default]
    V1,
}

impl HyperConvergedVersion {
    /// What it is called in `apiVersion`, behind the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1 => "v1",
        }
    }
}

pub(super) fn definition(version: HyperConvergedVersion) -> Value {
    let fields = virtualization();
    let spec = match version {
        HyperConvergedVersion::V1Beta1 => fields,
        HyperConvergedVersion::V1 => object([("virtualization", defaulted(fields, &json!({})))]),
    };
    let status = object([
        ("conditions", conditions()),
        ("observedGeneration", int64()),
        ("systemHealthStatus", text()),
    ]);
    let schema = object([("spec", defaulted(spec, &json!({}))), ("status", status)]);
    let names = Names {
        group: "hco.kubevirt.io",
        version: version.name(),
        kind: "HyperConverged",
        plural: "hyperconvergeds",
        short: &["hco", "hcos"],
        namespaced: true,
    };
    define(&names, schema, &[])
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
