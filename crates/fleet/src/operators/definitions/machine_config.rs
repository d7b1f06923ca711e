//! `MachineConfig`, `MachineConfigPool` and `MachineConfiguration`.

use serde_json::{Value, json};

use super::schema::{
    Names, anything, atomic, boolean, choice, definition, int_or_text, int32, int64, keyed,
    label_selector, merged, object, operator_conditions, operator_spec, operator_status, reference,
    text, with,
};

const GROUP: &str = "machineconfiguration.openshift.io";

pub(super) fn definitions() -> [Value; 3] {
    [configs(), pools(), configuration()]
}

fn configs() -> Value {
    let texts = || with(atomic(&text()), json!({ "nullable": true }));
    let spec = object([
        ("baseOSExtensionsContainerImage", text()),
        ("config", anything()),
        ("extensions", texts()),
        ("fips", boolean()),
        ("kernelArguments", texts()),
        ("kernelType", text()),
        ("osImageURL", text()),
    ]);
    let names = Names {
        group: GROUP,
        version: "v1",
        kind: "MachineConfig",
        plural: "machineconfigs",
        short: &["mc"],
        namespaced: false,
    };
    let mut config = definition(
        &names,
        object([("spec", spec)]),
        &[("IgnitionVersion", "string", ".spec.config.ignition.version")],
    );
    // It says what is wanted, and nothing comes of it but what pools report.
    if let Some(version) = config["spec"]["versions"][0].as_object_mut() {
        version.remove("subresources");
    }
    config
}

fn pools() -> Value {
    let configuration = || {
        with(
            merged(reference(), object([("source", atomic(&reference()))])),
            json!({ "x-kubernetes-map-type": "granular" }),
        )
    };
    let spec = object([
        ("configuration", configuration()),
        ("machineConfigSelector", label_selector()),
        ("maxUnavailable", int_or_text()),
        ("nodeSelector", label_selector()),
        ("paused", boolean()),
    ]);
    let status = object([
        ("conditions", operator_conditions()),
        ("configuration", configuration()),
        ("degradedMachineCount", int32()),
        ("machineCount", int32()),
        ("observedGeneration", int64()),
        ("readyMachineCount", int32()),
        ("unavailableMachineCount", int32()),
        ("updatedMachineCount", int32()),
    ]);
    let names = Names {
        group: GROUP,
        version: "v1",
        kind: "MachineConfigPool",
        plural: "machineconfigpools",
        short: &["mcp"],
        namespaced: false,
    };
    let schema = with(
        object([("spec", spec), ("status", status)]),
        json!({ "required": ["spec"] }),
    );
    definition(
        &names,
        schema,
        &[
            ("Config", "string", ".status.configuration.name"),
            (
                "Updated",
                "string",
                ".status.conditions[?(@.type==\"Updated\")].status",
            ),
            (
                "Updating",
                "string",
                ".status.conditions[?(@.type==\"Updating\")].status",
            ),
            (
                "Degraded",
                "string",
                ".status.conditions[?(@.type==\"Degraded\")].status",
            ),
            ("MachineCount", "number", ".status.machineCount"),
            ("ReadyMachineCount", "number", ".status.readyMachineCount"),
            (
                "UpdatedMachineCount",
                "number",
                ".status.updatedMachineCount",
            ),
            (
                "DegradedMachineCount",
                "number",
                ".status.degradedMachineCount",
            ),
        ],
    )
}

/// What may be done without a reboot: by path of a file, by name of a unit, and for keys.
fn policies() -> Value {
    let service = || object([("serviceName", text())]);
    let action = with(
        object([
            (
                "type",
                choice(&[
                    "None",
                    "Reload",
                    "Restart",
                    "DaemonReload",
                    "Drain",
                    "Reboot",
                    "Special",
                ]),
            ),
            ("reload", service()),
            ("restart", service()),
        ]),
        json!({ "required": ["type"] }),
    );
    let actions = || atomic(&action);
    let by = |key: &str| {
        let entry = with(
            object([(key, text()), ("actions", actions())]),
            json!({ "required": [key, "actions"] }),
        );
        keyed(&entry, &[key])
    };
    object([
        ("files", by("path")),
        ("units", by("name")),
        ("sshkey", object([("actions", actions())])),
    ])
}

fn configuration() -> Value {
    let spec = merged(
        operator_spec(),
        object([("nodeDisruptionPolicy", policies())]),
    );
    let status = merged(
        operator_status(),
        object([(
            "nodeDisruptionPolicyStatus",
            object([("clusterPolicies", policies())]),
        )]),
    );
    let schema = with(
        object([("spec", spec), ("status", status)]),
        json!({
            "required": ["spec"],
            "x-kubernetes-validations": [{
                "rule": "self.metadata.name == 'cluster'",
                "message": "there is one MachineConfiguration, and its name must be cluster",
            }],
        }),
    );
    let names = Names {
        group: "operator.openshift.io",
        version: "v1",
        kind: "MachineConfiguration",
        plural: "machineconfigurations",
        short: &[],
        namespaced: false,
    };
    definition(&names, schema, &[])
}
