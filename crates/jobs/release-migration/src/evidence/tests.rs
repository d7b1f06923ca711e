use serde_json::{Value, json};

use super::*;

fn image(place: &str, letter: char) -> String {
    format!("{place}@sha256:{}", letter.to_string().repeat(64))
}

fn operator(related: &Value) -> ClusterOperator {
    let object = json!({
        "metadata": { "name": "dns" }, "spec": {}, "status": { "relatedObjects": related },
    });
    serde_json::from_value(object).unwrap()
}

fn pod(namespace: &str, name: &str, owner: (&str, &str), image: &str, ready: bool) -> Pod {
    let ready = if ready { "True" } else { "False" };
    serde_json::from_value(json!({
        "metadata": { "namespace": namespace, "name": name, "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": owner.0, "name": owner.1, "uid": "u", "controller": true,
        }] },
        "spec": { "containers": [{ "name": "c", "image": image }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] },
    }))
    .unwrap()
}

fn release() -> ReleaseImages {
    let tags = json!([
        { "name": "a", "from": { "kind": "DockerImage", "name": image("quay.io/r", 'b') } },
        { "name": "b", "from": { "kind": "DockerImage", "name": "quay.io/r:tag" } },
    ]);
    let stream = serde_json::from_value(json!({ "spec": { "tags": tags } }));
    ReleaseImages::of(&stream.unwrap())
}

#[test]
fn pods_are_found_through_related_objects() {
    let pods = [
        pod("dns", "a", ("ReplicaSet", "x-12ab"), "i", true),
        pod("other", "b", ("ReplicaSet", "web-1-12ab"), "i", true),
        pod("other", "c", ("ReplicaSet", "web-2-12ab"), "i", true),
        pod("other", "d", ("DaemonSet", "agent"), "i", true),
        pod("third", "e", ("StatefulSet", "db"), "i", true),
        pod("third", "f", ("Job", "once"), "i", true),
    ];
    let names = |related: Value| -> String {
        let found = running(&operator(&related), &pods);
        let names: Vec<String> = found.into_iter().map(|it| it.pod).collect();
        names.join("")
    };
    assert_eq!(
        names(json!([{ "group": "", "resource": "namespaces", "name": "dns" }])),
        "a"
    );
    assert_eq!(
        names(json!([
            { "group": "apps", "resource": "deployments", "namespace": "other", "name": "web-1" },
            { "group": "apps", "resource": "daemonsets", "namespace": "other", "name": "" },
            { "group": "apps", "resource": "statefulsets", "namespace": "third", "name": "db" },
            { "group": "x", "resource": "namespaces", "name": "third" },
        ])),
        "bde"
    );
    assert_eq!(names(json!([])), "");
}

#[test]
fn ended_pods_are_ignored() {
    let mut ended = pod("dns", "a", ("Job", "x"), "i", false);
    ended.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
    let related = json!([{ "group": "", "resource": "namespaces", "name": "dns" }]);
    assert_eq!(running(&operator(&related), [&ended]), []);
}

#[test]
fn running_images_show_the_rollout_state() {
    let related = json!([{ "group": "", "resource": "namespaces", "name": "dns" }]);
    let evidence_of = |pods: &[Pod]| {
        let found = running(&operator(&related), pods);
        evidence("dns", &found, &release())
    };
    let owner = ("ReplicaSet", "x-1");
    let new = pod("dns", "new", owner, &image("quay.io/r", 'b'), true);
    let mirrored = pod("dns", "mirrored", owner, &image("m/r", 'b'), true);
    let tagged = pod("dns", "tagged", owner, "quay.io/r:tag", true);
    let starting = pod("dns", "starting", owner, &image("quay.io/r", 'b'), false);
    let old = pod("dns", "old", owner, &image("quay.io/r", 'a'), true);
    let good = [new, mirrored, tagged];
    assert_eq!(evidence_of(&good).arrival, Arrival::Arrived);
    assert_eq!(evidence_of(&good).containers, 3);
    let waiting = evidence_of(&[good[0].clone(), starting]);
    assert_eq!(waiting.arrival, Arrival::Starting);
    assert_eq!(waiting.unready, ["dns/starting"]);
    let rolling = evidence_of(&[good[0].clone(), old]);
    assert_eq!(rolling.arrival, Arrival::Rolling);
    assert_eq!(rolling.stale[0].pod, "old");
    assert_eq!(evidence_of(&[]).arrival, Arrival::NothingRuns);
    // Images from other repositories belong to no release.
    let catalog = pod(
        "dns",
        "catalog",
        owner,
        &image("quay.io/catalog", 'c'),
        false,
    );
    let beside = evidence_of(&[good[0].clone(), catalog.clone()]);
    assert_eq!((beside.arrival, beside.foreign), (Arrival::Arrived, 1));
    assert_eq!(evidence_of(&[catalog]).arrival, Arrival::NothingRuns);
}
