//! KubeVirt's CRDs, in the shape of the stock ones.
//!
//! The spec of virtual machines preserves unknown fields. The status of an instance is closed, as
//! upstream: unknown fields are pruned. It is no subresource either: a client updates it with the
//! instance.

use serde_json::{Value, json};

use crate::schema::{
    AGE, Crd, PHASE, anything, boolean, choice, embedded, int32, int64, list, nullable, object,
    open, spec_and_status, text, text_map, time,
};

const READY: &str = "Ready .status.conditions[?(@.type=='Ready')].status";

/// All KubeVirt CRDs.
pub(super) fn definitions() -> [Crd; 4] {
    [
        virtual_machine(),
        virtual_machine_instance(),
        virtual_machine_instance_migration(),
        kubevirt(),
    ]
}

fn crd(kind: &str, short: &[&str], schema: Value) -> Crd {
    Crd::new("kubevirt.io", "v1", kind, schema)
        .short(short)
        .among_all()
}

/// `VirtualMachine`: desired state of a virtual machine.
fn virtual_machine() -> Crd {
    let template = object([("metadata", anything()), ("spec", instance_spec())]);
    let strategies = [
        "Always",
        "RerunOnFailure",
        "Manual",
        "Halted",
        "Once",
        "WaitAsReceiver",
    ];
    let spec = open(object([
        ("dataVolumeTemplates", list(&embedded(anything()))),
        ("runStrategy", choice(&strategies)),
        ("running", boolean()),
        ("template!", template),
    ]));
    let schema = spec_and_status(spec, anything());
    let columns = [AGE, "Status .status.printableStatus", READY];
    crd("VirtualMachine", &["vm", "vms"], schema).columns(&columns)
}

/// `VirtualMachineInstance`: a running virtual machine.
fn virtual_machine_instance() -> Crd {
    let status = object([
        ("VSOCKCID runtimeUser", int64()),
        ("activePods", text_map()),
        (
            "changedBlockTracking currentCPUTopology deviceStatus guestOSInfo kernelBootStatus machine memory \
             topologyHints tpmStatus",
            anything(),
        ),
        ("conditions", list(&condition())),
        (
            "evacuationNodeName fsFreezeStatus launcherContainerImageVersion migrationMethod \
             migrationTransport nodeName phase qosClass reason selinuxContext virtualMachineRevisionName",
            text(),
        ),
        ("interfaces migratedVolumes volumeStatus", list(&anything())),
        ("migrationState", migration_state()),
        ("phaseTransitionTimestamps", list(&transition())),
    ]);
    let schema = spec_and_status(instance_spec(), status);
    crd("VirtualMachineInstance", &["vmi", "vmis"], schema)
        .without_status()
        .columns(&[
            AGE,
            PHASE,
            "IP .status.interfaces[0].ipAddress",
            "NodeName .status.nodeName",
            READY,
        ])
        .wide_columns(&[
            "Live-Migratable .status.conditions[?(@.type=='LiveMigratable')].status",
            "Paused .status.conditions[?(@.type=='Paused')].status",
        ])
}

/// `VirtualMachineInstanceMigration`: a request to migrate an instance.
fn virtual_machine_instance_migration() -> Crd {
    let spec = open(object([
        ("addedNodeSelector", text_map()),
        ("priority vmiName", text()),
    ]));
    let status = object([
        ("conditions", list(&condition())),
        ("migrationState", migration_state()),
        ("phase", text()),
        ("phaseTransitionTimestamps", list(&transition())),
        ("synchronizationAddresses", list(&text())),
    ]);
    let schema = spec_and_status(spec, status);
    let short = ["vmim", "vmims"];
    crd("VirtualMachineInstanceMigration", &short, schema).columns(&[PHASE, "VMI .spec.vmiName"])
}

/// `KubeVirt`: configuration of KubeVirt itself.
fn kubevirt() -> Crd {
    let obsolete = json!({ "type": "object", "additionalProperties": { "type": "boolean" } });
    let limits = "parallelMigrationsPerCluster parallelOutboundMigrationsPerNode";
    let migrations = open(object([("nodeDrainTaintKey", text()), (limits, int32())]));
    let configuration = open(object([
        ("cpuModel evictionStrategy minCPUModel", text()),
        ("migrations", migrations),
        ("obsoleteCPUModels", obsolete),
    ]));
    let schema = spec_and_status(open(object([("configuration", configuration)])), anything());
    crd("KubeVirt", &["kv", "kvs"], schema).columns(&[AGE, PHASE])
}

/// The spec of an instance.
fn instance_spec() -> Value {
    let feature = object([("name! policy", text())]);
    let cpu = open(object([
        ("cores sockets threads", int64()),
        ("features", list(&feature)),
        ("model", text()),
    ]));
    open(object([
        ("affinity", anything()),
        ("architecture evictionStrategy", text()),
        ("domain", open(object([("cpu", cpu)]))),
        ("nodeSelector", text_map()),
        ("terminationGracePeriodSeconds", int64()),
        ("tolerations", list(&anything())),
    ]))
}

/// Progress of a migration, in the status of the instance.
fn migration_state() -> Value {
    open(object([
        (
            "abortRequested completed failed targetNodeDomainDetected",
            boolean(),
        ),
        ("endTimestamp startTimestamp", nullable(time())),
        (
            "failureReason migrationUid mode sourceNode sourcePod targetNode targetNodeAddress targetPod",
            text(),
        ),
    ]))
}

fn condition() -> Value {
    object([
        ("lastProbeTime lastTransitionTime", nullable(time())),
        ("message reason status! type!", text()),
    ])
}

/// Time at which a phase began.
fn transition() -> Value {
    object([("phase", text()), ("phaseTransitionTimestamp", time())])
}
