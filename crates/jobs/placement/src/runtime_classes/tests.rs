//! RuntimeClasses follow the Windows builds of the nodes.

use serde_json::Value;

use super::*;
use crate::test_values::{cluster_of, node_with};
use crate::{Decision, RuntimeClass, Settings, decide};

const PROCESS: &str = "runhcs-wcow-process";
const OLD: &str = "runhcs-wcow-hypervisor-17763";
const NEW: &str = "runhcs-wcow-hypervisor-20348";

/// A node of a build with these handlers, tainted as in the demo.
fn windows(name: &str, build: &str, handlers: &[&str]) -> Value {
    let handlers: Vec<Value> = handlers
        .iter()
        .map(|name| json!({ "name": name }))
        .collect();
    let platform = format!("windows(10.0.{build})/amd64");
    node_with(
        name,
        &platform,
        &json!({
            "spec": { "taints": [
                { "key": "node.kubernetes.io/os", "value": "windows", "effect": "NoSchedule" },
                { "key": "dedicated", "value": "shop", "effect": "NoSchedule" },
            ] },
            "status": { "runtimeHandlers": handlers },
        }),
    )
}

fn planned(nodes: &[Value], existing: &[Value]) -> ClassPlan {
    plan(&cluster_of(nodes), existing, &BTreeMap::new())
}

fn names_of(plan: &ClassPlan) -> Vec<&str> {
    plan.serve.iter().map(|class| class.name.as_str()).collect()
}

/// The classes after a plan was applied.
fn applied(plan: &ClassPlan) -> Vec<Value> {
    plan.serve
        .iter()
        .map(|class| class.object.clone())
        .collect()
}

/// Story 1: a class for every build, so that a pod selects one with a single line.
#[test]
fn every_build_has_a_class() {
    let nodes = [
        windows("a", "17763", &["", PROCESS]),
        windows("b", "20348", &["", PROCESS]),
        windows("c", "20348", &["", PROCESS]),
        node_with("d", "linux/amd64", &json!({})),
    ];
    let plan = planned(&nodes, &[]);
    assert_eq!(names_of(&plan), ["windows-17763", "windows-20348"]);
    assert_eq!(
        plan.serve[1].object,
        json!({
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {
                "name": "windows-20348",
                "labels": { "app.kubernetes.io/managed-by": "medley" },
                "annotations": {
                    "medley.dev/isolation": "process",
                    "medley.dev/windows": "Windows Server 2022",
                },
            },
            "handler": PROCESS,
            "scheduling": {
                "nodeSelector": {
                    "kubernetes.io/os": "windows",
                    "kubernetes.io/arch": "amd64",
                    "node.kubernetes.io/windows-build": "10.0.20348",
                },
                // Taints for a purpose are not tolerated, only those for a platform.
                "tolerations": [{
                    "key": "node.kubernetes.io/os", "operator": "Equal", "value": "windows", "effect": "NoSchedule",
                }],
            },
        })
    );
    assert_eq!(plan.serve[1].nodes, 2);
    assert_eq!(
        (plan.remove.len(), plan.keep.len(), plan.withheld.len()),
        (0, 0, 0)
    );
}

/// Story 2: the older Windows on the newer nodes, in a utility VM.
#[test]
fn older_build_uses_hyper_v_on_the_newest_nodes() {
    let nodes = [
        windows("a", "17763", &[PROCESS]),
        windows("b", "20348", &[PROCESS, OLD, NEW]),
        windows("c", "26100", &[PROCESS, OLD]),
    ];
    let plan = planned(&nodes, &[]);
    let served: Vec<(&str, &Value, &Value)> = plan
        .serve
        .iter()
        .map(|class| {
            let selector = &class.object["scheduling"]["nodeSelector"];
            let build = &selector["node.kubernetes.io/windows-build"];
            (class.name.as_str(), &class.object["handler"], build)
        })
        .collect();
    let expected = [
        ("windows-17763", PROCESS, "10.0.17763"),
        ("windows-17763-hyperv", OLD, "10.0.26100"),
        ("windows-20348", PROCESS, "10.0.20348"),
        ("windows-20348-hyperv", NEW, "10.0.20348"),
        ("windows-26100", PROCESS, "10.0.26100"),
    ];
    assert_eq!(json!(served), json!(expected));
    let platform = &plan.serve[1].object["metadata"]["annotations"]["medley.dev/platform"];
    assert_eq!(platform, "windows(10.0.17763)/amd64");
}

