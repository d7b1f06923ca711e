//! Rollouts end to end.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::stage::{Stage, WAIT_TIMEOUT, deployment, images, revision, say_running};

fn condition(deployment: &Deployment, kind: &str) -> Option<(String, String)> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone()?))
}

#[tokio::test]
async fn rolls_out_updates_and_rolls_back() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    stage.create::<Deployment>(deployment("web", 3)).await?;
    let first = stage.rolled_out("web").await?;
    assert_eq!(revision(&first), "1");
    let sets = stage.sets().await?;
    assert_eq!(sets.len(), 1);
    let old = sets[0].name_any();
    let hash = &sets[0].labels()["pod-template-hash"];
    assert_eq!(old, format!("web-{hash}"));
    let pods = stage.until_pods(3).await?;
    for pod in &pods {
        assert!(pod.name_any().starts_with(&format!("{old}-")));
        let owner = &pod.owner_references()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.name.as_str()),
            ("ReplicaSet", old.as_str())
        );
        assert_eq!(
            (owner.controller, owner.block_owner_deletion),
            (Some(true), Some(true))
        );
    }
    let scaled = format!("Scaled up replica set {old} from 0 to 3");
    stage
        .until_event("web", "ScalingReplicaSet", &scaled)
        .await?;
    stage
        .until_event(&old, "SuccessfulCreate", "Created pod: web-")
        .await?;

    let image = |image: &str| {
        json!({ "spec": { "template": { "spec": { "containers": [
            { "name": "main", "image": image }
        ]}}}})
    };
    stage
        .patch::<Deployment>("web", image("example.com/web:2"))
        .await?;
    let second = stage.rolled_out("web").await?;
    assert_eq!(revision(&second), "2");
    let pods = stage.until_pods(3).await?;
    assert_eq!(images(&pods), ["example.com/web:2"; 3]);
    stage
        .until_event(&old, "SuccessfulDelete", "Deleted pod: web-")
        .await?;
    stage
        .until("the rollout is complete", "web", |it: &Deployment| {
            condition(it, "Progressing")
                == Some(("True".to_owned(), "NewReplicaSetAvailable".to_owned()))
        })
        .await?;

    stage
        .patch::<Deployment>("web", image("example.com/web:1"))
        .await?;
    let third = stage.rolled_out("web").await?;
    assert_eq!(revision(&third), "3");
    let sets = stage.sets().await?;
    assert_eq!(sets.len(), 2, "the set of the first template is used again");
    assert_eq!(sets[1].name_any(), old);
    let history = &sets[1].annotations()["deployment.kubernetes.io/revision-history"];
    assert_eq!(history, "1");
    Ok(())
}

#[tokio::test]
async fn scales_and_pauses() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    stage.create::<Deployment>(deployment("web", 2)).await?;
    stage.rolled_out("web").await?;
    stage
        .patch::<Deployment>("web", json!({ "spec": { "replicas": 5 } }))
        .await?;
    stage.rolled_out("web").await?;
    stage.until_pods(5).await?;
    stage
        .patch::<Deployment>("web", json!({ "spec": { "replicas": 1 } }))
        .await?;
    stage.rolled_out("web").await?;
    stage.until_pods(1).await?;

    let changes = json!({ "spec": { "paused": true, "template": { "metadata": { "labels": {
        "app": "web", "new": "yes"
    }}}}});
    stage.patch::<Deployment>("web", changes).await?;
    stage
        .until("it is paused", "web", |it: &Deployment| {
            condition(it, "Progressing")
                == Some(("Unknown".to_owned(), "DeploymentPaused".to_owned()))
                && it.status.as_ref().and_then(|it| it.observed_generation)
                    == it.metadata.generation
        })
        .await?;
    assert_eq!(stage.sets().await?.len(), 1);
    stage
        .patch::<Deployment>("web", json!({ "spec": { "paused": false } }))
        .await?;
    stage.rolled_out("web").await?;
    assert_eq!(stage.sets().await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn recreates() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    let mut object = deployment("web", 2);
    object["spec"]["strategy"] = json!({ "type": "Recreate" });
    stage.create::<Deployment>(object).await?;
    stage.rolled_out("web").await?;
    // A pod that terminates slowly.
    let slow = stage.until_pods(2).await?[0].name_any();
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/slow"] } });
    stage.patch::<Pod>(&slow, finalizers).await?;
    let changes = json!({ "spec": { "template": { "metadata": { "labels": {
        "app": "web", "new": "yes"
    }}}}});
    stage.patch::<Deployment>("web", changes).await?;
    let old = stage.sets().await?[0].name_any();
    stage
        .until("the old set is empty", &old, |it: &ReplicaSet| {
            it.status.as_ref().is_some_and(|status| {
                status.replicas == 0 && status.terminating_replicas == Some(1)
            })
        })
        .await?;
    stage
        .until("the deployment has seen it", "web", |it: &Deployment| {
            it.status.as_ref().is_some_and(|status| {
                status.replicas.is_none() && status.terminating_replicas == Some(1)
            })
        })
        .await?;
    assert_eq!(
        stage.sets().await?.len(),
        1,
        "nothing new while an old pod is ending"
    );
    stage
        .patch::<Pod>(&slow, json!({ "metadata": { "finalizers": null } }))
        .await?;
    stage.rolled_out("web").await?;
    assert_eq!(stage.sets().await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn old_revisions_are_deleted() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    let mut object = deployment("web", 1);
    object["spec"]["revisionHistoryLimit"] = json!(1);
    stage.create::<Deployment>(object).await?;
    for number in 1..4 {
        stage.rolled_out("web").await?;
        let labels = json!({ "app": "web", "number": number.to_string() });
        let changes = json!({ "spec": { "template": { "metadata": { "labels": labels } } } });
        stage.patch::<Deployment>("web", changes).await?;
    }
    stage.rolled_out("web").await?;
    let kept = testkit::wait_until("old sets are gone", WAIT_TIMEOUT, || async {
        Ok(Some(stage.sets().await?).filter(|sets| sets.len() == 2))
    })
    .await?;
    assert_eq!(kept.iter().map(revision).collect::<Vec<_>>(), ["3", "4"]);
    Ok(())
}

#[tokio::test]
async fn pod_creation_failure_is_reported() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let mut object = deployment("web", 2);
    object["spec"]["template"]["spec"]["priorityClassName"] = json!("nowhere");
    stage.create::<Deployment>(object).await?;
    let failed = stage
        .until("the failure is passed on", "web", |it: &Deployment| {
            condition(it, "ReplicaFailure").is_some()
        })
        .await?;
    assert_eq!(
        condition(&failed, "ReplicaFailure"),
        Some(("True".to_owned(), "FailedCreate".to_owned()))
    );
    let set = stage.sets().await?[0].clone();
    let expected_message = format!("Error creating: pods \"{}-", set.name_any());
    let expected_message = expected_message.as_str();
    let event = stage
        .until_event(&set.name_any(), "FailedCreate", expected_message)
        .await?;
    assert!(
        event
            .message
            .is_some_and(|it| it.contains("no PriorityClass with name nowhere was found"))
    );
    Ok(())
}

