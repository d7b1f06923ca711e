//! Explanations of placement decisions.

use std::collections::BTreeMap;

use serde_json::json;

use super::explain;
use crate::test_values::{cluster, known, pod};
use crate::{Settings, Skip};

#[test]
fn explanation_covers_images_and_node_platforms() {
    let images = known(&[("app:1", &["linux/arm64", "linux/amd64"])]);
    let nodes = cluster(&["linux/amd64", "linux/amd64", "linux/s390x"]);
    let web = pod(&["app:1"], &json!({}));
    let explanation = explain(
        &web,
        &images,
        &BTreeMap::new(),
        &nodes,
        Ok(&Settings::default()),
    );
    assert_eq!(
        json!(explanation),
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
fn pod_of_another_operator_is_explained_without_a_change() {
    let images = known(&[("app:1", &["linux/arm64"])]);
    let nodes = cluster(&["linux/amd64"]);
    let web = pod(&["app:1"], &json!({}));
    let skip = Err(Skip::PlacedByMultiarchTuning);
    let explanation = explain(&web, &images, &BTreeMap::new(), &nodes, skip);
    assert_eq!(explanation.decision, "LeftAlone");
    assert!(
        explanation
            .summary
            .starts_with("the multiarch-tuning-operator places pods of this namespace"),
        "{}",
        explanation.summary
    );
    assert!(!explanation.places[0].runs);
    assert_eq!(explanation.change, None);
    assert_eq!(explanation.remedies, []);
}

#[test]
fn uninspected_image_is_explained() {
    let web = pod(&["app:1"], &json!({}));
    let nodes = cluster(&["linux/amd64"]);
    let explanation = explain(
        &web,
        &BTreeMap::new(),
        &BTreeMap::new(),
        &nodes,
        Ok(&Settings::default()),
    );
    assert_eq!(explanation.decision, "NotKnown");
    assert_eq!(
        explanation.images,
        ["app:1 (container \"c0\"): not inspected"]
    );
}
