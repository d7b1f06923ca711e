//! Placement decisions.

use std::collections::BTreeMap;

use platform::windows::Isolation;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Decision, LeaveReason, Placement};
use crate::test_values::{
    classes, cluster, cluster_of, decided, known, node, node_with, pod, read,
};
use crate::{Cluster, Inspection, NoFit, RuntimeClass, Settings, Uninspectable, decide};

/// The index of `golang:latest` in the appendix of the proposal.
const GOLANG: [&str; 9] = [
    "linux/amd64",
    "linux/arm/v7",
    "linux/arm64/v8",
    "linux/386",
    "linux/ppc64le",
    "linux/s390x",
    "windows(10.0.14393.3274)/amd64",
    "windows(10.0.17134.1069)/amd64",
    "windows(10.0.17763.805)/amd64",
];

fn placed(decision: Decision) -> Placement {
    match decision {
        Decision::Place(placement) => placement,
        other => panic!("it was not placed: {other:?}"),
    }
}

fn refused(decision: Decision) -> NoFit {
    match decision {
        Decision::NoFit(no_fit) => *no_fit,
        other => panic!("it fits: {other:?}"),
    }
}

fn expressions(placement: &Placement) -> Value {
    json!(placement.products)
}

#[test]
fn image_for_one_architecture_selects_it() {
    let images = known(&[("a", &["linux/arm64"])]);
    let nodes = cluster(&["linux/amd64", "linux/arm64"]);
    let placement = placed(decided(&pod(&["a"], &json!({})), &images, &nodes));
    assert_eq!(
        expressions(&placement),
        json!([{ "conditions": [
            { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
            { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
        ] }])
    );
}

#[test]
fn all_images_of_a_pod_are_considered() {
    let images = known(&[
        ("first", &["linux/amd64", "linux/arm64", "linux/s390x"]),
        ("app", &["linux/arm64", "linux/amd64"]),
        ("data", &["linux/s390x", "linux/arm64"]),
    ]);
    let nodes = cluster(&["linux/amd64", "linux/arm64", "linux/s390x"]);
    let more = json!({
        "initContainers": [{ "name": "i", "image": "first" }],
        "volumes": [
            { "name": "d", "image": { "reference": "data" } },
            { "name": "e", "emptyDir": {} },
        ],
    });
    let placement = placed(decided(&pod(&["app"], &more), &images, &nodes));
    assert_eq!(
        placement.architectures().into_iter().collect::<Vec<_>>(),
        ["arm64"]
    );
}

/// A cluster autoscaler adds nodes of an architecture only once a pod requires it.
#[test]
fn architectures_without_nodes_are_included() {
    let images = known(&[("a", &GOLANG)]);
    let nodes = cluster(&["linux/amd64"]);
    let placement = placed(decided(&pod(&["a"], &json!({})), &images, &nodes));
    let architectures: Vec<&str> = placement.architectures().into_iter().collect();
    assert_eq!(
        architectures,
        ["386", "amd64", "arm", "arm64", "ppc64le", "s390x"]
    );
}

#[test]
fn node_changes_take_effect_at_once() {
    let images = known(&[("a", &["windows(10.0.17763.805)/amd64", "linux/s390x"])]);
    let web = pod(&["a"], &json!({ "os": { "name": "windows" } }));
    let mut nodes = cluster(&["linux/amd64"]);
    let mut turn = |becomes: Option<&str>, fits: bool| {
        match becomes {
            Some(platform) => nodes.upsert(read(&node("changing", platform))),
            None => nodes.remove("changing"),
        }
        let decision = decided(&web, &images, &nodes);
        assert_eq!(matches!(decision, Decision::Place(_)), fits, "{becomes:?}");
        let anew: Cluster = nodes.nodes().cloned().collect();
        assert_eq!(decision, decided(&web, &images, &anew), "{becomes:?}");
    };
    turn(None, false);
    turn(Some("windows(10.0.17763)/amd64"), true);
    turn(Some("windows(10.0.20348)/amd64"), false);
    turn(Some("windows(10.0.17763)/amd64"), true);
    turn(None, false);
}

#[rstest]
#[case("linux/amd64", "linux", None)]
#[case("linux/arm64", "linux", None)]
#[case("linux/arm/v7", "linux", None)]
#[case("linux/386", "linux", None)]
#[case("linux/ppc64le", "linux", None)]
#[case("linux/s390x", "linux", None)]
#[case("windows(10.0.14393)/amd64", "windows", Some("10.0.14393"))]
#[case("windows(10.0.17134)/amd64", "windows", Some("10.0.17134"))]
#[case("windows(10.0.17763)/amd64", "windows", Some("10.0.17763"))]
fn every_platform_of_golang_fits_its_node(
    #[case] node: &str,
    #[case] os: &str,
    #[case] build: Option<&str>,
) {
    let images = known(&[("golang:latest", &GOLANG)]);
    let nodes = cluster(&[node]);
    let placement = placed(decided(
        &pod(&["golang:latest"], &json!({})),
        &images,
        &nodes,
    ));
    let product = &placement.products[0];
    let values = |key| {
        let condition = product.on(key)?;
        Some(
            condition
                .values
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(values("kubernetes.io/os"), Some(vec![os]));
    assert_eq!(
        values("node.kubernetes.io/windows-build"),
        build.map(|build| vec![build])
    );
}

/// Windows Server 2022 and later run images of a range of builds; older hosts require the same build.
#[test]
fn builds_of_windows_are_those_that_run_the_image() {
    let images = known(&[(
        "iis",
        &["windows(10.0.20348.1)/amd64", "windows(10.0.17763.9)/amd64"],
    )]);
    let builds = ["17763", "18362", "20348", "25398", "26100", "26200"];
    let nodes: Vec<String> = builds
        .iter()
        .map(|build| format!("windows(10.0.{build})/amd64"))
        .collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let placement = placed(decided(
        &pod(&["iis"], &json!({})),
        &images,
        &cluster(&nodes),
    ));
    let builds = placement.products[0].on("node.kubernetes.io/windows-build");
    let builds: Vec<&str> = builds.unwrap().values.iter().map(String::as_str).collect();
    assert_eq!(
        builds,
        ["10.0.17763", "10.0.20348", "10.0.25398", "10.0.26100"]
    );
}

#[test]
fn windows_images_without_a_version_run_on_every_build() {
    let images = known(&[("host-process", &["windows/amd64"])]);
    let nodes = cluster(&["windows(10.0.17763)/amd64", "linux/amd64"]);
    let placement = placed(decided(
        &pod(&["host-process"], &json!({})),
        &images,
        &nodes,
    ));
    assert_eq!(
        placement.products[0].on("node.kubernetes.io/windows-build"),
        None
    );
    assert!(placement.products[0].on("kubernetes.io/os").is_some());
}

#[rstest]
#[case::unsaid(json!({}), "linux")]
#[case::os(json!({ "os": { "name": "windows" } }), "windows")]
#[case::selector(json!({ "nodeSelector": { "kubernetes.io/os": "windows" } }), "windows")]
#[case::affinity(json!({ "affinity": { "nodeAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "kubernetes.io/os", "operator": "In", "values": ["windows"] }] },
    ] },
} } }), "windows")]
fn operating_system_is_chosen_by_pod_then_default(#[case] more: Value, #[case] os: &str) {
    let images = known(&[("golang", &GOLANG)]);
    let nodes = cluster(&["linux/amd64", "windows(10.0.17763)/amd64"]);
    let placement = placed(decided(&pod(&["golang"], &more), &images, &nodes));
    let found = placement.products[0].on("kubernetes.io/os").unwrap();
    assert!(found.values.contains(os), "{found:?}");
}