#[tokio::test]
async fn scale_down_deletes_the_least_useful_pods() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    stage.create::<ReplicaSet>(deployment("web", 4)).await?;
    let pods = stage.until_pods(4).await?;
    let names: Vec<String> = pods.iter().map(kube::ResourceExt::name_any).collect();
    let api = stage.api::<Pod>();
    // The first stays pending; of the ready ones the third has the lowest deletion cost, the last
    // the highest.
    for (name, cost) in names.iter().zip([0, 5, -5, 50]).skip(1) {
        say_running(&api, name).await?;
        let cost = json!({ "metadata": { "annotations": {
            "controller.kubernetes.io/pod-deletion-cost": cost.to_string()
        }}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(&cost))
            .await?;
    }
    stage
        .until("three are ready", "web", |it: &ReplicaSet| {
            it.status
                .as_ref()
                .is_some_and(|status| status.ready_replicas == Some(3))
        })
        .await?;
    for left in (1..4).rev() {
        stage
            .patch::<ReplicaSet>("web", json!({ "spec": { "replicas": left } }))
            .await?;
        let pods = stage.until_pods(left).await?;
        let mut expected = match left {
            3 => vec![&names[1], &names[2], &names[3]],
            2 => vec![&names[1], &names[3]],
            _ => vec![&names[3]],
        };
        expected.sort();
        let there: Vec<String> = pods.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(there.iter().collect::<Vec<_>>(), expected);
    }
    Ok(())
}

#[tokio::test]
async fn pods_have_to_stay_ready() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    let mut object = deployment("web", 1);
    object["spec"]["minReadySeconds"] = json!(2);
    stage.create::<ReplicaSet>(object).await?;
    let ready = stage
        .until("the pod is ready", "web", |it: &ReplicaSet| {
            it.status
                .as_ref()
                .is_some_and(|status| status.ready_replicas == Some(1))
        })
        .await?;
    assert_eq!(
        ready.status.and_then(|status| status.available_replicas),
        None
    );
    stage
        .until("the pod is available", "web", |it: &ReplicaSet| {
            it.status
                .as_ref()
                .is_some_and(|status| status.available_replicas == Some(1))
        })
        .await?;
    Ok(())
}

