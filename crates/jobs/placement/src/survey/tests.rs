//! The report about all pods.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{PodSummary, survey};
use crate::test_values::{cluster, known, pod};
use crate::{Inspection, Settings, Uninspectable};

fn on(node: &str, image: &str, owner: &str) -> Value {
    let mut pod = pod(&[image], &json!({ "nodeName": node }));
    pod["metadata"]["ownerReferences"] = json!([{ "kind": owner, "name": "o" }]);
    pod
}

#[test]
fn survey_covers_images_nodes_and_pods() {
    let nodes = cluster(&["linux/amd64", "linux/arm64", "linux/amd64"]);
    let mut images = known(&[
        ("app", &["linux/amd64"]),
        ("agent", &["linux/amd64", "linux/arm64"]),
        ("mainframe", &["linux/s390x"]),
    ]);
    let gone = Uninspectable {
        message: "no such image".to_owned(),
        transient: false,
    };
    images.insert("gone".to_owned(), Inspection::Uninspectable(gone));
    let mut done = on("node-2", "mainframe", "Job");
    done["status"] = json!({ "phase": "Succeeded" });
    let pods = BTreeMap::from([
        (
            "shop/agent-0".to_owned(),
            on("node-0", "agent", "DaemonSet"),
        ),
        (
            "shop/agent-1".to_owned(),
            on("node-1", "agent", "DaemonSet"),
        ),
        ("shop/web".to_owned(), on("node-0", "app", "ReplicaSet")),
        ("shop/z".to_owned(), pod(&["mainframe", "gone"], &json!({}))),
        ("shop/waits".to_owned(), pod(&["app"], &json!({}))),
        ("shop/lost".to_owned(), on("node-1", "app", "ReplicaSet")),
        ("shop/done".to_owned(), done),
    ]);
    let pods = pods.into_iter();
    let pods: BTreeMap<String, PodSummary> = pods
        .map(|(name, pod)| (name, PodSummary::read(&pod)))
        .collect();
    let found = survey(
        &pods,
        &images,
        &BTreeMap::new(),
        &nodes,
        &Settings::default(),
    );
    let coverage: Vec<(&str, &str, usize, usize)> = found
        .images
        .iter()
        .map(|it| (it.image.as_str(), it.platforms.as_str(), it.pods, it.nodes))
        .collect();
    assert_eq!(
        coverage,
        [
            ("agent", "linux/amd64,linux/arm64", 2, 3),
            ("app", "linux/amd64", 3, 2),
            ("gone", "no such image", 1, 0),
            ("mainframe", "linux/s390x", 2, 0),
        ]
    );
    let stuck: Vec<(&str, &str)> = found
        .stuck
        .iter()
        .map(|it| (it.pod.as_str(), it.reason))
        .collect();
    assert_eq!(
        stuck,
        [("shop/lost", "WrongNode"), ("shop/z", "NoMatchingNode")]
    );
    assert_eq!(
        found.stuck[0].why,
        "it is on node node-1, which is linux/arm64, but image app of container \"c0\" is for another architecture; delete the pod so that it is placed again"
    );
    assert_eq!(found.idle, ["node-2"]);
    let places: Vec<(&str, usize, usize, usize)> = found
        .places
        .iter()
        .map(|it| (it.place.as_str(), it.nodes, it.images, it.of_images))
        .collect();
    assert_eq!(places, [("linux/amd64", 2, 2, 3), ("linux/arm64", 1, 1, 3)]);
}
