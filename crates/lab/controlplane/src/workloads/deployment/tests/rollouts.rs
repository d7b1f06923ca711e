//! Whole rollouts, in a world where ReplicaSets do what they are told.

use proptest::prelude::*;
use serde_json::json;

use super::{World, deployment};
use crate::workloads::deployment::sets::replicas;
use crate::workloads::deployment::wanted::Wanted;

/// How many pods a plan asks for, of the sets there are and the one to come.
fn planned(world: &World) -> i32 {
    let mut after = World::new(world.deployment.clone());
    after.sets.clone_from(&world.sets);
    after.busy.clone_from(&world.busy);
    after.apply(world.plan());
    after.sizes().iter().sum()
}

#[test]
fn a_first_rollout_creates_one_set() {
    let mut world = World::new(deployment(&json!({})));
    world.run();
    assert_eq!(world.sizes(), [3]);
    let status = serde_json::to_value(&world.deployment.status).unwrap();
    assert_eq!(status["replicas"], 3);
    assert_eq!(status["updatedReplicas"], 3);
    assert_eq!(status["availableReplicas"], 3);
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status.get("unavailableReplicas"), None);
    let name = world.sets[0].metadata.name.as_deref().unwrap();
    assert_eq!(
        world.condition("Progressing").unwrap(),
        (
            "True".to_owned(),
            "NewReplicaSetAvailable".to_owned(),
            format!("ReplicaSet \"{name}\" has successfully progressed."),
        )
    );
    assert_eq!(
        world.condition("Available").unwrap().1,
        "MinimumReplicasAvailable"
    );
}

#[test]
fn a_second_template_gets_a_second_set_and_a_rollback_finds_the_first() {
    let mut world = World::new(deployment(&json!({})));
    world.run();
    world.set_image("two");
    world.run();
    assert_eq!(world.sizes(), [0, 3]);
    let revision = |world: &World, set: usize| {
        let annotations = world.sets[set].metadata.annotations.clone().unwrap();
        (
            annotations["deployment.kubernetes.io/revision"].clone(),
            annotations
                .get("deployment.kubernetes.io/revision-history")
                .cloned(),
        )
    };
    assert_eq!(revision(&world, 1), ("2".to_owned(), None));
    world.set_image("one");
    world.run();
    assert_eq!(world.sizes(), [3, 0]);
    assert_eq!(revision(&world, 0), ("3".to_owned(), Some("1".to_owned())));
    let annotations = world.deployment.metadata.annotations.unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
}

#[test]
fn old_pods_end_before_recreated_ones_come() {
    let mut world = World::new(deployment(
        &json!({ "/spec/strategy": { "type": "Recreate" } }),
    ));
    world.run();
    world.set_image("two");
    let plan = world.plan();
    assert_eq!(plan.create, None);
    world.apply(plan);
    assert_eq!(world.sizes(), [0]);
    world.settle(|_, there| there);
    // The set has no pods any more, but one is still ending.
    world.busy.extend(world.sets[0].metadata.uid.clone());
    let plan = world.plan();
    assert_eq!(plan.create, None);
    world.apply(plan);
    world.busy.clear();
    world.run();
    assert_eq!(world.sizes(), [0, 3]);
}

#[test]
fn paused_deployments_only_scale() {
    let mut world = World::new(deployment(&json!({})));
    world.run();
    world.change(|object| object["spec"]["paused"] = json!(true));
    world.set_image("two");
    world.run();
    assert_eq!(world.sizes(), [3]);
    assert_eq!(
        world.condition("Progressing").unwrap(),
        (
            "Unknown".to_owned(),
            "DeploymentPaused".to_owned(),
            "Deployment is paused".to_owned()
        )
    );
    world.change(|object| object["spec"]["replicas"] = json!(5));
    world.run();
    assert_eq!(world.sizes(), [5]);
    world.change(|object| object["spec"]["paused"] = json!(false));
    world.apply(world.plan());
    world.run();
    assert_eq!(world.sizes(), [0, 5]);
}

#[test]
fn old_sets_beyond_the_limit_go_the_oldest_first() {
    let mut world = World::new(deployment(&json!({ "/spec/revisionHistoryLimit": 2 })));
    for image in ["one", "two", "three", "four", "five"] {
        world.set_image(image);
        world.run();
    }
    let revisions: Vec<String> = world
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
    /// However slowly pods become available, there are never more than allowed, nothing available is
    /// taken below what has to be there, and in the end all pods are new.
    #[test]
    fn rollouts_stay_within_bounds_and_end(
        count in 1i32..12,
        surge in 0i32..4,
        unavailable in 0i32..4,
        pace in prop::collection::vec((0i32..12, 0i32..12), 20),
    ) {
        let mut world = World::new(deployment(&json!({
            "/spec/replicas": count,
            "/spec/strategy/rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable },
        })));
        world.run();
        world.set_image("two");
        let wanted = Wanted::of(&world.deployment).unwrap();
        for (old, new) in pace {
            world.settle(|set, there| there.min(if set == 0 { count.max(old) } else { new }));
            prop_assert!(planned(&world) <= wanted.most());
            let there: i32 = world.sets.iter().map(|set| {
                set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
            }).sum();
            world.apply(world.plan());
            let left: i32 = world.sets.iter().map(|set| {
                let available = set.status.as_ref().and_then(|status| status.available_replicas);
                available.unwrap_or(0).min(replicas(set))
            }).sum();
            prop_assert!(left >= there.min(wanted.min_available()));
        }
        world.run();
        prop_assert_eq!(world.sizes(), vec![0, count]);
    }

    /// A deployment resized in the middle of a rollout gets there all the same.
    #[test]
    fn resized_rollouts_end(count in 1i32..12, then in 0i32..20, steps in 0usize..6) {
        let mut world = World::new(deployment(&json!({ "/spec/replicas": count })));
        world.run();
        world.set_image("two");
        for _ in 0..steps {
            world.settle(|_, there| there);
            world.apply(world.plan());
        }
        world.change(|object| object["spec"]["replicas"] = json!(then));
        world.run();
        prop_assert_eq!(world.sizes(), vec![0, then]);
    }
}
