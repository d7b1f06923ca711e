//! Which nodes count, and what is missing.

use serde_json::json;

use super::*;

const DONE: &str = "2026-01-01T12:00:00Z";

fn node(name: &str, architecture: &str, came: &str, ready: Option<&str>) -> Node {
    let conditions = match ready {
        Some(since) => json!([{ "type": "Ready", "status": "True", "lastTransitionTime": since }]),
        None => json!([{ "type": "Ready", "status": "False", "lastTransitionTime": came }]),
    };
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "creationTimestamp": came,
            "labels": { "kubernetes.io/arch": architecture },
        },
        "status": { "conditions": conditions },
    }))
    .unwrap()
}

fn daemon(on: &str, ready: &str, since: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": format!("daemon-{on}") },
        "spec": { "nodeName": on, "containers": [{ "name": "d", "image": "new" }] },
        "status": { "conditions": [
            { "type": "Ready", "status": ready, "lastTransitionTime": since },
        ] },
    }))
    .unwrap()
}

fn found(nodes: &[Node], daemons: Option<&[Pod]>, architecture: Option<&str>) -> Proof {
    verify(&VerifyInputs {
        completed: DONE.parse().unwrap(),
        architecture,
        nodes,
        daemons,
    })
}

#[test]
fn node_of_a_new_architecture_is_the_proof() {
    let nodes = [
        node(
            "old",
            "amd64",
            "2026-01-01T10:00:00Z",
            Some("2026-01-01T10:00:10Z"),
        ),
        node(
            "new",
            "arm64",
            "2026-01-01T12:01:00Z",
            Some("2026-01-01T12:01:30Z"),
        ),
    ];
    let daemons = [daemon("new", "True", "2026-01-01T12:01:50Z")];
    let proof = found(&nodes, Some(&daemons), None);
    assert_eq!(proof.before, ["amd64"]);
    let proven = proof.proven().unwrap();
    assert_eq!(
        (proven.node.as_str(), proven.architecture.as_str()),
        ("new", "arm64")
    );
    assert_eq!(proven.took(), Some(SignedDuration::from_secs(50)));
    assert_eq!(proven.daemon.as_ref().unwrap().image, "new");
}

#[test]
fn missing_requirements_are_reported() {
    let came = "2026-01-01T12:01:00Z";
    let later = Some("2026-01-01T12:01:30Z");
    let none: &[Pod] = &[];
    let starting = [daemon("new", "False", came)];
    for (ready, daemons, missing) in [
        (None, Some(none), Some("it is not ready")),
        (
            later,
            Some(none),
            Some("the machine-config-daemon does not run there"),
        ),
        (
            later,
            Some(&starting[..]),
            Some("the machine-config-daemon does not run there"),
        ),
        // Without the daemon installed it is not required.
        (later, None, None),
    ] {
        let proof = found(&[node("new", "arm64", came, ready)], daemons, None);
        assert_eq!(proof.joined[0].missing.as_deref(), missing);
        assert_eq!(proof.proven().is_some(), missing.is_none());
    }
}

#[test]
fn nodes_from_before_completion_do_not_count() {
    let early = "2026-01-01T11:59:59Z";
    let nodes = [
        node("early", "arm64", early, Some(early)),
        node(
            "late",
            "arm64",
            "2026-01-01T12:00:00Z",
            Some("2026-01-01T12:00:01Z"),
        ),
    ];
    let proof = found(&nodes, None, None);
    assert_eq!(proof.before, ["arm64"]);
    assert!(proof.joined.is_empty(), "arm64 was there before");
    // Unless its architecture is requested: then a new node suffices.
    let proof = found(&nodes, None, Some("arm64"));
    assert_eq!(proof.proven().map(|it| it.node.as_str()), Some("late"));
    assert!(found(&nodes, None, Some("s390x")).joined.is_empty());
}

#[test]
fn proving_nodes_come_first() {
    let nodes = [
        node("a", "arm64", "2026-01-01T12:00:01Z", None),
        node(
            "b",
            "s390x",
            "2026-01-01T12:00:05Z",
            Some("2026-01-01T12:00:06Z"),
        ),
    ];
    let proof = found(&nodes, None, None);
    let names: Vec<&str> = proof.joined.iter().map(|it| it.node.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
}