/// Story 2, second step: the old nodes are gone; the name is kept for a new class.
#[test]
fn class_name_is_kept_when_its_nodes_are_gone() {
    let old = windows("a", "17763", &[PROCESS]);
    let new = windows("b", "20348", &[PROCESS, OLD]);
    let before = applied(&planned(&[old, new.clone()], &[]));
    let nodes = cluster_of(&[new]);
    assert_eq!(
        obsolete(&nodes, &before),
        ["windows-17763".to_owned()].into()
    );

    // The handler of a class is immutable: while pods use the class, the new one gets another name.
    let used = BTreeMap::from([("windows-17763".to_owned(), 2)]);
    let busy = plan(&nodes, &before, &used);
    assert_eq!(busy.remove, Vec::<String>::new());
    assert_eq!(busy.keep[0].name, "windows-17763");
    assert_eq!(
        busy.keep[0].object["metadata"]["annotations"]["medley.dev/placement-reason"],
        "no node serves it any more, but 2 pods use it: it is deleted when no pod uses it any more"
    );
    assert_eq!(
        names_of(&busy),
        ["windows-17763-v2", "windows-17763-hyperv", "windows-20348"]
    );
    assert_eq!(busy.serve[0].object["handler"], OLD);

    let idle = plan(&nodes, &before, &BTreeMap::new());
    assert_eq!(idle.remove, ["windows-17763"]);
    assert_eq!(idle.serve[0].name, "windows-17763");
    assert_eq!(idle.serve[0].object["handler"], OLD);
    assert!(!idle.serve[0].is_there);

    // An existing name is kept.
    let mut after = applied(&busy);
    after.push(busy.keep[0].object.clone());
    let later = plan(&nodes, &after, &BTreeMap::new());
    assert_eq!(later.remove, ["windows-17763"]);
    assert_eq!(later.serve[0].name, "windows-17763-v2");
    assert!(later.serve.iter().all(|class| class.is_there), "{later:?}");
}

#[test]
fn class_is_removed_with_its_last_node() {
    let before = applied(&planned(&[windows("a", "20348", &[PROCESS, NEW])], &[]));
    let linux = node_with("d", "linux/amd64", &json!({}));
    let plan = planned(&[linux], &before);
    assert_eq!(plan.remove, ["windows-20348", "windows-20348-hyperv"]);
    assert_eq!(plan.serve, []);
}

#[test]
fn matching_class_is_not_written() {
    let nodes = [windows("a", "20348", &[PROCESS, NEW])];
    let mut before = applied(&planned(&nodes, &[]));
    // Annotations of other managers are kept.
    before[0]["metadata"]["annotations"]["team"] = json!("shop");
    before[0]["overhead"] = json!({ "podFixed": { "memory": "64Mi" } });
    let plan = planned(&nodes, &before);
    assert!(plan.serve.iter().all(|class| class.is_there), "{plan:?}");
    before[0]["scheduling"]["nodeSelector"]["kubernetes.io/os"] = json!("linux");
    let plan = planned(&nodes, &before);
    assert!(!plan.serve[0].is_there);
}

#[test]
fn foreign_class_is_never_changed() {
    let nodes = [windows("a", "20348", &[PROCESS])];
    let theirs = json!({ "metadata": { "name": "windows-20348" }, "handler": "mine" });
    let other = json!({
        "metadata": { "name": "windows-17763", "labels": { "app.kubernetes.io/managed-by": "helm" } },
        "handler": PROCESS,
    });
    let plan = planned(&nodes, &[theirs, other]);
    assert_eq!(names_of(&plan), ["windows-20348-v2"]);
    assert_eq!((plan.remove.len(), plan.keep.len()), (0, 0));
}

#[test]
fn nodes_without_reported_handlers_have_containerd_defaults() {
    let silent = node_with("a", "windows(10.0.20348)/amd64", &json!({}));
    assert_eq!(names_of(&planned(&[silent], &[])), ["windows-20348"]);
}

#[test]
fn handler_missing_on_some_nodes_yields_no_class() {
    let nodes = [
        windows("a", "20348", &[PROCESS, OLD]),
        windows("b", "20348", &[PROCESS]),
        windows("c", "26100", &["own"]),
    ];
    let plan = planned(&nodes, &[]);
    assert_eq!(names_of(&plan), ["windows-20348"]);
    let withheld: Vec<(&str, &[String])> = plan
        .withheld
        .iter()
        .map(|it| (it.class.as_str(), it.nodes.as_slice()))
        .collect();
    let lacking = |node: &str| vec![node.to_owned()];
    assert_eq!(
        withheld,
        [
            ("windows-17763", &*lacking("b")),
            ("windows-17763-hyperv", &*lacking("b")),
            ("windows-26100", &*lacking("c")),
        ]
    );
    let sentence = plan.withheld[1].to_string();
    assert!(
        sentence.contains("has no handler runhcs-wcow-hypervisor-17763"),
        "{sentence}"
    );
    assert!(
        sentence.contains("`medley node-config containerd`"),
        "{sentence}"
    );
}

#[test]
fn other_architecture_is_part_of_the_name() {
    let node = node_with("a", "windows(10.0.26100)/arm64", &json!({}));
    assert_eq!(names_of(&planned(&[node], &[])), ["windows-26100-arm64"]);
}

/// The created classes are the ones that pods are placed by.
#[test]
fn pods_of_a_class_select_nodes_with_its_handler() {
    let nodes = [
        windows("a", "17763", &[PROCESS]),
        windows("b", "20348", &[PROCESS, OLD]),
    ];
    let cluster = cluster_of(&nodes);
    let classes: BTreeMap<String, RuntimeClass> = applied(&planned(&nodes, &[]))
        .iter()
        .map(RuntimeClass::read)
        .map(|class| (class.name.clone(), class))
        .collect();
    let images = crate::test_values::known(&[("app", &["windows(10.0.17763.805)/amd64"])]);
    let fits = |class: &str| {
        let pod = crate::test_values::pod(
            &["app"],
            &json!({
                "runtimeClassName": class,
                "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
            }),
        );
        let decision = decide(&pod, &images, &classes, &cluster, &Settings::default());
        matches!(decision, Decision::Place(_))
    };
    assert!(fits("windows-17763"));
    assert!(fits("windows-17763-hyperv"));
    assert!(!fits("windows-20348"));
}