#[test]
fn older_windows_uses_an_offered_hyper_v_class() {
    let images = known(&[("iis", &["windows(10.0.17763.805)/amd64"])]);
    let nodes = cluster(&["windows(10.0.20348)/amd64", "linux/amd64"]);
    let web = pod(&["iis"], &json!({}));
    let no_fit = refused(decided(&web, &images, &nodes));
    assert_eq!(no_fit.shortfall.reason(), "NoCommonPlatform");
    let settings = Settings {
        offered: vec![RuntimeClass {
            name: "windows-hyperv".to_owned(),
            isolation: Isolation::HyperV,
            ..RuntimeClass::default()
        }],
        ..Settings::default()
    };
    let given = placed(decide(&web, &images, &BTreeMap::new(), &nodes, &settings));
    assert_eq!(given.runtime_class.as_deref(), Some("windows-hyperv"));
    let builds = given.products[0]
        .on("node.kubernetes.io/windows-build")
        .unwrap();
    assert!(builds.values.contains("10.0.20348"), "{builds:?}");
    // A RuntimeClass set by the user is kept.
    let chosen = pod(&["iis"], &json!({ "runtimeClassName": "mine" }));
    refused(decide(
        &chosen,
        &images,
        &BTreeMap::new(),
        &nodes,
        &settings,
    ));
}

