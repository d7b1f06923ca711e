//! Classes come and go with the builds of nodes.

use serde_json::Value;

use super::*;
use crate::test_values::{cluster_of, node_with};
use crate::{Decision, RuntimeClass, Settings, decide};

const PROCESS: &str = "runhcs-wcow-process";
const OLD: &str = "runhcs-wcow-hypervisor-17763";
const NEW: &str = "runhcs-wcow-hypervisor-20348";

/// A node of a build with these handlers, tainted as the demo taints them.
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

/// What a plan leaves behind.
fn carried_out(plan: &ClassPlan) -> Vec<Value> {
    plan.serve
        .iter()
        .map(|class| class.object.clone())
        .collect()
}

/// Story 1: a class for every build, so that a pod needs one line to say which.
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
                // What a node is for is no matter of what it is.
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

/// Story 2: the older Windows on the newer nodes, in a virtual machine.
#[test]
fn an_older_build_runs_under_hyper_v_on_the_newest_nodes_with_the_handler() {
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

/// Story 2, second step: the old nodes are gone, and the name goes on, which is another class then.
#[test]
fn the_name_of_a_build_goes_on_when_its_nodes_are_gone() {
    let old = windows("a", "17763", &[PROCESS]);
    let new = windows("b", "20348", &[PROCESS, OLD]);
    let before = carried_out(&planned(&[old, new.clone()], &[]));
    let nodes = cluster_of(&[new]);
    assert_eq!(
        obsolete(&nodes, &before),
        ["windows-17763".to_owned()].into()
    );

    // The handler of a class cannot be changed: unless nobody uses it, the new one has another name.
    let used = BTreeMap::from([("windows-17763".to_owned(), 2)]);
    let busy = plan(&nodes, &before, &used);
    assert_eq!(busy.remove, Vec::<String>::new());
    assert_eq!(busy.keep[0].name, "windows-17763");
    assert_eq!(
        busy.keep[0].object["metadata"]["annotations"]["medley.dev/placement-reason"],
        "no node serves it any more, but 2 pods use it: it goes when they are gone or use another runtime class"
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

    // Whatever it was called, it stays so.
    let mut after = carried_out(&busy);
    after.push(busy.keep[0].object.clone());
    let later = plan(&nodes, &after, &BTreeMap::new());
    assert_eq!(later.remove, ["windows-17763"]);
    assert_eq!(later.serve[0].name, "windows-17763-v2");
    assert!(later.serve.iter().all(|class| class.is_there), "{later:?}");
}

#[test]
fn classes_go_with_their_last_node() {
    let before = carried_out(&planned(&[windows("a", "20348", &[PROCESS, NEW])], &[]));
    let linux = node_with("d", "linux/amd64", &json!({}));
    let plan = planned(&[linux], &before);
    assert_eq!(plan.remove, ["windows-20348", "windows-20348-hyperv"]);
    assert_eq!(plan.serve, []);
}

#[test]
fn what_is_there_is_left_alone() {
    let nodes = [windows("a", "20348", &[PROCESS, NEW])];
    let mut before = carried_out(&planned(&nodes, &[]));
    // What somebody adds that is not ours to say stays.
    before[0]["metadata"]["annotations"]["team"] = json!("shop");
    before[0]["overhead"] = json!({ "podFixed": { "memory": "64Mi" } });
    let plan = planned(&nodes, &before);
    assert!(plan.serve.iter().all(|class| class.is_there), "{plan:?}");
    before[0]["scheduling"]["nodeSelector"]["kubernetes.io/os"] = json!("linux");
    let plan = planned(&nodes, &before);
    assert!(!plan.serve[0].is_there);
}

#[test]
fn what_somebody_else_made_is_never_touched() {
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
fn nodes_that_do_not_tell_have_what_containerd_has() {
    let silent = node_with("a", "windows(10.0.20348)/amd64", &json!({}));
    assert_eq!(names_of(&planned(&[silent], &[])), ["windows-20348"]);
}

#[test]
fn a_handler_that_some_nodes_lack_makes_no_class() {
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
fn another_architecture_is_in_the_name() {
    let node = node_with("a", "windows(10.0.26100)/arm64", &json!({}));
    assert_eq!(names_of(&planned(&[node], &[])), ["windows-26100-arm64"]);
}

/// What is made is what pods are placed by.
#[test]
fn pods_of_a_class_go_where_its_handler_is() {
    let nodes = [
        windows("a", "17763", &[PROCESS]),
        windows("b", "20348", &[PROCESS, OLD]),
    ];
    let cluster = cluster_of(&nodes);
    let classes: BTreeMap<String, RuntimeClass> = carried_out(&planned(&nodes, &[]))
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
