use cpu_models::Index;
use serde_json::json;

use super::*;

fn node(name: &str, models: &[&str], heartbeat: &str) -> Arc<Node> {
    let labels = models
        .iter()
        .map(|model| (format!("cpu-model.node.kubevirt.io/{model}"), json!("true")));
    let node = json!({
        "metadata": { "name": name, "labels": labels.collect::<serde_json::Map<_, _>>() },
        "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat },
        ] },
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

#[test]
fn node_changes_update_the_index_incrementally() {
    let view = NodeView::<Index> {
        index: Arc::default(),
    };
    let change = |old: Option<&Arc<Node>>, new: Option<&Arc<Node>>| {
        let change = Change {
            old: old.cloned(),
            new: new.cloned(),
        };
        apply(&view.index, &change).is_some()
    };
    let (a, b) = (
        node("a", &["EPYC"], "2026-01-01T00:00:00Z"),
        node("b", &["EPYC"], "2026-01-01T00:00:00Z"),
    );
    assert!(change(None, Some(&a)) && change(None, Some(&b)));
    let before = view.snapshot();
    // Heartbeats do not replace the index, so values derived from it are not recomputed.
    let alive = node("a", &["EPYC"], "2026-01-01T00:00:10Z");
    assert!(!change(Some(&a), Some(&alive)));
    assert!(Arc::ptr_eq(&before, &view.snapshot()));
    let c = node("c", &["EPYC", "EPYC-Rome"], "2026-01-01T00:00:10Z");
    assert!(change(Some(&b), None) && change(None, Some(&c)));
    assert_eq!(view.read().names(), ["a", "c"]);
    assert_eq!(view.read().models()["EPYC-Rome"], 1);
    assert_eq!(before.names(), ["a", "b"], "a snapshot stays as it is");
}