/// The class of story 2: an older Windows in a Hyper-V sandbox, on nodes that have the handler.
#[test]
fn class_determines_the_platform() {
    let hyper_v = RuntimeClass {
        name: "windows-1809-hyperv".to_owned(),
        isolation: Isolation::HyperV,
        platform: Some("windows(10.0.17763)/amd64".parse().unwrap()),
        node_selector: BTreeMap::from([(
            "node.kubernetes.io/windows-build".to_owned(),
            "10.0.18362".to_owned(),
        )]),
        tolerations: vec![
            json!({ "key": "windows", "operator": "Equal", "value": "true", "effect": "NoSchedule" }),
        ],
    };
    let windows = json!({ "spec": { "taints": [{ "key": "windows", "value": "true", "effect": "NoSchedule" }] } });
    let nodes = cluster_of(&[
        node_with("old", "windows(10.0.17763)/amd64", &windows),
        node_with("new", "windows(10.0.18362)/amd64", &windows),
    ]);
    let web = |class| {
        pod(
            &["app"],
            &json!({ "runtimeClassName": class, "os": { "name": "windows" } }),
        )
    };
    let settings = Settings::default();
    let on = |image: &str, class| {
        let images = known(&[("app", &[image])]);
        decide(&web(class), &images, &classes(&hyper_v), &nodes, &settings)
    };
    // The node selector of the class already restricts the pod: no condition is added.
    let placement = placed(on("windows(10.0.17763.805)/amd64", "windows-1809-hyperv"));
    assert_eq!(expressions(&placement), json!([{ "conditions": [] }]));
    // Images newer than their host are not supported by Windows.
    let no_fit = refused(on("windows(10.0.18362.1)/amd64", "windows-1809-hyperv"));
    assert_eq!(no_fit.shortfall.reason(), "NoCommonPlatform");
}

#[test]
fn emulation_is_the_last_resort() {
    let images = known(&[("tool", &["linux/amd64"])]);
    let settings = Settings {
        offered: vec![RuntimeClass {
            name: "qemu-amd64".to_owned(),
            platform: Some("linux/amd64".parse().unwrap()),
            node_selector: BTreeMap::from([("emulation".to_owned(), "qemu".to_owned())]),
            ..RuntimeClass::default()
        }],
        ..Settings::default()
    };
    let emulating = json!({ "metadata": { "labels": { "emulation": "qemu" } } });
    let arm = [
        node_with("a", "linux/arm64", &json!({})),
        node_with("b", "linux/arm64", &emulating),
    ];
    let web = pod(&["tool"], &json!({}));
    let decide = |nodes: &[Value]| {
        decide(
            &web,
            &images,
            &BTreeMap::new(),
            &cluster_of(nodes),
            &settings,
        )
    };
    assert_eq!(
        placed(decide(&arm)).runtime_class.as_deref(),
        Some("qemu-amd64")
    );
    refused(decide(&arm[..1]));
    let mixed = [arm[1].clone(), node_with("c", "linux/amd64", &json!({}))];
    assert_eq!(placed(decide(&mixed)).runtime_class, None);
}

#[rstest]
#[case::has_a_node(json!({ "spec": { "nodeName": "a" } }), LeaveReason::HasNode)]
#[case::mirror(json!({ "metadata": { "annotations": { "kubernetes.io/config.mirror": "x" } } }), LeaveReason::Mirror)]
#[case::host_process(json!({ "spec": { "securityContext": { "windowsOptions": { "hostProcess": true } } } }), LeaveReason::HostProcess)]
#[case::host_process_container(json!({ "spec": { "containers": [{ "name": "a", "image": "a", "securityContext": { "windowsOptions": { "hostProcess": true } } }] } }), LeaveReason::HostProcess)]
#[case::switched_off(json!({ "metadata": { "annotations": { "medley.dev/placement": "off" } } }), LeaveReason::SwitchedOff)]
fn some_pods_are_left_unchanged(#[case] more: Value, #[case] why: LeaveReason) {
    let mut web = pod(&["a"], &json!({}));
    machinery::patch::merge_patch(&mut web, &more).unwrap();
    let decision = decided(&web, &BTreeMap::new(), &cluster(&["linux/amd64"]));
    assert_eq!(decision, Decision::Leave(why));
}

#[test]
fn daemon_set_pod_keeps_its_node() {
    let images = known(&[("agent", &["linux/amd64"])]);
    let nodes = cluster(&["linux/amd64", "linux/arm64"]);
    let on = |node: &str| {
        let affinity = json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] },
            ] },
        } } });
        decided(&pod(&["agent"], &affinity), &images, &nodes)
    };
    assert_eq!(on("node-0"), Decision::Leave(LeaveReason::OneNode));
    assert_eq!(refused(on("node-1")).shortfall.reason(), "NodesExcluded");
}

