//! No controller is running, or none that could release a pod: no pod is gated, and none stays gated.

use std::cell::Cell;
use std::time::Duration;

use ::placement::LeaseTiming;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::wait_until;

use crate::images::Images;
use crate::ours::NAMESPACE;
use crate::stage::{ApiResponse, Stage, WAIT_TIMEOUT, gates, node, pod, why};

/// A Lease that is stale within a second.
const SHORT: LeaseTiming = LeaseTiming {
    duration: Duration::from_secs(1),
    renew: Duration::from_millis(200),
};
const GATE: &str = "medley.dev/placement";

impl Stage {
    /// Creates a pod, which has to be admitted without a gate, and with the reason.
    async fn is_admitted_ungated(&self, name: &str, image: &str) -> anyhow::Result<()> {
        let made = self.make(&pod(name, image, &json!({})), false).await?;
        assert_eq!(made.code, 201, "{}", made.message());
        assert_ungated(&made);
        let expected = "no placement controller is running";
        let reason = &made.object["metadata"]["annotations"]["medley.dev/placement-reason"];
        let reason = reason.as_str().unwrap_or_default();
        assert!(
            reason.starts_with("NotGated: ") && reason.contains(expected),
            "{reason}"
        );
        assert!(
            made.warnings.iter().any(|it| it.contains(expected)),
            "{:?}",
            made.warnings
        );
        self.lands(name).await?;
        Ok(())
    }
}

fn assert_ungated(made: &ApiResponse) {
    assert_eq!(
        made.object["spec"].get("schedulingGates"),
        None,
        "{}",
        made.object
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pod_is_gated_before_a_controller_has_run() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::idle_with(&[&images.registry.host()], SHORT).await?;
    stage.start_webhook().await?;
    stage
        .is_admitted_ungated("early", &images.push_unknown("early")?)
        .await?;
    // From the first renewal on, pods are gated; then it is killed for good.
    stage.work().await?;
    let round = Cell::new(0);
    wait_until("pods are gated", WAIT_TIMEOUT, async || {
        // Another one each time: the webhook knows an image that it has been asked about.
        round.set(round.get() + 1);
        let image = images.push_unknown(&format!("before-{}", round.get()))?;
        let asked = stage.make(&pod("probe", &image, &json!({})), true).await?;
        Ok((asked.object["spec"]["schedulingGates"].is_array()).then_some(()))
    })
    .await?;
    stage.crash();
    let round = Cell::new(0);
    wait_until("pods are not gated any more", WAIT_TIMEOUT, async || {
        round.set(round.get() + 1);
        let image = images.push_unknown(&format!("after-{}", round.get()))?;
        let asked = stage.make(&pod("probe", &image, &json!({})), true).await?;
        Ok((asked.object["spec"]["schedulingGates"].is_null()).then_some(()))
    })
    .await?;
    stage
        .is_admitted_ungated("late", &images.push_unknown("late")?)
        .await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_releases_pods_of_a_controller_that_is_gone() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::idle_with(&[&images.registry.host()], SHORT).await?;
    stage.work().await?;
    stage.start_webhook().await?;
    stage
        .policy("default", json!({ "onNoMatch": "Hold" }))
        .await?;
    // Held by the controller: no node runs it.
    stage
        .pod("mainframe", &images.name("mainframe"), json!({}))
        .await?;
    stage
        .until("mainframe", "is held", |pod| {
            why(pod).starts_with("NoMatchingNode: ")
        })
        .await?;
    stage.crash();
    // Gated after the controller was killed, while its Lease is fresh. It has a gate of another controller as well.
    let other = json!({ "schedulingGates": [{ "name": "example.com/quota" }] });
    let arm = images.push_unknown("new")?;
    let waiting = stage.pod("arm", &arm, json!({})).await?;
    assert_eq!(gates(&waiting), [GATE]);
    let both = stage.pod("both", &arm, other).await?;
    let was_gated = gates(&both).contains(&GATE.to_owned());
    // Each is released, to nodes that run its image.
    assert!(stage.lands("arm").await?.starts_with("arm-"));
    let message = stage.wait_for_event("arm", "Placed").await?;
    assert!(
        message.ends_with("released because no placement controller is running"),
        "{message}"
    );
    let both = stage
        .until("both", "is released", |pod| {
            gates(pod) == ["example.com/quota"]
        })
        .await?;
    assert!(was_gated || why(&both).starts_with("Placed: "));
    let restricted = |pod: &Pod| {
        gates(pod).is_empty() && pod.spec.as_ref().is_some_and(|it| it.affinity.is_some())
    };
    let mainframe = stage
        .until("mainframe", "waits for the scheduler", restricted)
        .await?;
    assert_eq!(node(&mainframe), None);
    stage.end().await;
    Ok(())
}

/// The registry is gone as well: nothing can be inspected, and the pod starts where it may.
#[tokio::test(flavor = "multi_thread")]
async fn webhook_releases_pods_whose_images_nobody_can_inspect() -> anyhow::Result<()> {
    let mut images = Images::start().await?;
    let stage = Stage::idle_with(&[&images.registry.host()], SHORT).await?;
    stage.work().await?;
    stage.start_webhook().await?;
    let arm = images.push_unknown("new")?;
    images.registry.kill();
    stage.crash();
    let waiting = stage.pod("arm", &arm, json!({})).await?;
    assert_eq!(gates(&waiting), [GATE]);
    stage.lands("arm").await?;
    stage.end().await;
    Ok(())
}

/// Uninstalled in the wrong order: the permissions first.
#[tokio::test(flavor = "multi_thread")]
async fn controller_that_may_not_release_pods_has_none_gated() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::idle_with(&[&images.registry.host()], SHORT).await?;
    stage.work().await?;
    stage.rest().await;
    // The rules of the controller, but for the one to patch pods.
    let mut rules = placement::roles::operator_rules();
    rules.extend(placement::roles::pull_secret_rules());
    for rule in &mut rules {
        if rule.resources.as_deref() == Some(&["pods".to_owned()]) {
            rule.verbs.retain(|verb| verb != "patch");
        }
    }
    let user = format!("system:serviceaccount:{NAMESPACE}:{}", controllers::ACCOUNT);
    stage
        .grant_cluster_wide(controllers::ACCOUNT, &rules)
        .await?;
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let client = stage.cluster.client_as(&user, &groups)?;
    stage.work_as(client).await?;
    stage.start_webhook_beside(false).await?;
    stage
        .is_admitted_ungated("web", &images.push_unknown("web")?)
        .await?;
    stage.end().await;
    Ok(())
}

