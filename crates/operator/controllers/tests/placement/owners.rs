//! Pods of all kinds of owners.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};
use testkit::wait_until;

use crate::images::Images;
use crate::stage::{Stage, WAIT_TIMEOUT, gates, node, template, why};

impl Stage {
    /// Waits until this number of pods of an application have a node; returns the nodes.
    async fn land(&self, app: &str, count: usize) -> anyhow::Result<Vec<String>> {
        wait_until(
            &format!("{count} pods of {app}"),
            WAIT_TIMEOUT,
            async || {
                let nodes: Vec<String> = self.of(app).await?.iter().filter_map(node).collect();
                Ok((nodes.len() >= count).then_some(nodes))
            },
        )
        .await
    }

    /// The pods of an application.
    async fn of(&self, app: &str) -> anyhow::Result<Vec<Pod>> {
        let params = ListParams::default().labels(&format!("app={app}"));
        Ok(self.all::<Pod>().list(&params).await?.items)
    }
}

/// The common parts of a workload's manifest.
fn workload(app: &str, image: &str, mut spec: Value) -> Value {
    let labels = json!({ "app": app });
    spec["selector"] = json!({ "matchLabels": labels });
    spec["template"] = json!({ "metadata": { "labels": labels }, "spec": template(image) });
    json!({ "metadata": { "name": app }, "spec": spec })
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_all_owners_land_on_matching_nodes() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    stage
        .policy("default", json!({ "onNoMatch": "Hold" }))
        .await?;
    let arm = images.name("arm");
    let three = json!({ "replicas": 3 });
    stage
        .create::<Deployment>(workload("web", &arm, three.clone()))
        .await?;
    let mut set = three;
    set["serviceName"] = json!("db");
    set["podManagementPolicy"] = json!("Parallel");
    stage
        .create::<StatefulSet>(workload("db", &arm, set))
        .await?;
    let ends = |app: &str| {
        let mut spec = template(&arm);
        spec["restartPolicy"] = json!("Never");
        json!({ "template": { "metadata": { "labels": { "app": app } }, "spec": spec } })
    };
    let job = json!({ "metadata": { "name": "once" }, "spec": ends("once") });
    stage.create::<Job>(job).await?;
    let cron = json!({ "metadata": { "name": "often" }, "spec": {
        "schedule": "* * * * *", "jobTemplate": { "spec": ends("often") },
    } });
    stage.create::<CronJob>(cron).await?;
    for (app, count) in [("web", 3), ("db", 3), ("once", 1)] {
        for node in stage.land(app, count).await? {
            assert!(node.starts_with("arm-"), "{app} is on {node}");
        }
    }
    // A pod of a DaemonSet is bound to one node. Where its image does not run it is held, and an event gives the
    // reason.
    stage
        .create::<DaemonSet>(workload("agent", &arm, json!({})))
        .await?;
    for node in stage.land("agent", 2).await? {
        assert!(node.starts_with("arm-"), "agent is on {node}");
    }
    let held = wait_until("the others wait", WAIT_TIMEOUT, async || {
        let pods = stage.of("agent").await?;
        let held: Vec<Pod> = pods
            .into_iter()
            .filter(|pod| node(pod).is_none() && why(pod).starts_with("NodesExcluded: "))
            .collect();
        Ok((held.len() == 4).then_some(held))
    })
    .await?;
    for pod in &held {
        assert_eq!(gates(pod), ["medley.dev/placement"], "{}", pod.name_any());
    }
    for node in stage.land("often", 1).await? {
        assert!(node.starts_with("arm-"), "often is on {node}");
    }
    stage.end().await;
    Ok(())
}