#[test]
fn unknown_images_need_inspection() {
    let images = known(&[("a", &["linux/amd64"])]);
    let decision = decided(
        &pod(&["a", "b"], &json!({})),
        &images,
        &cluster(&["linux/amd64"]),
    );
    let Decision::Ask(unknown) = decision else {
        panic!("{decision:?}");
    };
    let unknown: Vec<&str> = unknown.iter().map(|used| used.image.as_str()).collect();
    assert_eq!(unknown, ["b"]);
}

#[test]
fn artifacts_do_not_restrict_the_platform() {
    let mut images = known(&[("app", &["linux/s390x"])]);
    images.insert("bundle".to_owned(), Inspection::Anywhere);
    let nodes = cluster(&["linux/s390x", "linux/amd64"]);
    let alone = decided(&pod(&["bundle"], &json!({})), &images, &nodes);
    assert_eq!(alone, Decision::Leave(LeaveReason::NoPlatformConstraint));
    let beside = placed(decided(
        &pod(&["bundle", "app"], &json!({})),
        &images,
        &nodes,
    ));
    assert_eq!(
        beside.architectures().into_iter().collect::<Vec<_>>(),
        ["s390x"]
    );
}

#[test]
fn uninspectable_image_uses_the_fallback_architecture() {
    let gone = Uninspectable {
        message: "no such image".to_owned(),
        transient: false,
    };
    let images = BTreeMap::from([("gone".to_owned(), Inspection::Uninspectable(gone))]);
    let nodes = cluster(&["linux/amd64", "linux/arm64"]);
    let web = pod(&["gone"], &json!({}));
    let without = decided(&web, &images, &nodes);
    assert_eq!(without, Decision::Leave(LeaveReason::NoPlatformConstraint));
    let settings = Settings {
        fallback_architecture: Some("amd64".to_owned()),
        ..Settings::default()
    };
    let with = placed(decide(&web, &images, &BTreeMap::new(), &nodes, &settings));
    assert_eq!(
        with.architectures().into_iter().collect::<Vec<_>>(),
        ["amd64"]
    );
}

#[rstest]
#[case::containerd("containerd://2.1.4", true)]
#[case::cri_o("cri-o://1.34.0", false)]
fn thirty_two_bit_images_depend_on_the_runtime(#[case] runtime: &str, #[case] fits: bool) {
    let images = known(&[("old", &["linux/386"])]);
    let runtime = json!({ "status": { "nodeInfo": { "containerRuntimeVersion": runtime } } });
    let nodes = cluster_of(&[node_with("a", "linux/amd64", &runtime)]);
    let decision = decided(&pod(&["old"], &json!({})), &images, &nodes);
    assert_eq!(matches!(decision, Decision::Place(_)), fits, "{decision:?}");
}

#[test]
fn variants_count_where_nodes_are_labelled() {
    let images = known(&[("fast", &["linux/amd64/v3"])]);
    let nodes = cluster(&[
        "linux/amd64",
        "linux/amd64/v2",
        "linux/amd64/v3",
        "linux/amd64/v4",
    ]);
    let placement = placed(decided(&pod(&["fast"], &json!({})), &images, &nodes));
    let variants = placement.products[0].on("medley.dev/cpu-variant").unwrap();
    assert_eq!(
        json!(variants),
        json!({ "key": "medley.dev/cpu-variant", "operator": "In", "values": ["v3", "v4"] })
    );
    let images = known(&[("arm", &["linux/arm/v7"])]);
    let nodes = cluster(&["linux/arm/v6", "linux/arm64"]);
    let placement = placed(decided(&pod(&["arm"], &json!({})), &images, &nodes));
    assert_eq!(
        expressions(&placement),
        json!([
            { "conditions": [
                { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
                { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
            ] },
            { "conditions": [
                { "key": "kubernetes.io/arch", "operator": "In", "values": ["arm"] },
                { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
                { "key": "medley.dev/cpu-variant", "operator": "NotIn", "values": ["v6"] },
            ] },
        ])
    );
}

/// Managed clouds taint nodes of their second architecture: affinity alone would leave pods pending.
#[test]
fn taints_of_architectures_are_tolerated_where_the_image_runs() {
    let arm = json!({ "spec": { "taints": [
        { "key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule" },
    ] } });
    let nodes = cluster_of(&[
        node_with("a", "linux/amd64", &json!({})),
        node_with("b", "linux/arm64", &arm),
    ]);
    let toleration = json!({
        "key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule",
    });
    let both = known(&[("a", &["linux/amd64", "linux/arm64"])]);
    let placement = placed(decided(&pod(&["a"], &json!({})), &both, &nodes));
    assert_eq!(placement.tolerations, [toleration]);
    let one = known(&[("a", &["linux/amd64"])]);
    let placement = placed(decided(&pod(&["a"], &json!({})), &one, &nodes));
    assert_eq!(placement.tolerations, Vec::<Value>::new());
}

#[test]
fn weights_become_preferences_unless_the_pod_has_its_own() {
    let images = known(&[("a", &["linux/amd64", "linux/arm64", "linux/s390x"])]);
    let nodes = cluster(&["linux/amd64", "linux/arm64"]);
    let weights = [("arm64", 80), ("amd64", 20), ("ppc64le", 100)];
    let settings = Settings {
        weights: weights
            .into_iter()
            .map(|(a, w)| (a.to_owned(), w))
            .collect(),
        ..Settings::default()
    };
    let preferred = |more: &Value| {
        let decision = decide(
            &pod(&["a"], more),
            &images,
            &BTreeMap::new(),
            &nodes,
            &settings,
        );
        placed(decision).preferred
    };
    let both = [("arm64".to_owned(), 80), ("amd64".to_owned(), 20)];
    assert_eq!(preferred(&json!({})), both);
    let own = json!({ "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1,
            "preference": { "matchExpressions": [
                { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
            ] },
        }],
    } } });
    assert_eq!(preferred(&own), both[..1]);
}

