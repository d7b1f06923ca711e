//! `MachineConfig`, `MachineConfigPool` and `MachineConfiguration`.

use serde_json::{Value, json};

use super::schema::{
    Names, anything, atomic, boolean, choice, definition, int_or_text, int32, int64, keyed,
    label_selector, merged, object, only_cluster, operator_conditions, operator_spec,
    operator_status, reference, requiring, spec_and_status, text, with, without_status,
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
    let names = Names::new(GROUP, "v1", "MachineConfig", "machineconfigs")
        .short(&["mc"])
        .cluster_wide();
    let config = definition(
        &names,
        object([("spec", spec)]),
        &[("IgnitionVersion", "string", ".spec.config.ignition.version")],
    );
    // MachineConfigs have no status; pools report theirs.
    without_status(config)
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
    let names = Names::new(GROUP, "v1", "MachineConfigPool", "machineconfigpools")
        .short(&["mcp"])
        .cluster_wide();
    let schema = spec_and_status(spec, status);
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

/// Node disruption policies: changes that need no reboot, by file path, unit name, and for SSH
/// keys.
fn policies() -> Value {
    let service = || object([("serviceName", text())]);
    let action = requiring(
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
        &["type"],
    );
    let actions = || atomic(&action);
    let by = |key: &str| {
        let entry = requiring(
            object([(key, text()), ("actions", actions())]),
            &[key, "actions"],
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
    let schema = only_cluster(spec_and_status(spec, status), "MachineConfiguration");
    let names = Names::new(
        "operator.openshift.io",
        "v1",
        "MachineConfiguration",
        "machineconfigurations",
    )
    .cluster_wide();
    definition(&names, schema, &[])
}
