//! Single plans.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Fixture, NOW, deployment, now};

#[test]
fn new_set_matches_kube_controller_manager() {
    let fixture = Fixture::new(deployment(&json!({
        "/metadata/annotations": {
            "team": "shop",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    })));
    let plan = fixture.plan();
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
        let fixture = Fixture::new(deployment(&json!({ "/status": status })));
        fixture.plan().create.unwrap().metadata.name.unwrap()
    };
    assert_eq!(name(json!({})), name(json!({})));
    assert_ne!(name(json!({})), name(json!({ "collisionCount": 1 })));
}

#[test]
fn stuck_rollouts_time_out() {
    let mut fixture = Fixture::new(deployment(&json!({})));
    fixture.apply(fixture.plan());
    fixture.settle(|_, _| 0);
    fixture.apply(fixture.plan());
    assert_eq!(
        fixture.condition("Progressing").unwrap().1,
        "ReplicaSetUpdated"
    );
    let plan = fixture.plan();
    assert_eq!(plan.deployment, fixture.deployment);
    assert_eq!(plan.next_look.unwrap().as_secs(), 601);
    let on_time = now()
        .checked_add(jiff::SignedDuration::from_secs(600))
        .unwrap();
    assert_eq!(fixture.plan_at(on_time).deployment, fixture.deployment);
    let late = now()
        .checked_add(jiff::SignedDuration::from_secs(601))
        .unwrap();
    let plan = fixture.plan_at(late);
    assert_eq!(plan.next_look, None);
    fixture.apply(plan);
    let name = fixture.sets[0].metadata.name.clone().unwrap();
    assert_eq!(
        fixture.condition("Progressing").unwrap(),
        (
            "False".to_owned(),
            "ProgressDeadlineExceeded".to_owned(),
            format!("ReplicaSet \"{name}\" has timed out progressing."),
        )
    );
    fixture.run();
    assert_eq!(
        fixture.condition("Progressing").unwrap().1,
        "NewReplicaSetAvailable"
    );
}

#[test]
fn set_failures_are_propagated_and_cleared() {
    let mut fixture = Fixture::new(deployment(&json!({})));
    fixture.apply(fixture.plan());
    let failed = json!([{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota",
        "lastTransitionTime": NOW,
    }]);
    fixture.settle(|_, _| 0);
    let set = std::sync::Arc::make_mut(&mut fixture.sets[0]);
    set.status.as_mut().unwrap().conditions = serde_json::from_value(failed).unwrap();
    fixture.apply(fixture.plan());
    assert_eq!(
        fixture.condition("ReplicaFailure").unwrap(),
        (
            "True".to_owned(),
            "FailedCreate".to_owned(),
            "quota".to_owned()
        )
    );
    std::sync::Arc::make_mut(&mut fixture.sets[0])
        .status
        .as_mut()
        .unwrap()
        .conditions = None;
    fixture.apply(fixture.plan());
    assert_eq!(fixture.condition("ReplicaFailure"), None);
}

#[test]
fn templates_are_compared_without_empty_fields() {
    let mut fixture = Fixture::new(deployment(&json!({})));
    fixture.run();
    fixture.change(|object| object["spec"]["template"]["metadata"]["annotations"] = json!({}));
    fixture.change(|object| object["spec"]["template"]["spec"]["volumes"] = json!([]));
    assert_eq!(fixture.plan().create, None);
    fixture.change(|object| {
        object["spec"]["template"]["spec"]["volumes"] = json!([{ "name": "v", "emptyDir": {} }]);
    });
    assert!(fixture.plan().create.is_some());
}

#[test]
fn deleted_deployments_only_update_their_status() {
    let mut fixture = Fixture::new(deployment(&json!({})));
    fixture.run();
    fixture.set_image("two");
    fixture.change(|object| object["metadata"]["deletionTimestamp"] = json!(NOW));
    let plan = fixture.plan();
    assert_eq!(plan.create, None);
    assert_eq!(plan.update, []);
    assert_eq!(plan.deployment.status.unwrap().observed_generation, Some(3));
}

#[test]
fn unknown_strategies_are_rejected() {
    let object = deployment(&json!({ "/spec/strategy": { "type": "BigBang" } }));
    let error = super::decide(&object, &[], &HashSet::default(), now()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unexpected deployment strategy type: BigBang"
    );
}