#[rstest]
#[case::no_platform(
    &[("a", &["linux/arm64"][..]), ("b", &["linux/amd64"][..])], json!({}), &["linux/amd64", "linux/arm64"],
    "NoCommonPlatform",
    "image a of container \"c0\" is for linux/arm64, image b of container \"c1\" is for linux/amd64; the nodes are linux/amd64 (1), linux/arm64 (1); use images that have a platform in common, or put them into different pods",
)]
#[case::no_node(
    &[("quay.io/x/y:1", &["linux/arm64"][..])], json!({}), &["linux/amd64", "linux/amd64", "windows(10.0.20348)/amd64"],
    "NoMatchingNode",
    "image quay.io/x/y:1 of container \"c0\" is for linux/arm64; the nodes are linux/amd64 (2), windows(10.0.20348)/amd64 (1); add such a node, or use an image that is for one of the nodes",
)]
#[case::kept_away(
    &[("a", &["linux/arm64"][..])], json!({ "nodeSelector": { "kubernetes.io/arch": "amd64" } }), &["linux/amd64", "linux/arm64"],
    "NodesExcluded",
    "image a of container \"c0\" is for linux/arm64; nodes that can run it do not accept the pod: 1 node excluded by the pod's node selector or affinity; change the node selector or the node affinity of the pod",
)]
#[case::no_nodes(
    &[("a", &["linux/arm64"][..])], json!({}), &[],
    "NoMatchingNode",
    "image a of container \"c0\" is for linux/arm64; the cluster has no nodes; add such a node, or use an image that is for one of the nodes",
)]
fn no_fit_message_states_the_reason(
    #[case] images: &[(&str, &[&str])],
    #[case] more: Value,
    #[case] nodes: &[&str],
    #[case] reason: &str,
    #[case] sentence: &str,
) {
    let names: Vec<&str> = images.iter().map(|(name, _)| *name).collect();
    let no_fit = refused(decided(
        &pod(&names, &more),
        &known(images),
        &cluster(nodes),
    ));
    assert_eq!(no_fit.shortfall.reason(), reason);
    assert_eq!(no_fit.to_string(), sentence);
    // It may be admitted to wait for a node, unless no node could ever run it.
    assert_eq!(no_fit.placement.is_none(), reason == "NoCommonPlatform");
}

#[test]
fn no_fit_message_names_taints() {
    let images = known(&[("a", &["linux/amd64"])]);
    let dedicated = json!({ "spec": { "taints": [{ "key": "dedicated", "value": "gpu", "effect": "NoSchedule" }] } });
    let nodes = cluster_of(&[node_with("a", "linux/amd64", &dedicated)]);
    let no_fit = refused(decided(&pod(&["a"], &json!({})), &images, &nodes));
    let sentence = no_fit.to_string();
    assert!(
        sentence.contains("1 node with taint dedicated=gpu:NoSchedule"),
        "{sentence}"
    );
    assert!(sentence.contains("tolerate the taint"), "{sentence}");
}
