use serde_json::{Value, json};

use super::*;

fn survives<T: serde::de::DeserializeOwned + Serialize>(object: &Value) -> T {
    let read: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(&read).unwrap(), object);
    read
}

#[test]
fn unknown_fields_are_preserved() {
    let version: ClusterVersion = survives(&json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": { "name": "version" },
        "spec": {
            "clusterID": "2b3e", "channel": "stable-4.18", "upstream": "https://example.org",
            "desiredUpdate": {
                "architecture": "Multi", "version": "4.18.0", "mode": "later",
            },
            "overrides": [{
                "kind": "Deployment", "group": "apps", "namespace": "a", "name": "b",
                "unmanaged": true,
            }],
            "capabilities": { "baselineCapabilitySet": "None" },
        },
        "status": {
            "desired": { "version": "4.18.0", "image": "quay.io/a@sha256:1", "url": "https://x" },
            "history": [{
                "state": "Partial", "startedTime": "2026-01-02T03:04:05Z", "completionTime": null,
                "version": "4.18.0", "image": "quay.io/a@sha256:1", "verified": true, "more": 1,
            }],
            "observedGeneration": 3, "versionHash": "abc=", "availableUpdates": null,
            "conditions": [{ "type": "Progressing", "status": "True", "x": "y" }],
        },
    }));
    assert!(version.condition("Progressing").unwrap().is_true());
    assert!(!version.history()[0].is_completed());

    let operator: ClusterOperator = survives(&json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": { "name": "dns" },
        "spec": { "later": 1 },
        "status": {
            "versions": [
                { "name": "operator", "version": "1" }, { "name": "operator", "version": "2" },
                { "name": "coredns-image", "version": "" },
            ],
            "relatedObjects": [{ "group": "", "resource": "namespaces", "name": "dns" }],
            "extension": { "deep": [1, null] },
        },
    }));
    assert_eq!(operator.version("operator"), Some("1"), "the first counts");
    assert_eq!(
        operator.version("coredns-image"),
        None,
        "empty says nothing"
    );

    let pool: MachineConfigPool = survives(&json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": { "name": "worker" },
        "spec": {
            "configuration": { "name": "rendered-worker-1", "source": [] },
            "nodeSelector": { "matchLabels": { "a": "" } },
        },
        "status": {
            "machineCount": 3, "updatedMachineCount": 1, "readyMachineCount": 1,
            "unavailableMachineCount": 1, "degradedMachineCount": 0, "certExpirys": [],
        },
    }));
    assert_eq!(pool.wanted(), Some("rendered-worker-1"));

    let stream: ImageStream = survives(&json!({
        "apiVersion": "image.openshift.io/v1",
        "kind": "ImageStream",
        "metadata": { "name": "4.18.0" },
        "spec": {
            "lookupPolicy": { "local": false },
            "tags": [
                { "name": "cli", "from": { "kind": "DockerImage", "name": "quay.io/a@sha256:1" },
                  "importPolicy": {}, "annotations": { "a": "b" } },
                { "name": "other", "from": { "kind": "ImageStreamTag", "name": "a:b" } },
            ],
        },
        "status": { "dockerImageRepository": "" },
    }));
    let images: Vec<_> = stream.images().collect();
    assert_eq!(images, [("cli", "quay.io/a@sha256:1")]);
    assert_eq!(stream.image("other"), None);
}
