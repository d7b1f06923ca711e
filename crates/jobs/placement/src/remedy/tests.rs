//! Suggested changes for pods that fit nowhere.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::test_values::{cluster_of, known, node_with, pod};
use crate::{Decision, decide, runtime_classes};

/// The suggestions for a pod with these images on these nodes, with the RuntimeClasses that Medley manages for them.
fn suggestions(images: &[(&str, &[&str])], more: &Value, nodes: &[Value]) -> Vec<String> {
    let names: Vec<&str> = images.iter().map(|(name, _)| *name).collect();
    let (pod, known, cluster) = (pod(&names, more), known(images), cluster_of(nodes));
    let plan = runtime_classes::plan(&cluster, &[], &BTreeMap::new());
    let classes = plan
        .serve
        .iter()
        .map(|class| RuntimeClass::read(&class.object));
    let classes = classes.map(|class| (class.name.clone(), class)).collect();
    let settings = Settings::default();
    let Decision::NoFit(no_fit) = decide(&pod, &known, &classes, &cluster, &settings) else {
        panic!("it fits");
    };
    let found = remedies(&pod, &no_fit, &classes, &cluster, &settings);
    found.iter().map(ToString::to_string).collect()
}

fn nodes(platforms: &[&str]) -> Vec<Value> {
    let all = platforms.iter().enumerate();
    all.map(|(index, it)| node_with(&format!("n{index}"), it, &json!({})))
        .collect()
}

#[rstest]
#[case::another_node(
    &[("app", &["linux/s390x"][..])], json!({}), &["linux/amd64", "linux/amd64", "linux/arm64"],
    &["add a node of linux/s390x", "publish app also for linux/amd64, which 2 nodes are"],
)]
#[case::one_image_of_two(
    &[("app", &["linux/arm64"][..]), ("agent", &["linux/amd64", "linux/s390x"][..])], json!({}), &["linux/amd64", "linux/arm64"],
    &["publish app also for linux/amd64, which 1 node is"],
)]
#[case::selectors(
    &[("app", &["linux/arm64"][..])], json!({ "nodeSelector": { "kubernetes.io/arch": "amd64" } }), &["linux/amd64", "linux/arm64"],
    &["change the node selector or the node affinity of the pod, which exclude 1 node that can run it"],
)]
fn closest_remedy_is_suggested(
    #[case] images: &[(&str, &[&str])],
    #[case] more: Value,
    #[case] platforms: &[&str],
    #[case] expected: &[&str],
) {
    assert_eq!(suggestions(images, &more, &nodes(platforms)), expected);
}

#[test]
fn no_fit_message_names_taints() {
    let dedicated = json!({ "spec": { "taints": [{ "key": "dedicated", "value": "gpu", "effect": "NoSchedule" }] } });
    let nodes = [node_with("a", "linux/amd64", &dedicated)];
    assert_eq!(
        suggestions(&[("app", &["linux/amd64"])], &json!({}), &nodes),
        ["tolerate the taint dedicated=gpu:NoSchedule of 1 node"]
    );
}

/// Story 2: the class that runs an older Windows on newer nodes is suggested.
#[test]
fn fitting_class_is_suggested_first() {
    let handlers = json!({ "status": { "runtimeHandlers": [
        { "name": "runhcs-wcow-process" }, { "name": "runhcs-wcow-hypervisor-17763" },
    ] } });
    let nodes = [node_with("a", "windows(10.0.20348)/amd64", &handlers)];
    let image = [("iis", &["windows(10.0.17763.805)/amd64"][..])];
    assert_eq!(
        suggestions(&image, &json!({}), &nodes),
        [
            "use the runtime class windows-17763, under which 1 node runs it",
            "use the runtime class windows-17763-hyperv, under which 1 node runs it",
            "add a node of windows(10.0.17763)/amd64",
            "publish iis also for windows(10.0.20348)/amd64, which 1 node is",
        ]
    );
    // A user who set a class has to set another one.
    let chosen = json!({ "runtimeClassName": "windows-20348" });
    assert!(
        suggestions(&image, &chosen, &nodes)[0].starts_with("use the runtime class windows-17763")
    );
}
