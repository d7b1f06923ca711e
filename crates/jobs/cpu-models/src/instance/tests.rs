use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::index::Index;
use crate::names::{
    CPU_MANAGER_LABEL, FEATURE_LABEL, MACHINE_LABEL, NODE_ANNOTATION, REASON_ANNOTATION,
};
use crate::policy::Policy;
use crate::prospects::prospects;
use crate::test_values::{labelled, node};

fn instance(spec: Value) -> VirtualMachineInstance {
    VirtualMachineInstance {
        spec: serde_json::from_value(spec).unwrap(),
        ..VirtualMachineInstance::default()
    }
}

/// How many of three nodes a VM could start on: `plain`, `zone` with a label, `aes` with a feature.
fn nodes_for(spec: Value, everywhere: &[(&str, &str)]) -> usize {
    let everywhere = everywhere.iter();
    let everywhere = everywhere.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let aes = format!("{FEATURE_LABEL}aes");
    let index = Index::new([
        node("plain", "Intel", &["Nehalem"]),
        labelled(node("zone", "Intel", &["Nehalem"]), &[("zone", "a")]),
        labelled(node("aes", "Intel", &["Nehalem"]), &[(&aes, "true")]),
    ]);
    let machine = Machine::of_instance(&instance(spec), &everywhere.collect());
    prospects(&index, &Policy::default(), &machine).nodes
}

#[rstest]
#[case::nothing(json!({}), &[], 3)]
#[case::selector(json!({ "nodeSelector": { "zone": "a" } }), &[], 1)]
#[case::everywhere(json!({}), &[("zone", "a")], 1)]
#[case::own_label_counts_more(json!({ "nodeSelector": { "zone": "a" } }), &[("zone", "b")], 1)]
#[case::feature(json!({ "domain": { "cpu": { "features": [{ "name": "aes" }] } } }), &[], 1)]
#[case::required(json!({ "domain": { "cpu": { "features": [{ "name": "aes", "policy": "require" }] } } }), &[], 1)]
#[case::optional(json!({ "domain": { "cpu": { "features": [{ "name": "aes", "policy": "optional" }] } } }), &[], 3)]
#[case::forbidden(json!({ "domain": { "cpu": { "features": [{ "name": "aes", "policy": "forbid" }] } } }), &[], 2)]
#[case::architecture(json!({ "architecture": "s390x" }), &[], 0)]
#[case::affinity(json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }],
} } } }), &[], 1)]
#[case::nonsense(json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
    "nodeSelectorTerms": "everywhere",
} } } }), &[], 0)]
#[case::null(json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": null } } }), &[], 3)]
fn instance_demand_matches_its_pod(
    #[case] spec: Value,
    #[case] everywhere: &[(&str, &str)],
    #[case] nodes: usize,
) {
    assert_eq!(nodes_for(spec, everywhere), nodes);
}

#[rstest]
#[case::alias(json!({ "machine": { "type": "q35" } }), json!(null), 2)]
#[case::version(json!({ "machine": { "type": "pc-q35-10.1" } }), json!(null), 1)]
#[case::running(json!({ "machine": { "type": "q35" } }), json!({ "machine": { "type": "pc-q35-10.1" } }), 1)]
#[case::not_running_yet(json!({ "machine": { "type": "q35" } }), json!({ "machine": { "type": "" } }), 2)]
#[case::none(json!({}), json!({}), 3)]
// Nodes have no labels for machine types in older releases of KubeVirt.
#[case::unreported(json!({ "machine": { "type": "pc-q35-9.2" } }), json!(null), 3)]
fn machine_type_counts_where_nodes_report_it(
    #[case] domain: Value,
    #[case] status: Value,
    #[case] nodes: usize,
) {
    let (alias, version) = (
        format!("{MACHINE_LABEL}q35"),
        format!("{MACHINE_LABEL}pc-q35-10.1"),
    );
    let index = Index::new([
        node("unlabelled", "Intel", &["Nehalem"]),
        labelled(node("old", "Intel", &["Nehalem"]), &[(&alias, "true")]),
        labelled(
            node("new", "Intel", &["Nehalem"]),
            &[(&alias, "true"), (&version, "true")],
        ),
    ]);
    let mut instance = instance(json!({ "domain": domain }));
    instance.status = serde_json::from_value(status).unwrap();
    let machine = Machine::of_instance(&instance, &BTreeMap::new());
    assert_eq!(prospects(&index, &Policy::default(), &machine).nodes, nodes);
}

