//! Virtual machine templates, and SSP, the operator that creates them and the crons that keep boot
//! images current.

use serde_json::{Value, json};

use super::cdi::data_import_cron_template;
use super::schema::{
    AGE, Names, PHASE, anything, boolean, definition, int64, list, object, open,
    operator_conditions, requiring, text, texts, with_columns, without_status,
};

/// `SSP`.
pub(super) fn ssp() -> Value {
    let templates = object([
        (
            "dataImportCronTemplates",
            list(&data_import_cron_template()),
        ),
        (
            "namespace",
            json!({
                "type": "string",
                "maxLength": 63,
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            }),
        ),
    ]);
    let cluster = object([
        ("controlPlaneArchitectures", list(&text())),
        ("workloadArchitectures", list(&text())),
    ]);
    let spec = requiring(
        object([
            ("cluster", cluster),
            ("commonTemplates", templates),
            ("enableMultipleArchitectures", boolean()),
            ("templateValidator", anything()),
            ("tlsSecurityProfile", anything()),
            ("tokenGenerationService", anything()),
        ]),
        &["commonTemplates"],
    );
    let status = open(object([
        ("conditions", operator_conditions()),
        ("observedGeneration", int64()),
        ("observedVersion", text()),
        ("operatorVersion", text()),
        ("phase", text()),
        ("targetVersion", text()),
    ]));
    let names = Names::new("ssp.kubevirt.io", "v1beta3", "SSP", "ssps");
    with_columns(
        definition(&names, object([("spec", spec), ("status", status)]), &[]),
        &[AGE, PHASE],
    )
}

/// OpenShift's `Template`. There an aggregated API server serves and processes it; here it is only
/// stored.
pub(super) fn template() -> Value {
    let parameter = requiring(
        object([
            ("description", text()),
            ("displayName", text()),
            ("from", text()),
            ("generate", text()),
            ("name", text()),
            ("required", boolean()),
            ("value", text()),
        ]),
        &["name"],
    );
    let schema = requiring(
        object([
            ("labels", texts()),
            ("message", text()),
            ("objects", list(&anything())),
            ("parameters", list(&parameter)),
        ]),
        &["objects"],
    );
    let names = Names::new("template.openshift.io", "v1", "Template", "templates");
    let columns = [("Description", "string", ".metadata.annotations.description")];
    without_status(with_columns(definition(&names, schema, &[]), &columns))
}