/// Controllers that are killed at any point are resumed by new ones, and nothing is created twice.
#[tokio::test]
async fn rollout_resumes_after_crashes() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    stage.create::<Deployment>(deployment("web", 6)).await?;
    for number in 2..8 {
        let labels = json!({ "app": "web", "number": number.to_string() });
        let changes = json!({ "spec": { "template": { "metadata": { "labels": labels } } } });
        stage.patch::<Deployment>("web", changes).await?;
        // Killed at another point each time: after this number of pod changes.
        let seen = number % 5;
        testkit::wait_until("the rollout is under way", WAIT_TIMEOUT, || async {
            let sets = stage.sets().await?;
            let sizes = sets.iter().filter_map(|set| set.spec.as_ref()?.replicas);
            let total: i32 = sizes.sum();
            anyhow::ensure!(
                total <= 8,
                "{total} pods for a deployment of 6 that may have 8"
            );
            let pods = stage.pods().await?;
            let new = pods
                .iter()
                .filter(|pod| pod.labels().get("number") == Some(&number.to_string()));
            Ok((new.count() >= seen).then_some(()))
        })
        .await?;
        stage.kill_controllers();
        stage.start_controllers().await?;
    }
    let done = stage.rolled_out("web").await?;
    let pods = stage.until_pods(6).await?;
    assert!(pods.iter().all(|pod| pod.labels()["number"] == "7"));
    let sets = stage.sets().await?;
    let revisions: Vec<String> = sets.iter().map(revision).collect();
    let mut distinct = revisions.clone();
    distinct.dedup();
    assert_eq!(revisions, distinct);
    assert_eq!(Some(&revision(&done)), revisions.last());
    let with_pods: Vec<_> = sets
        .iter()
        .filter(|set| set.spec.as_ref().and_then(|spec| spec.replicas) != Some(0))
        .collect();
    assert_eq!(with_pods.len(), 1);
    Ok(())
}

/// A blocked rollout keeps its proportions when it is scaled.
#[tokio::test]
async fn scales_in_proportion() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    stage.keep_running();
    stage.create::<Deployment>(deployment("web", 10)).await?;
    stage.rolled_out("web").await?;
    stage.stop_running();
    let labels = json!({ "app": "web", "new": "yes" });
    let changes = json!({ "spec": { "template": { "metadata": { "labels": labels } } } });
    stage.patch::<Deployment>("web", changes).await?;
    let sizes = |expected: [i32; 2]| {
        let stage = &stage;
        async move {
            let what = format!("the sets have {expected:?} pods");
            testkit::wait_until(&what, WAIT_TIMEOUT, || async {
                let sets = stage.sets().await?;
                let size = |set: &ReplicaSet| {
                    let status = set.status.as_ref()?;
                    let wanted = set.spec.as_ref()?.replicas?;
                    (status.replicas == wanted).then_some(wanted)
                };
                let sizes: Vec<Option<i32>> = sets.iter().map(size).collect();
                Ok((sizes == expected.map(Some)).then_some(sets))
            })
            .await
        }
    };
    // 25% of ten: 3 surge (rounded up), 2 unavailable (rounded down).
    sizes([8, 5]).await?;
    stage
        .patch::<Deployment>("web", json!({ "spec": { "replicas": 20 } }))
        .await?;
    let sets = sizes([15, 10]).await?;
    for (set, expected_message) in sets.iter().zip(["8 to 15", "5 to 10"]) {
        let expected_message = format!(
            "Scaled up replica set {} from {expected_message}",
            set.name_any()
        );
        stage
            .until_event("web", "ScalingReplicaSet", &expected_message)
            .await?;
    }
    stage.keep_running();
    stage.rolled_out("web").await?;
    Ok(())
}

#[tokio::test]
async fn progress_deadline_is_reported() -> anyhow::Result<()> {
    let mut stage = Stage::start().await?;
    let mut object = deployment("web", 1);
    object["spec"]["progressDeadlineSeconds"] = json!(2);
    stage.create::<Deployment>(object).await?;
    let late = Some(("False".to_owned(), "ProgressDeadlineExceeded".to_owned()));
    stage
        .until("it is late", "web", |it: &Deployment| {
            condition(it, "Progressing") == late
        })
        .await?;
    stage.keep_running();
    let done = Some(("True".to_owned(), "NewReplicaSetAvailable".to_owned()));
    stage
        .until("it is done", "web", |it: &Deployment| {
            condition(it, "Progressing") == done
        })
        .await?;
    Ok(())
}

/// The name of the new set is derived from the template; another object may have it.
#[tokio::test]
async fn name_collision_uses_another_name() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    stage.create::<Deployment>(deployment("web", 1)).await?;
    stage.until_pods(1).await?;
    let name = stage.sets().await?[0].name_any();
    let background = DeleteParams::background();
    stage.api::<Deployment>().delete("web", &background).await?;
    stage.api::<ReplicaSet>().delete(&name, &background).await?;
    let mut foreign = deployment("foreign", 0);
    foreign["metadata"]["name"] = json!(name);
    testkit::wait_until("the name is free", WAIT_TIMEOUT, || async {
        let there = stage.api::<ReplicaSet>().get_opt(&name).await?;
        Ok(there.is_none().then_some(()))
    })
    .await?;
    stage.create::<ReplicaSet>(foreign).await?;
    stage.create::<Deployment>(deployment("web", 1)).await?;
    let counted = stage
        .until("the collision is counted", "web", |it: &Deployment| {
            it.status
                .as_ref()
                .and_then(|status| status.collision_count)
                .is_some()
        })
        .await?;
    assert_eq!(
        counted.status.and_then(|status| status.collision_count),
        Some(1)
    );
    testkit::wait_until("there is another set", WAIT_TIMEOUT, || async {
        let sets = stage.sets().await?;
        Ok(sets.into_iter().find(|set| set.name_any() != name))
    })
    .await?;
    Ok(())
}
