//! Results of health checks.

use super::*;

fn node(name: &str, ready: &str) -> Arc<Node> {
    let node = json!({
        "metadata": { "name": name, "labels": { "role": "worker" } },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

#[test]
fn selected_nodes_are_counted() {
    let nodes = [node("a", "True"), node("b", "False"), node("c", "Unknown")];
    let spec = |label: &str, pauses: &[&str]| {
        json!({
            "selector": { "matchLabels": { "role": label } },
            "unhealthyConditions": [{ "type": "Ready", "status": "False", "duration": "300s" }],
            "pauseRequests": pauses,
        })
    };
    let status = found(&spec("worker", &[]), &nodes);
    assert_eq!(status["observedNodes"], 3);
    assert_eq!(status["healthyNodes"], 2);
    assert_eq!(status["unhealthyNodes"], json!([{ "name": "b" }]));
    assert_eq!(status["phase"], "Enabled");
    let status = found(&spec("other", &["rolling out", "testing"]), &nodes);
    assert_eq!(status["observedNodes"], 0);
    assert_eq!(status["phase"], "Paused");
    assert_eq!(status["reason"], "NHC is paused: rolling out,testing");
}
