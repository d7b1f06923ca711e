//! Virtual machine templates, and SSP, the operator that creates them and the crons that keep boot
//! images current.

use serde_json::json;

use super::cdi::data_import_cron_template;
use crate::schema::{
    AGE, Crd, PHASE, anything, boolean, int64, list, object, open, operator_conditions, text,
    text_map, with,
};

/// `SSP`.
pub(super) fn ssp() -> Crd {
    let namespace = json!({ "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" });
    let templates = object([
        (
            "dataImportCronTemplates",
            list(&data_import_cron_template()),
        ),
        ("namespace", with(text(), namespace)),
    ]);
    let architectures = "controlPlaneArchitectures workloadArchitectures";
    let spec = object([
        ("cluster", object([(architectures, list(&text()))])),
        ("commonTemplates!", templates),
        ("enableMultipleArchitectures", boolean()),
        (
            "templateValidator tlsSecurityProfile tokenGenerationService",
            anything(),
        ),
    ]);
    let status = object([
        ("conditions", operator_conditions()),
        ("observedGeneration", int64()),
        (
            "observedVersion operatorVersion phase targetVersion",
            text(),
        ),
    ]);
    let schema = object([("spec", spec), ("status", open(status))]);
    Crd::new("ssp.kubevirt.io", "v1beta3", "SSP", schema).columns(&[AGE, PHASE])
}

/// OpenShift's `Template`. There an aggregated API server serves and processes it; here it is only
/// stored.
pub(super) fn template() -> Crd {
    let parameter = object([
        ("description displayName from generate name! value", text()),
        ("required", boolean()),
    ]);
    let schema = object([
        ("labels", text_map()),
        ("message", text()),
        ("objects!", list(&anything())),
        ("parameters", list(&parameter)),
    ]);
    Crd::new("template.openshift.io", "v1", "Template", schema)
        .without_status()
        .columns(&["Description .metadata.annotations.description"])
}
