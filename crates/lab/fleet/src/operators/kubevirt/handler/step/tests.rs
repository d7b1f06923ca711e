use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use rstest::rstest;
use serde_json::json;

use super::{HandlerStep, step};
use crate::model::{Cpu, Generation};
use crate::operators::kubevirt::fixtures;
use crate::operators::kubevirt::launcher::Launcher;

fn instance(phase: &str, model: &str, leaving: bool) -> DynamicObject {
    let mut instance = json!({
        "metadata": { "name": "vm" },
        "spec": { "domain": { "cpu": { "model": model } } },
        "status": { "phase": phase, "nodeName": "n" },
    });
    if leaving {
        instance["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(instance).expect("an instance")
}

fn launcher(node: &str, phase: &str) -> Launcher {
    Launcher {
        phase: phase.into(),
        ..fixtures::launcher("virt-launcher-vm-1", node)
    }
}

fn cpu(generation: &str) -> Cpu {
    Generation::named(generation).expect("known").describe()
}

#[rstest]
#[case("Scheduled", launcher("n", "Running"), false, HandlerStep::Run(&launcher("n", "Running")))]
#[case("Scheduled", launcher("n", "Running"), true, HandlerStep::ShutDown)]
#[case("Scheduled", launcher("n", "Failed"), false, HandlerStep::Crashed)]
#[case("Scheduled", launcher("other", "Running"), false, HandlerStep::Crashed)]
#[case("Running", launcher("n", "Running"), false, HandlerStep::Nothing)]
#[case("Running", launcher("n", "Running"), true, HandlerStep::ShutDown)]
#[case("Running", Launcher { leaving: true, ..launcher("n", "Running") }, false, HandlerStep::ShutDown)]
#[case("Running", launcher("n", "Succeeded"), false, HandlerStep::Ended)]
#[case("Running", launcher("n", "Failed"), false, HandlerStep::Crashed)]
// Phases of virt-controller, and without a node.
#[case("Scheduling", launcher("n", "Running"), false, HandlerStep::Nothing)]
#[case("Succeeded", launcher("n", "Succeeded"), true, HandlerStep::Nothing)]
fn guest_runs_as_long_as_its_launcher(
    #[case] phase: &str,
    #[case] pod: Launcher,
    #[case] leaving: bool,
    #[case] expected: HandlerStep<'_>,
) {
    let node = Node::default();
    let instance = instance(phase, "host-model", leaving);
    assert_eq!(step(&instance, Some(&node), None, &[pod]), expected);
}

#[test]
fn guest_needs_a_node_and_a_launcher() {
    let instance = instance("Running", "host-model", false);
    let node = Node::default();
    assert_eq!(
        step(&instance, Some(&node), None, &[]),
        HandlerStep::Crashed
    );
    let launchers = [launcher("n", "Running")];
    assert_eq!(
        step(&instance, None, None, &launchers),
        HandlerStep::Crashed
    );
}

#[rstest]
#[case("host-model", "rome", None)]
#[case("host-passthrough", "rome", None)]
#[case("EPYC-IBPB", "rome", None)]
// libvirt is not aware of KubeVirt's obsolete models.
#[case("Opteron_G1", "rome", None)]
#[case("EPYC-Milan", "rome", Some("the CPU is incompatible with host CPU"))]
#[case(
    "EPYC-Rome",
    "rome",
    Some("Host CPU does not provide required features: xsaves")
)]
#[case("best-match-model", "rome", Some("Unknown CPU model best-match-model"))]
fn model_runs_where_it_is_usable(
    #[case] model: &str,
    #[case] generation: &str,
    #[case] refused: Option<&str>,
) {
    let node = Node::default();
    let cpu = cpu(generation);
    let instance = instance("Scheduled", model, false);
    let launchers = [launcher("n", "Running")];
    match (
        step(&instance, Some(&node), Some(&cpu), &launchers),
        refused,
    ) {
        (HandlerStep::Run(_), None) => {}
        (HandlerStep::Refused(why), Some(says)) => assert!(why.contains(says), "{why}"),
        (step, _) => panic!("{model} on {generation}: {step:?}"),
    }
}

#[test]
fn node_labels_decide_without_a_cpu_annotation() {
    let node: Node = serde_json::from_value(json!({
        "metadata": { "labels": { "cpu-model.node.kubevirt.io/Haswell": "true" } },
    }))
    .expect("a node");
    let launchers = [launcher("n", "Running")];
    let haswell = instance("Scheduled", "Haswell", false);
    let step_of =
        |instance: &DynamicObject| format!("{:?}", step(instance, Some(&node), None, &launchers));
    assert!(step_of(&haswell).starts_with("Run"));
    let broadwell = instance("Scheduled", "Broadwell", false);
    assert!(step_of(&broadwell).starts_with("Refused"));
}
