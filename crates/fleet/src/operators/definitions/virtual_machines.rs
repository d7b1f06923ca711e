//! Virtual machines, templates of them, and the operator that makes templates and the crons that keep
//! boot images current.

use serde_json::{Value, json};

use super::cdi::data_import_cron_template;
use super::schema::{
    AGE, Names, PHASE, among_all, anything, boolean, choice, definition, embedded, int64, list,
    object, open, operator_conditions, requiring, spec_and_status, text, texts, with_columns,
    without_status,
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

/// OpenShift's `Template`. There it is a kind of the API server, which also makes objects of it; here
/// it only keeps what is written.
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

/// KubeVirt's `VirtualMachine`, narrowly: where its volumes come from, and which architecture it has.
pub(super) fn virtual_machine() -> Value {
    let machine = open(object([
        ("architecture", text()),
        ("nodeSelector", texts()),
    ]));
    let template = object([("metadata", anything()), ("spec", machine)]);
    let volume = embedded(anything());
    let strategies = [
        "Always",
        "RerunOnFailure",
        "Manual",
        "Halted",
        "Once",
        "WaitAsReceiver",
    ];
    let spec = open(requiring(
        object([
            ("dataVolumeTemplates", list(&volume)),
            ("runStrategy", choice(&strategies)),
            ("running", boolean()),
            ("template", template),
        ]),
        &["template"],
    ));
    let schema = spec_and_status(spec, anything());
    let names =
        Names::new("kubevirt.io", "v1", "VirtualMachine", "virtualmachines").short(&["vm", "vms"]);
    let columns = [
        AGE,
        ("Status", "string", ".status.printableStatus"),
        (
            "Ready",
            "string",
            ".status.conditions[?(@.type=='Ready')].status",
        ),
    ];
    with_columns(among_all(definition(&names, schema, &[])), &columns)
}
