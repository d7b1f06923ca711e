use serde_json::{Value, json};

use super::*;

fn read(node: Value) -> Node {
    serde_json::from_value(node).unwrap()
}

#[test]
fn node_info_takes_precedence_over_labels() {
    let labels = json!({ "kubernetes.io/arch": "arm64", "kubernetes.io/os": "windows" });
    let both = read(json!({
        "metadata": { "labels": labels },
        "status": { "nodeInfo": { "architecture": "amd64", "operatingSystem": "linux" } },
    }));
    assert_eq!(
        (architecture(&both), os(&both)),
        (Some("amd64"), Some("linux"))
    );
    for info in [json!(null), json!({ "nodeInfo": { "architecture": "" } })] {
        let labelled = read(json!({ "metadata": { "labels": labels }, "status": info }));
        let found = (architecture(&labelled), os(&labelled));
        assert_eq!(found, (Some("arm64"), Some("windows")), "{info}");
    }
    let neither = Node::default();
    assert_eq!((architecture(&neither), os(&neither)), (None, None));
}

#[test]
fn state_of_a_node_is_reported_not_assumed() {
    let node = |status: &str| {
        read(json!({
            "spec": { "unschedulable": true },
            "status": { "conditions": [{ "type": "Ready", "status": status }] },
        }))
    };
    assert_eq!(ready(&node("True")), Some(true));
    assert_eq!(ready(&node("Unknown")), Some(false));
    assert_eq!(ready(&Node::default()), None);
    assert!(is_cordoned(&node("True")) && !is_cordoned(&Node::default()));
}
