//! KubeVirt's CRDs, in the shape of the stock ones.
//!
//! The spec of virtual machines preserves unknown fields. The status of an instance is closed, as
//! upstream: unknown fields are pruned. It is no subresource either: a client updates it with the
//! instance.

use serde_json::{Value, json};

use super::schema::{
    AGE, Names, PHASE, among_all, anything, boolean, choice, definition, embedded, int32, int64,
    list, object, open, requiring, spec_and_status, text, texts, time, with, with_columns,
    without_status,
};

const GROUP: &str = "kubevirt.io";
const READY: (&str, &str, &str) = (
    "Ready",
    "string",
    ".status.conditions[?(@.type=='Ready')].status",
);

/// All KubeVirt CRDs.
pub(super) fn definitions() -> [Value; 4] {
    [
        virtual_machine(),
        virtual_machine_instance(),
        virtual_machine_instance_migration(),
        kubevirt(),
    ]
}

/// `VirtualMachine`: desired state of a virtual machine.
fn virtual_machine() -> Value {
    let template = object([("metadata", anything()), ("spec", instance_spec())]);
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
    let columns = [AGE, ("Status", "string", ".status.printableStatus"), READY];
    shown(
        &names("VirtualMachine", "virtualmachines", &["vm", "vms"]),
        schema,
        &columns,
    )
}

/// `VirtualMachineInstance`: a running virtual machine.
fn virtual_machine_instance() -> Value {
    let status = object([
        ("VSOCKCID", int64()),
        ("activePods", texts()),
        ("changedBlockTracking", anything()),
        ("conditions", list(&condition())),
        ("currentCPUTopology", anything()),
        ("deviceStatus", anything()),
        ("evacuationNodeName", text()),
        ("fsFreezeStatus", text()),
        ("guestOSInfo", anything()),
        ("interfaces", list(&anything())),
        ("kernelBootStatus", anything()),
        ("launcherContainerImageVersion", text()),
        ("machine", anything()),
        ("memory", anything()),
        ("migratedVolumes", list(&anything())),
        ("migrationMethod", text()),
        ("migrationState", migration_state()),
        ("migrationTransport", text()),
        ("nodeName", text()),
        ("phase", text()),
        ("phaseTransitionTimestamps", list(&transition())),
        ("qosClass", text()),
        ("reason", text()),
        ("runtimeUser", int64()),
        ("selinuxContext", text()),
        ("topologyHints", anything()),
        ("tpmStatus", anything()),
        ("virtualMachineRevisionName", text()),
        ("volumeStatus", list(&anything())),
    ]);
    let schema = spec_and_status(instance_spec(), status);
    let columns = [
        AGE,
        PHASE,
        ("IP", "string", ".status.interfaces[0].ipAddress"),
        ("NodeName", "string", ".status.nodeName"),
        READY,
    ];
    let names = names(
        "VirtualMachineInstance",
        "virtualmachineinstances",
        &["vmi", "vmis"],
    );
    let mut definition = without_status(shown(&names, schema, &columns));
    // Only `-o wide` shows these.
    let all = &mut definition["spec"]["versions"][0]["additionalPrinterColumns"];
    if let Some(all) = all.as_array_mut() {
        for (name, about) in [("Live-Migratable", "LiveMigratable"), ("Paused", "Paused")] {
            all.push(json!({
                "name": name,
                "type": "string",
                "jsonPath": format!(".status.conditions[?(@.type=='{about}')].status"),
                "priority": 1,
            }));
        }
    }
    definition
}

/// `VirtualMachineInstanceMigration`: a request to migrate an instance.
fn virtual_machine_instance_migration() -> Value {
    let spec = open(object([
        ("addedNodeSelector", texts()),
        ("priority", text()),
        ("vmiName", text()),
    ]));
    let status = object([
        ("conditions", list(&condition())),
        ("migrationState", migration_state()),
        ("phase", text()),
        ("phaseTransitionTimestamps", list(&transition())),
        ("synchronizationAddresses", list(&text())),
    ]);
    let schema = spec_and_status(spec, status);
    let names = names(
        "VirtualMachineInstanceMigration",
        "virtualmachineinstancemigrations",
        &["vmim", "vmims"],
    );
    shown(&names, schema, &[PHASE, ("VMI", "string", ".spec.vmiName")])
}

/// `KubeVirt`: configuration of KubeVirt itself.
fn kubevirt() -> Value {
    let obsolete = json!({ "type": "object", "additionalProperties": { "type": "boolean" } });
    let migrations = open(object([
        ("nodeDrainTaintKey", text()),
        ("parallelMigrationsPerCluster", int32()),
        ("parallelOutboundMigrationsPerNode", int32()),
    ]));
    let configuration = open(object([
        ("cpuModel", text()),
        ("evictionStrategy", text()),
        ("migrations", migrations),
        ("minCPUModel", text()),
        ("obsoleteCPUModels", obsolete),
    ]));
    let schema = spec_and_status(open(object([("configuration", configuration)])), anything());
    shown(
        &names("KubeVirt", "kubevirts", &["kv", "kvs"]),
        schema,
        &[AGE, PHASE],
    )
}

/// The spec of an instance.
fn instance_spec() -> Value {
    let feature = requiring(object([("name", text()), ("policy", text())]), &["name"]);
    let cpu = open(object([
        ("cores", int64()),
        ("features", list(&feature)),
        ("model", text()),
        ("sockets", int64()),
        ("threads", int64()),
    ]));
    open(object([
        ("affinity", anything()),
        ("architecture", text()),
        ("domain", open(object([("cpu", cpu)]))),
        ("evictionStrategy", text()),
        ("nodeSelector", texts()),
        ("terminationGracePeriodSeconds", int64()),
        ("tolerations", list(&anything())),
    ]))
}

/// Progress of a migration, in the status of the instance.
fn migration_state() -> Value {
    open(object([
        ("abortRequested", boolean()),
        ("completed", boolean()),
        ("endTimestamp", with(time(), json!({ "nullable": true }))),
        ("failed", boolean()),
        ("failureReason", text()),
        ("migrationUid", text()),
        ("mode", text()),
        ("sourceNode", text()),
        ("sourcePod", text()),
        ("startTimestamp", with(time(), json!({ "nullable": true }))),
        ("targetNode", text()),
        ("targetNodeAddress", text()),
        ("targetNodeDomainDetected", boolean()),
        ("targetPod", text()),
    ]))
}

fn condition() -> Value {
    let moment = || with(time(), json!({ "nullable": true }));
    requiring(
        object([
            ("lastProbeTime", moment()),
            ("lastTransitionTime", moment()),
            ("message", text()),
            ("reason", text()),
            ("status", text()),
            ("type", text()),
        ]),
        &["status", "type"],
    )
}

/// Time at which a phase began.
fn transition() -> Value {
    object([("phase", text()), ("phaseTransitionTimestamp", time())])
}

fn names(kind: &'static str, plural: &'static str, short: &'static [&'static str]) -> Names {
    Names::new(GROUP, "v1", kind, plural).short(short)
}

fn shown(names: &Names, schema: Value, columns: &[(&str, &str, &str)]) -> Value {
    with_columns(among_all(definition(names, schema, &[])), columns)
}
