//! Platforms, taints and runtimes of nodes.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Cluster, Node, Runtime};
use crate::test_values::{cluster, node, read};

#[test]
fn node_info_takes_precedence_over_labels() {
    let node = read(&json!({
        "metadata": { "name": "a", "labels": { "kubernetes.io/arch": "arm64" } },
        "status": { "nodeInfo": { "architecture": "amd64", "operatingSystem": "linux" } },
    }));
    assert_eq!(node.place.to_string(), "linux/amd64");
}

#[rstest]
#[case::label(json!({ "node.kubernetes.io/windows-build": "10.0.20348" }), "10.0.17763.1", "10.0.20348")]
// Kubelets before 1.17 set no label; the kernel version is the full Windows version.
#[case::kernel(json!({}), "10.0.17763.805", "10.0.17763")]
#[case::neither(json!({}), "5.15.0", "5.15.0")]
#[case::nonsense(json!({}), "ltsc2022", "")]
fn windows_nodes_have_a_build(#[case] labels: Value, #[case] kernel: &str, #[case] build: &str) {
    let node = read(&json!({
        "metadata": { "name": "a", "labels": labels },
        "status": { "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "windows", "kernelVersion": kernel,
        } },
    }));
    assert_eq!(node.place.build, build);
}

#[rstest]
#[case::kernel(json!({}), json!({ "kernelVersion": "10.0.20348.2113" }), Some("10.0.20348"))]
#[case::name(json!({}), json!({ "osImage": "Windows Server 2019 Datacenter" }), Some("10.0.17763"))]
#[case::nothing(json!({}), json!({ "osImage": "Windows Server Datacenter" }), None)]
#[case::labelled(
    json!({ "node.kubernetes.io/windows-build": "10.0.17763" }),
    json!({ "kernelVersion": "10.0.20348.2113" }),
    None
)]
fn unlabelled_build_is_reported_as_missing(
    #[case] labels: Value,
    #[case] info: Value,
    #[case] build: Option<&str>,
) {
    let mut node =
        json!({ "metadata": { "name": "a", "labels": labels }, "status": { "nodeInfo": info } });
    node["metadata"]["labels"]["kubernetes.io/os"] = json!("windows");
    assert_eq!(read(&node).missing_build(), build);
    // Other operating systems have no Windows build.
    node["metadata"]["labels"]["kubernetes.io/os"] = json!("linux");
    assert_eq!(read(&node).missing_build(), None);
}

#[test]
fn taints_of_temporary_states_are_ignored() {
    let node = read(&json!({
        "metadata": { "name": "a" },
        "spec": { "taints": [
            { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" },
            { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" },
            { "key": "dedicated", "value": "gpu", "effect": "NoSchedule" },
            { "key": "soft", "effect": "PreferNoSchedule" },
            { "key": "node.kubernetes.io/os", "value": "windows", "effect": "NoSchedule" },
        ] },
    }));
    let keys: Vec<&Value> = node.taints().iter().map(|taint| &taint["key"]).collect();
    assert_eq!(keys, ["dedicated", "node.kubernetes.io/os"]);
}

#[test]
fn runtimes_are_detected_by_scheme() {
    assert_eq!(Runtime::parse("cri-o://1.34.0"), Runtime::CriO);
    assert_eq!(Runtime::parse("containerd://2.1.4"), Runtime::Containerd);
    assert_eq!(Runtime::parse(""), Runtime::Containerd);
}

#[test]
fn nodes_are_added_changed_and_removed() {
    let mut nodes = cluster(&["linux/amd64", "linux/amd64"]);
    nodes.upsert(read(&node("node-1", "linux/arm64")));
    let places: Vec<(String, usize)> = nodes
        .places()
        .map(|(place, count)| (place.to_string(), count))
        .collect();
    assert_eq!(
        places,
        [("linux/amd64".to_owned(), 1), ("linux/arm64".to_owned(), 1)]
    );
    nodes.remove("node-1");
    nodes.remove("node-0");
    assert_eq!(nodes, Cluster::default());
}

/// A node with a taint and a runtime.
fn tainted(name: &str, taint: &str, runtime: &str) -> Node {
    let mut node = node(name, "linux/amd64");
    node["spec"] = json!({ "taints": [{ "key": taint, "effect": "NoSchedule" }] });
    node["status"]["nodeInfo"]["containerRuntimeVersion"] = json!(runtime);
    read(&node)
}

#[test]
fn aggregates_of_a_platform_follow_its_nodes() {
    let crio = tainted("b", "gpu", "cri-o://1.34.0");
    let place = crio.place.clone();
    let mut cluster: Cluster = [tainted("a", "gpu", "containerd://2.1.4"), crio]
        .into_iter()
        .collect();
    let taints = |cluster: &Cluster| -> Vec<Value> {
        let taints = cluster.taints_of(&place);
        taints.map(|taint| taint["key"].clone()).collect()
    };
    assert_eq!(taints(&cluster), ["gpu"], "each is listed once");
    let both = [Runtime::Containerd, Runtime::CriO];
    assert_eq!(cluster.runtimes_of(&place), both.into());

    cluster.upsert(tainted("b", "storage", "containerd://2.1.4"));
    assert_eq!(taints(&cluster), ["gpu", "storage"]);
    assert_eq!(cluster.runtimes_of(&place), [Runtime::Containerd].into());
    cluster.remove("a");
    let alone: Cluster = [tainted("b", "storage", "containerd://2.1.4")]
        .into_iter()
        .collect();
    assert_eq!(cluster, alone, "nothing is left of it");
}
