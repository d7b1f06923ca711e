//! `MachineConfig`, `MachineConfigPool` and `MachineConfiguration`.

use serde_json::{Value, json};

use crate::schema::{
    AGE, Crd, anything, atomic, boolean, choice, int_or_text, int32, int64, keyed, label_selector,
    merged, nullable, object, only_cluster, operator_conditions, operator_spec, operator_status,
    reference, spec_and_status, text, with,
};

const GROUP: &str = "machineconfiguration.openshift.io";

pub(super) fn definitions() -> [Crd; 3] {
    [configs(), pools(), configuration()]
}

/// MachineConfigs have no status; pools report theirs.
fn configs() -> Crd {
    let spec = object([
        (
            "baseOSExtensionsContainerImage kernelType osImageURL",
            text(),
        ),
        ("config", anything()),
        ("extensions kernelArguments", nullable(atomic(&text()))),
        ("fips", boolean()),
    ]);
    Crd::new(GROUP, "v1", "MachineConfig", object([("spec", spec)]))
        .short(&["mc"])
        .cluster_wide()
        .without_status()
        .columns(&["IgnitionVersion .spec.config.ignition.version", AGE])
}

fn pools() -> Crd {
    let source = object([("source", atomic(&reference()))]);
    let configuration = with(
        merged(reference(), source),
        json!({ "x-kubernetes-map-type": "granular" }),
    );
    let spec = object([
        ("configuration", configuration.clone()),
        ("machineConfigSelector nodeSelector", label_selector()),
        ("maxUnavailable", int_or_text()),
        ("paused", boolean()),
    ]);
    let counts = "degradedMachineCount machineCount readyMachineCount unavailableMachineCount updatedMachineCount";
    let status = object([
        ("conditions", operator_conditions()),
        ("configuration", configuration),
        (counts, int32()),
        ("observedGeneration", int64()),
    ]);
    let schema = spec_and_status(spec, status);
    Crd::new(GROUP, "v1", "MachineConfigPool", schema)
        .short(&["mcp"])
        .cluster_wide()
        .columns(&[
            "Config .status.configuration.name",
            "Updated .status.conditions[?(@.type==\"Updated\")].status",
            "Updating .status.conditions[?(@.type==\"Updating\")].status",
            "Degraded .status.conditions[?(@.type==\"Degraded\")].status",
            "MachineCount:number .status.machineCount",
            "ReadyMachineCount:number .status.readyMachineCount",
            "UpdatedMachineCount:number .status.updatedMachineCount",
            "DegradedMachineCount:number .status.degradedMachineCount",
            AGE,
        ])
}

/// Node disruption policies: changes that need no reboot, by file path, unit name, and for SSH
/// keys.
fn policies() -> Value {
    let types = [
        "None",
        "Reload",
        "Restart",
        "DaemonReload",
        "Drain",
        "Reboot",
        "Special",
    ];
    let action = object([
        ("type!", choice(&types)),
        ("reload restart", object([("serviceName", text())])),
    ]);
    let actions = atomic(&action);
    let by = |key: &str| {
        let entry = object([(&*format!("{key}!"), text()), ("actions!", actions.clone())]);
        keyed(&entry, &[key])
    };
    object([
        ("files", by("path")),
        ("units", by("name")),
        ("sshkey", object([("actions", actions.clone())])),
    ])
}

fn configuration() -> Crd {
    let spec = object([("nodeDisruptionPolicy", policies())]);
    let effective = object([("clusterPolicies", policies())]);
    let status = object([("nodeDisruptionPolicyStatus", effective)]);
    let schema = spec_and_status(
        merged(operator_spec(), spec),
        merged(operator_status(), status),
    );
    let kind = "MachineConfiguration";
    Crd::new(
        "operator.openshift.io",
        "v1",
        kind,
        only_cluster(schema, kind),
    )
    .cluster_wide()
}