/// Uninstalled in the wrong order: the Lease, or the namespace with it.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_lease_ends_gating_until_it_is_renewed() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::idle_with(&[&images.registry.host()], SHORT).await?;
    stage.work().await?;
    stage.start_webhook().await?;
    stage.crash();
    let leases: Api<Lease> = Api::namespaced(stage.client(), NAMESPACE);
    leases
        .delete(placement::LEASE, &DeleteParams::default())
        .await?;
    wait_until("no pod is gated", WAIT_TIMEOUT, async || {
        let image = images.name("arm");
        let asked = stage.make(&pod("probe", &image, &json!({})), true).await?;
        Ok((asked.object["spec"]["schedulingGates"].is_null()).then_some(()))
    })
    .await?;
    stage.end().await;
    Ok(())
}

fn agent(image: &str) -> Value {
    pod(
        "agent",
        image,
        &json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["amd-0"] }] },
            ] },
        } } }),
    )
}

/// A pod of a DaemonSet may be what its node, or the registry, needs to work.
#[tokio::test(flavor = "multi_thread")]
async fn pod_for_one_node_does_not_wait_for_a_registry() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    let made = stage
        .make(&agent(&images.push_unknown("a")?), false)
        .await?;
    assert_eq!(made.code, 201, "{}", made.message());
    assert_ungated(&made);
    // Another pod of the same image is gated.
    let image = images.push_unknown("b")?;
    let made = stage.make(&pod("web", &image, &json!({})), false).await?;
    assert!(made.object["spec"]["schedulingGates"].is_array());
    stage.lands("web").await?;
    stage.end().await;
    Ok(())
}