fn annotated(model: &str, annotations: Value, status: Value) -> VirtualMachineInstance {
    let mut instance = instance(json!({ "domain": { "cpu": { "model": model } } }));
    instance.metadata.annotations = serde_json::from_value(annotations).unwrap();
    instance.status = serde_json::from_value(status).unwrap();
    instance
}

#[test]
fn choice_is_read_from_annotation_or_status() {
    let annotations = json!({
        REQUESTED_MODEL_ANNOTATION: "best-match-model", MODEL_ANNOTATION: "EPYC",
        NODE_ANNOTATION: "a", REASON_ANNOTATION: "BestMatch",
    });
    let chosen = annotated("EPYC", annotations.clone(), json!(null));
    assert_eq!(recorded(&chosen), Some("EPYC"));
    assert!(is_ours(&chosen));
    let status = json!({ "prefferedModel": "EPYC-Rome" });
    let chosen = annotated("best-match-model", json!({}), status);
    assert_eq!(recorded(&chosen), Some("EPYC-Rome"));
    // Copying an instance into a template copies its annotations.
    for model in ["best-match-model", "Nehalem"] {
        let copied = annotated(model, annotations.clone(), json!(null));
        assert_eq!(recorded(&copied), None, "{model}");
        assert_eq!(is_ours(&copied), model == "best-match-model");
    }
}

#[rstest]
#[case::before_registration("Running", false, Repair::AwaitWebhook)]
#[case::handed_over("Scheduled", true, Repair::Rewrite)]
#[case::running("Running", true, Repair::Rewrite)]
#[case::not_scheduled("Scheduling", true, Repair::DeleteLaunchers)]
fn repair_depends_on_the_phase_and_the_webhook(
    #[case] phase: &str,
    #[case] registered: bool,
    #[case] repair: Repair,
) {
    let mut instance = instance(json!({}));
    instance.status.get_or_insert_default().phase = Some(phase.to_owned());
    assert_eq!(Repair::of(&instance, registered), repair);
}

/// Before there is a launcher pod, the spec shows what it will request.
#[rstest]
#[case::nothing(json!({}), 4)]
#[case::dedicated(json!({ "cpu": { "dedicatedCpuPlacement": true } }), 1)]
#[case::gpus(json!({ "devices": { "gpus": [
    { "name": "a", "deviceName": "example.com/gpu" }, { "name": "b", "deviceName": "example.com/gpu" },
] } }), 1)]
#[case::host_device(json!({ "devices": { "hostDevices": [{ "name": "a", "deviceName": "example.com/gpu" }] } }), 2)]
#[case::hugepages(json!({ "memory": { "hugepages": { "pageSize": "2Mi" }, "guest": "1Gi" } }), 1)]
#[case::too_many_hugepages(json!({ "memory": { "hugepages": { "pageSize": "2Mi" }, "guest": "3Gi" } }), 0)]
#[case::limits(json!({ "resources": { "limits": { "example.com/gpu": 2 } } }), 1)]
#[case::memory(json!({ "resources": { "requests": { "memory": "1Ti" } } }), 0)]
fn spec_shows_what_its_pod_will_request(#[case] domain: Value, #[case] nodes: usize) {
    let with = |name: &str, resource: &str, amount: i64| {
        let mut node = node(name, "Intel", &["Nehalem"]);
        let memory = ("memory".to_owned(), 8_000_000_000_000);
        node.allocatable = [memory, (resource.to_owned(), amount)].into();
        node
    };
    let cpu_manager = [(CPU_MANAGER_LABEL, "true")];
    let no_cpu_manager = [(CPU_MANAGER_LABEL, "false")];
    let index = Index::new([
        labelled(with("dedicated", "cpu", 4000), &cpu_manager),
        labelled(with("gpu", "example.com/gpu", 1000), &no_cpu_manager),
        with("gpus", "example.com/gpu", 2000),
        with("huge", "hugepages-2Mi", 2_147_483_648_000),
    ]);
    let instance = instance(json!({ "domain": domain }));
    let machine = Machine::of_instance(&instance, &BTreeMap::new());
    assert_eq!(prospects(&index, &Policy::default(), &machine).nodes, nodes);
}
