use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// Reads an object; all its fields are written back.
fn survives<K>(object: &Value) -> K
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let read: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *object);
    assert_eq!(object["kind"], K::kind(&()).as_ref());
    assert_eq!(object["apiVersion"], format!("{GROUP}/{VERSION}"));
    read
}

fn instance_spec() -> Value {
    json!({
        "architecture": "amd64",
        "domain": {
            "cpu": {
                "cores": 2, "model": "best-match-model",
                "features": [{ "name": "aes" }, { "name": "mpx", "policy": "forbid", "x": 1 }],
            },
            "devices": { "disks": [] },
        },
        "nodeSelector": { "zone": "a" },
        "affinity": { "nodeAffinity": "nonsense" },
        "tolerations": [{ "key": "k", "operator": "Exists" }],
        "volumes": [],
    })
}

#[test]
fn instance_preserves_unknown_fields() {
    let instance: VirtualMachineInstance = survives(&json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": { "name": "vm", "namespace": "default" },
        "spec": instance_spec(),
        "status": {
            "phase": "Running", "nodeName": "node-1", "prefferedModel": "EPYC-Rome",
            "activePods": { "uid": "node-1" },
            "conditions": [{ "type": "Ready", "status": "True", "lastProbeTime": null }],
            "migrationState": { "sourceNode": "node-0", "completed": true, "mode": "PreCopy" },
            "guestOSInfo": {},
        },
    }));
    assert_eq!(instance.spec.model(), Some("best-match-model"));
    assert_eq!(instance.phase(), phases::RUNNING);
    assert_eq!(instance.node_name(), Some("node-1"));
}

/// KubeVirt treats an empty model as unset.
#[test]
fn empty_model_is_unset() {
    let spec = json!({ "domain": { "cpu": { "model": "" } } });
    let spec: VirtualMachineInstanceSpec = serde_json::from_value(spec).unwrap();
    assert_eq!(spec.model(), None);
    assert_eq!(VirtualMachineInstanceSpec::default().model(), None);
    assert_eq!(VirtualMachineInstance::default().phase(), "");
}

#[test]
fn other_kinds_preserve_unknown_fields() {
    let machine: VirtualMachine = survives(&json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": { "name": "vm", "namespace": "default" },
        "spec": {
            "runStrategy": "Always",
            "dataVolumeTemplates": [],
            "template": { "metadata": { "labels": { "a": "b" } }, "spec": instance_spec() },
        },
        "status": { "printableStatus": "Running", "created": true },
    }));
    assert_eq!(machine.spec.template.spec.model(), Some("best-match-model"));
    let kubevirt: KubeVirt = survives(&json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": { "name": "kubevirt", "namespace": "kubevirt" },
        "spec": {
            "configuration": {
                "cpuModel": "best-match-model",
                "obsoleteCPUModels": { "Penryn": false },
                "developerConfiguration": { "nodeSelectors": { "a": "b" }, "featureGates": [] },
                "network": {},
            },
            "imagePullPolicy": "Always",
        },
        "status": { "phase": "Deployed", "conditions": [] },
    }));
    assert_eq!(kubevirt.cpu_model(), Some("best-match-model"));
    let migration: VirtualMachineInstanceMigration = survives(&json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": { "name": "m", "namespace": "default" },
        "spec": { "vmiName": "vm", "addedNodeSelector": { "a": "b" }, "priority": "user" },
        "status": { "phase": "Succeeded", "migrationState": {} },
    }));
    assert_eq!(migration.phase(), phases::SUCCEEDED);
}
