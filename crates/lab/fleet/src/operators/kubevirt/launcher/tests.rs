use std::collections::BTreeMap;

use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Config, render};
use crate::operators::kubevirt::fixtures::{config, object};

fn instance(spec: &Value) -> DynamicObject {
    object(json!({
        "metadata": {
            "name": "vm", "namespace": "ns", "uid": "u",
            "labels": { "mine": "yes", "kubevirt.io/nodeName": "n" },
            "annotations": { "fleet.medley.dev/run-for": "5s" },
        },
        "spec": spec,
    }))
}

fn pod(spec: &Value) -> Value {
    render(&instance(spec), &Config::default())
}

fn selector(pod: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(pod["spec"]["nodeSelector"].clone()).expect("texts")
}

#[test]
fn launcher_identifies_its_instance() {
    let pod = pod(&json!({ "architecture": "amd64" }));
    let meta = &pod["metadata"];
    assert_eq!(meta["generateName"], "virt-launcher-vm-");
    assert_eq!(
        meta["labels"],
        json!({
            "mine": "yes",
            "kubevirt.io": "virt-launcher",
            "kubevirt.io/created-by": "u",
            // Of the node that a migration leaves; replaced when the guest has arrived.
            "kubevirt.io/nodeName": "n",
            "vm.kubevirt.io/name": "vm",
            "vmi.kubevirt.io/id": "vm",
        })
    );
    let annotations = &meta["annotations"];
    assert_eq!(annotations["kubevirt.io/domain"], "vm");
    assert_eq!(annotations["fleet.medley.dev/run-for"], "5s");
    assert_eq!(meta["ownerReferences"][0]["uid"], "u");
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(limits["devices.kubevirt.io/kvm"], "1");
}

/// Node selector and affinity that follow from a CPU model and features.
#[rstest]
#[case::host_model(json!({ "model": "host-model" }), &[])]
#[case::passthrough(json!({ "model": "host-passthrough" }), &[])]
#[case::named(json!({ "model": "Haswell" }), &["cpu-model.node.kubevirt.io/Haswell"])]
// No node has this label; stock KubeVirt selects it nevertheless.
#[case::best_match(json!({ "model": "best-match-model" }), &["cpu-model.node.kubevirt.io/best-match-model"])]
#[case::features(
    json!({ "model": "host-model", "features": [
        { "name": "aes" }, { "name": "avx", "policy": "require" }, { "name": "a", "policy": "optional" },
        { "name": "b", "policy": "force" }, { "name": "c", "policy": "disable" }, { "name": "d", "policy": "forbid" },
    ] }),
    &["cpu-feature.node.kubevirt.io/aes", "cpu-feature.node.kubevirt.io/avx"]
)]
fn cpu_requirements_become_node_selectors(#[case] cpu: Value, #[case] keys: &[&str]) {
    let pod = pod(&json!({ "architecture": "amd64", "domain": { "cpu": cpu } }));
    let mut expected = BTreeMap::from([
        ("kubernetes.io/arch".to_owned(), "amd64".to_owned()),
        ("kubevirt.io/schedulable".to_owned(), "true".to_owned()),
    ]);
    expected.extend(
        keys.iter()
            .map(|key| ((*key).to_owned(), "true".to_owned())),
    );
    assert_eq!(selector(&pod), expected);
}

#[test]
fn instance_selector_overrides_the_cluster_wide_one() {
    let config = config(
        &json!({ "developerConfiguration": { "nodeSelectors": { "a": "all", "b": "all" } } }),
    );
    let spec = json!({ "architecture": "arm64", "nodeSelector": { "b": "own", "c": "own" } });
    let selector = selector(&render(&instance(&spec), &config));
    let label = |key: &str| selector.get(key).map(String::as_str);
    assert_eq!(
        (label("a"), label("b"), label("c")),
        (Some("all"), Some("own"), Some("own"))
    );
    assert_eq!(label("kubernetes.io/arch"), Some("arm64"));
}

#[test]
fn host_model_avoids_obsolete_hosts_in_every_term() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let avoid = json!({ "key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist" });
    let plain = pod(&json!({ "domain": { "cpu": { "model": "host-model" } } }));
    assert_eq!(
        plain["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"],
        json!([{ "matchExpressions": [avoid] }])
    );
    let own = json!({ "key": "disk", "operator": "Exists" });
    let affinity = json!({
        "podAffinity": { "kept": true },
        "nodeAffinity": { required: { "nodeSelectorTerms": [
            { "matchExpressions": [own] },
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] },
        ] } },
    });
    let spec = json!({ "domain": { "cpu": { "model": "host-model" } }, "affinity": affinity });
    let terms = pod(&spec);
    let terms = &terms["spec"]["affinity"];
    assert_eq!(terms["podAffinity"], json!({ "kept": true }));
    let terms = &terms["nodeAffinity"][required]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"], json!([own, avoid]));
    assert_eq!(terms[1]["matchExpressions"], json!([avoid]));
    assert_eq!(terms[1]["matchFields"][0]["values"], json!(["n"]));
}

#[test]
fn forbidden_features_become_anti_affinity() {
    let spec = json!({ "domain": { "cpu": { "model": "Haswell", "features": [{ "name": "mpx", "policy": "forbid" }] } } });
    let forbidden = pod(&spec).to_string();
    assert!(forbidden.contains("cpu-feature.node.kubevirt.io/mpx"));
    assert!(!forbidden.contains("obsolete-host-model"));
    let named = pod(&json!({ "domain": { "cpu": { "model": "Haswell" } } }));
    assert_eq!(named["spec"].get("affinity"), None);
}

#[rstest]
#[case(json!({}), "100m", "1244Mi")]
#[case(json!({ "cpu": { "cores": 4, "sockets": 2 }, "memory": { "guest": "2Gi" } }), "800m", "2268Mi")]
#[case(json!({ "resources": { "requests": { "cpu": "2", "memory": "512Mi" } } }), "2", "732Mi")]
fn launcher_requests_the_guests_resources(
    #[case] domain: Value,
    #[case] cpu: &str,
    #[case] memory: &str,
) {
    let pod = pod(&json!({ "domain": domain }));
    let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(requests["cpu"], cpu);
    assert_eq!(requests["memory"], memory);
}
