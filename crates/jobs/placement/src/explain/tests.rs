//! What people read.

use std::collections::BTreeMap;

use serde_json::json;

use super::explain;
use crate::Settings;
use crate::test_values::{cluster, known, pod};

#[test]
fn a_pod_is_explained_by_its_images_and_every_kind_of_node() {
    let images = known(&[("app:1", &["linux/arm64", "linux/amd64"])]);
    let nodes = cluster(&["linux/amd64", "linux/amd64", "linux/s390x"]);
    let web = pod(&["app:1"], &json!({}));
    let told = explain(
        &web,
        &images,
        &BTreeMap::new(),
        &nodes,
        &Settings::default(),
    );
    assert_eq!(
        json!(told),
        json!({
            "decision": "Placed",
            "summary": "its images run on 2 of 3 nodes",
            "images": ["app:1 (container \"c0\"): for linux/arm64, linux/amd64"],
            "places": [
                { "place": "linux/amd64", "nodes": 2, "runs": true, "why": [] },
                { "place": "linux/s390x", "nodes": 1, "runs": false, "why": [
                    "image app:1 of container \"c0\" is for another architecture",
                ] },
            ],
            "change": { "spec": { "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
                    "matchExpressions": [
                        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"] },
                        { "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] },
                    ],
                }] },
            } } } },
        })
    );
}

#[test]
fn what_was_not_looked_at_is_said() {
    let web = pod(&["app:1"], &json!({}));
    let nodes = cluster(&["linux/amd64"]);
    let told = explain(
        &web,
        &BTreeMap::new(),
        &BTreeMap::new(),
        &nodes,
        &Settings::default(),
    );
    assert_eq!(told.decision, "NotKnown");
    assert_eq!(told.images, ["app:1 (container \"c0\"): not looked at"]);
}
