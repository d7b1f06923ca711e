//! Single decisions.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{NOW, World, deployment, now};

#[test]
fn a_new_set_is_what_kube_controller_manager_would_create() {
    let world = World::new(deployment(&json!({
        "/metadata/annotations": {
            "team": "shop",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    })));
    let plan = world.plan();
    let created = serde_json::to_value(plan.create.unwrap()).unwrap();
    let hash = created["metadata"]["labels"]["pod-template-hash"]
        .as_str()
        .unwrap();
    assert!(
        hash.bytes()
            .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)),
        "{hash}"
    );
    assert_eq!(
        created,
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": format!("web-{hash}"),
                "namespace": "shop",
                "labels": { "app": "web", "pod-template-hash": hash },
                "annotations": {
                    "team": "shop",
                    "deployment.kubernetes.io/revision": "1",
                    "deployment.kubernetes.io/desired-replicas": "3",
                    "deployment.kubernetes.io/max-replicas": "4",
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "replicas": 3,
                "selector": { "matchLabels": { "app": "web", "pod-template-hash": hash } },
                "template": {
                    "metadata": { "labels": { "app": "web", "pod-template-hash": hash } },
                    "spec": { "containers": [{ "name": "web", "image": "one" }] },
                },
            },
        })
    );
    let conditions = serde_json::to_value(plan.deployment.status.unwrap().conditions).unwrap();
    assert_eq!(
        conditions[0],
        json!({
            "type": "Progressing", "status": "True", "reason": "NewReplicaSetCreated",
            "message": format!("Created new replica set \"web-{hash}\""),
            "lastUpdateTime": NOW, "lastTransitionTime": NOW,
        })
    );
    assert_eq!(
        conditions[1],
        json!({
            "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
            "message": "Deployment does not have minimum availability.",
            "lastUpdateTime": NOW, "lastTransitionTime": NOW,
        })
    );
}

#[test]
fn collisions_change_the_name() {
    let name = |status: Value| {
        let world = World::new(deployment(&json!({ "/status": status })));
        world.plan().create.unwrap().metadata.name.unwrap()
    };
    assert_eq!(name(json!({})), name(json!({})));
    assert_ne!(name(json!({})), name(json!({ "collisionCount": 1 })));
}

#[test]
fn rollouts_that_do_not_get_on_time_out() {
    let mut world = World::new(deployment(&json!({})));
    world.apply(world.plan());
    world.settle(|_, _| 0);
    world.apply(world.plan());
    assert_eq!(
        world.condition("Progressing").unwrap().1,
        "ReplicaSetUpdated"
    );
    let plan = world.plan();
    assert_eq!(plan.deployment, world.deployment);
    assert_eq!(plan.next_look.unwrap().as_secs(), 601);
    let on_time = now()
        .checked_add(jiff::SignedDuration::from_secs(600))
        .unwrap();
    assert_eq!(world.plan_at(on_time).deployment, world.deployment);
    let late = now()
        .checked_add(jiff::SignedDuration::from_secs(601))
        .unwrap();
    let plan = world.plan_at(late);
    assert_eq!(plan.next_look, None);
    world.apply(plan);
    let name = world.sets[0].metadata.name.clone().unwrap();
    assert_eq!(
        world.condition("Progressing").unwrap(),
        (
            "False".to_owned(),
            "ProgressDeadlineExceeded".to_owned(),
            format!("ReplicaSet \"{name}\" has timed out progressing."),
        )
    );
    world.run();
    assert_eq!(
        world.condition("Progressing").unwrap().1,
        "NewReplicaSetAvailable"
    );
}

#[test]
fn failures_of_sets_are_passed_on_and_end() {
    let mut world = World::new(deployment(&json!({})));
    world.apply(world.plan());
    let failed = json!([{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota",
        "lastTransitionTime": NOW,
    }]);
    world.settle(|_, _| 0);
    let set = std::sync::Arc::make_mut(&mut world.sets[0]);
    set.status.as_mut().unwrap().conditions = serde_json::from_value(failed).unwrap();
    world.apply(world.plan());
    assert_eq!(
        world.condition("ReplicaFailure").unwrap(),
        (
            "True".to_owned(),
            "FailedCreate".to_owned(),
            "quota".to_owned()
        )
    );
    std::sync::Arc::make_mut(&mut world.sets[0])
        .status
        .as_mut()
        .unwrap()
        .conditions = None;
    world.apply(world.plan());
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[test]
fn templates_are_the_same_whether_or_not_what_is_empty_is_written() {
    let mut world = World::new(deployment(&json!({})));
    world.run();
    world.change(|object| object["spec"]["template"]["metadata"]["annotations"] = json!({}));
    world.change(|object| object["spec"]["template"]["spec"]["volumes"] = json!([]));
    assert_eq!(world.plan().create, None);
    world.change(|object| {
        object["spec"]["template"]["spec"]["volumes"] = json!([{ "name": "v", "emptyDir": {} }]);
    });
    assert!(world.plan().create.is_some());
}

#[test]
fn deployments_that_go_are_only_counted() {
    let mut world = World::new(deployment(&json!({})));
    world.run();
    world.set_image("two");
    world.change(|object| object["metadata"]["deletionTimestamp"] = json!(NOW));
    let plan = world.plan();
    assert_eq!(plan.create, None);
    assert_eq!(plan.update, []);
    assert_eq!(plan.deployment.status.unwrap().observed_generation, Some(3));
}

#[test]
fn strategies_nobody_knows_are_refused() {
    let object = deployment(&json!({ "/spec/strategy": { "type": "BigBang" } }));
    let error = super::decide(&object, &[], &HashSet::default(), now()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unexpected deployment strategy type: BigBang"
    );
}
