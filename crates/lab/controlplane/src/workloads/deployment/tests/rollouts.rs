//! Whole rollouts, with ReplicaSets that follow at once.

use proptest::prelude::*;
use serde_json::json;

use super::{Fixture, deployment};
use crate::workloads::deployment::sets::replicas;
use crate::workloads::deployment::wanted::Wanted;

/// Total replicas of a plan, including the set to create.
fn planned(fixture: &Fixture) -> i32 {
    let mut after = Fixture::new(fixture.deployment.clone());
    after.sets.clone_from(&fixture.sets);
    after.busy.clone_from(&fixture.busy);
    after.apply(fixture.plan());
    after.sizes().iter().sum()
}

#[test]
fn first_rollout_creates_one_set() {
    let mut fixture = Fixture::new(deployment(&json!({})));
    fixture.run();
    assert_eq!(fixture.sizes(), [3]);
    let status = serde_json::to_value(&fixture.deployment.status).unwrap();
    assert_eq!(status["replicas"], 3);
    assert_eq!(status["updatedReplicas"], 3);
    assert_eq!(status["availableReplicas"], 3);
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status.get("unavailableReplicas"), None);
    let name = fixture.sets[0].metadata.name.as_deref().unwrap();
    assert_eq!(
        fixture.condition("Progressing").unwrap(),
        (
            "True".to_owned(),
            "NewReplicaSetAvailable".to_owned(),
            format!("ReplicaSet \"{name}\" has successfully progressed."),
        )
    );
    assert_eq!(
        fixture.condition("Available").unwrap().1,
        "MinimumReplicasAvailable"
    );
}

#[test]
fn rollback_reuses_the_first_set() {
    let mut fixture = Fixture::new(deployment(&json!({})));
    fixture.run();
    fixture.set_image("two");
    fixture.run();
    assert_eq!(fixture.sizes(), [0, 3]);
    let revision = |fixture: &Fixture, set: usize| {
        let annotations = fixture.sets[set].metadata.annotations.clone().unwrap();
        (
            annotations["deployment.kubernetes.io/revision"].clone(),
            annotations
                .get("deployment.kubernetes.io/revision-history")
                .cloned(),
        )
    };
    assert_eq!(revision(&fixture, 1), ("2".to_owned(), None));
    fixture.set_image("one");
    fixture.run();
    assert_eq!(fixture.sizes(), [3, 0]);
    assert_eq!(
        revision(&fixture, 0),
        ("3".to_owned(), Some("1".to_owned()))
    );
    let annotations = fixture.deployment.metadata.annotations.unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
}

#[test]
fn recreate_waits_for_old_pods_to_terminate() {
    let mut fixture = Fixture::new(deployment(
        &json!({ "/spec/strategy": { "type": "Recreate" } }),
    ));
    fixture.run();
    fixture.set_image("two");
    let plan = fixture.plan();
    assert_eq!(plan.create, None);
    fixture.apply(plan);
    assert_eq!(fixture.sizes(), [0]);
    fixture.settle(|_, there| there);
    // The set has no replicas any more, but one pod is still terminating.
    fixture.busy.extend(fixture.sets[0].metadata.uid.clone());
    let plan = fixture.plan();
    assert_eq!(plan.create, None);
    fixture.apply(plan);
    fixture.busy.clear();
    fixture.run();
    assert_eq!(fixture.sizes(), [0, 3]);
}

#[test]
fn paused_deployments_only_scale() {
    let mut fixture = Fixture::new(deployment(&json!({})));
    fixture.run();
    fixture.change(|object| object["spec"]["paused"] = json!(true));
    fixture.set_image("two");
    fixture.run();
    assert_eq!(fixture.sizes(), [3]);
    assert_eq!(
        fixture.condition("Progressing").unwrap(),
        (
            "Unknown".to_owned(),
            "DeploymentPaused".to_owned(),
            "Deployment is paused".to_owned()
        )
    );
    fixture.change(|object| object["spec"]["replicas"] = json!(5));
    fixture.run();
    assert_eq!(fixture.sizes(), [5]);
    fixture.change(|object| object["spec"]["paused"] = json!(false));
    fixture.apply(fixture.plan());
    fixture.run();
    assert_eq!(fixture.sizes(), [0, 5]);
}

#[test]
fn old_sets_beyond_the_limit_are_deleted_oldest_first() {
    let mut fixture = Fixture::new(deployment(&json!({ "/spec/revisionHistoryLimit": 2 })));
    for image in ["one", "two", "three", "four", "five"] {
        fixture.set_image(image);
        fixture.run();
    }
    let revisions: Vec<String> = fixture
        .sets
        .iter()
        .map(|set| {
            set.metadata.annotations.as_ref().unwrap()["deployment.kubernetes.io/revision"].clone()
        })
        .collect();
    assert_eq!(revisions, ["3", "4", "5"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Regardless of how slowly pods become available, the surge and availability limits hold, and
    /// in the end all pods are new.
    #[test]
    fn rollouts_stay_within_limits_and_complete(
        count in 1i32..12,
        surge in 0i32..4,
        unavailable in 0i32..4,
        pace in prop::collection::vec((0i32..12, 0i32..12), 20),
    ) {
        let mut fixture = Fixture::new(deployment(&json!({
            "/spec/replicas": count,
            "/spec/strategy/rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable },
        })));
        fixture.run();
        fixture.set_image("two");
        let wanted = Wanted::of(&fixture.deployment).unwrap();
        for (old, new) in pace {
            fixture.settle(|set, there| there.min(if set == 0 { count.max(old) } else { new }));
            prop_assert!(planned(&fixture) <= wanted.most());
            let there: i32 = fixture.sets.iter().map(|set| {
                set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
            }).sum();
            fixture.apply(fixture.plan());
            let left: i32 = fixture.sets.iter().map(|set| {
                let available = set.status.as_ref().and_then(|status| status.available_replicas);
                available.unwrap_or(0).min(replicas(set))
            }).sum();
            prop_assert!(left >= there.min(wanted.min_available()));
        }
        fixture.run();
        prop_assert_eq!(fixture.sizes(), vec![0, count]);
    }

    /// A deployment scaled in the middle of a rollout completes.
    #[test]
    fn scaled_rollouts_complete(count in 1i32..12, then in 0i32..20, steps in 0usize..6) {
        let mut fixture = Fixture::new(deployment(&json!({ "/spec/replicas": count })));
        fixture.run();
        fixture.set_image("two");
        for _ in 0..steps {
            fixture.settle(|_, there| there);
            fixture.apply(fixture.plan());
        }
        fixture.change(|object| object["spec"]["replicas"] = json!(then));
        fixture.run();
        prop_assert_eq!(fixture.sizes(), vec![0, then]);
    }
}
