//! PlacementPolicies: pods that are denied, held, warned about, or exempt.

use api::placement::PlacementPolicy;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::wait_until;

use crate::images::Images;
use crate::stage::{Stage, WAIT_TIMEOUT, gates, pod, why};

/// The condition of a pod that is or was held.
fn condition(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let mut found = conditions
        .iter()
        .filter(|it| it.type_ == "medley.dev/Placed");
    found.next().map(|it| it.status.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn unschedulable_pod_is_denied_or_held_with_reason() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    let image = images.name("mainframe");
    let sentence = format!(
        "image {image} of container \"app\" is for linux/s390x; the nodes are linux/amd64 (2), linux/arm64 (2), windows(10.0.17763)/amd64 (1), windows(10.0.20348)/amd64 (1); add such a node, or use an image that is for one of the nodes"
    );
    // The first pod is admitted before its platforms are known. It is not deleted, but held.
    stage
        .policy("default", json!({ "onNoMatch": "Reject" }))
        .await?;
    wait_until("it is held", WAIT_TIMEOUT, async || {
        let probe = stage.make(&pod("z", &image, &json!({})), false).await?;
        Ok((probe.code == 201).then_some(()))
    })
    .await?;
    let held = stage
        .until("z", "is held", |pod| {
            why(pod) == format!("NoMatchingNode: {sentence}")
        })
        .await?;
    assert_eq!(gates(&held), ["medley.dev/placement"]);
    assert_eq!(stage.wait_for_event("z", "NoMatchingNode").await?, sentence);
    let held = stage
        .until("z", "says so", |pod| condition(pod).is_some())
        .await?;
    assert_eq!(condition(&held).as_deref(), Some("False"));
    // The next one is denied.
    let refused = stage.make(&pod("z2", &image, &json!({})), false).await?;
    assert_eq!(refused.code, 403, "{}", refused.object);
    assert!(
        refused.message().contains(&sentence),
        "{}",
        refused.message()
    );
    let policies: Api<PlacementPolicy> = Api::all(stage.client());
    testkit::until(&policies, "default", "counts it", WAIT_TIMEOUT, |it| {
        let pods = it.status.as_ref().and_then(|status| status.pods);
        pods.is_some_and(|pods| (pods.gated, pods.held) == (0, 1))
    })
    .await?;
    assert!(
        stage
            .metrics()
            .contains("medley_placement_held_pods{reason=\"NoMatchingNode\"} 1"),
        "{}",
        stage.metrics()
    );
    // A suitable node joins, and the pod is released.
    let node = json!({ "metadata": { "name": "z-0", "labels": {
        "kubernetes.io/arch": "s390x", "kubernetes.io/os": "linux",
    } } });
    stage
        .nodes()
        .create(&PostParams::default(), &serde_json::from_value(node)?)
        .await?;
    let goes = stage
        .until("z", "goes", |pod| gates(pod).is_empty())
        .await?;
    assert_eq!(why(&goes), "Placed: its images run on s390x");
    let goes = stage
        .until("z", "says so", |pod| {
            condition(pod).as_deref() == Some("True")
        })
        .await?;
    assert_eq!(condition(&goes).as_deref(), Some("True"));
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_select_warned_and_exempt_pods() -> anyhow::Result<()> {
    let images = Images::start().await?;
    let stage = Stage::new(&[&images.registry.host()]).await?;
    let image = images.name("mainframe");
    // Images are inspected during admission: no pod is gated.
    let labelled = |name: &str, role: &str| {
        let mut pod = pod(name, &image, &json!({}));
        pod["metadata"]["labels"] = json!({ "role": role });
        pod
    };
    let selects = |role: &str, mut spec: Value| {
        spec["podSelector"] = json!({ "matchLabels": { "role": role } });
        spec["onMiss"] = json!("Sync");
        spec["timeouts"] = json!({ "syncMilliseconds": 8000 });
        spec
    };
    for (role, spec) in [
        ("refused", json!({ "onNoMatch": "Reject", "priority": 9 })),
        ("warned", json!({ "mode": "Warn" })),
        ("audited", json!({ "mode": "Audit" })),
        ("let-in", json!({ "onNoMatch": "Warn" })),
    ] {
        stage.policy(role, selects(role, spec)).await?;
    }
    let asked = wait_until("the policies count", WAIT_TIMEOUT, async || {
        let asked = stage.make(&labelled("a", "refused"), true).await?;
        Ok((asked.code == 403).then_some(asked))
    })
    .await?;
    assert!(
        asked.message().contains("is for linux/s390x"),
        "{}",
        asked.message()
    );
    let warned = stage.make(&labelled("b", "warned"), false).await?;
    assert_eq!(warned.code, 201);
    assert!(
        warned
            .warnings
            .iter()
            .any(|it| it.contains("is for linux/s390x")),
        "{:?}",
        warned.warnings
    );
    assert_eq!(
        warned.object["spec"].get("affinity"),
        None,
        "{}",
        warned.object
    );
    let audited = stage.make(&labelled("c", "audited"), true).await?;
    assert_eq!((audited.code, audited.warnings.len()), (201, 0));
    let let_in = stage.make(&labelled("d", "let-in"), false).await?;
    assert_eq!(let_in.code, 201);
    assert!(
        let_in.object["spec"]["affinity"].is_object(),
        "{}",
        let_in.object
    );
    assert!(!let_in.warnings.is_empty());
    stage.wait_for_event("d", "NoMatchingNode").await?;
    // A namespace that opts out.
    let namespaces: Api<Namespace> = Api::all(stage.client());
    let off = json!({ "metadata": { "labels": { "medley.dev/placement": "off" } } });
    let params = PatchParams::default();
    namespaces
        .patch(&stage.namespace, &params, &Patch::Merge(off))
        .await?;
    wait_until("the namespace is left alone", WAIT_TIMEOUT, async || {
        let asked = stage.make(&labelled("e", "refused"), true).await?;
        Ok((asked.code == 201).then_some(()))
    })
    .await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_policies_are_rejected_with_accepted_values() -> anyhow::Result<()> {
    let stage = Stage::idle(&[]).await?;
    for (name, spec, expected) in [
        (
            "default",
            json!({ "mode": "Maybe" }),
            "supported values: \"Place\", \"Warn\", \"Audit\"",
        ),
        (
            "default",
            json!({ "weights": [{ "architecture": "arm64", "weight": 0 }] }),
            "spec.weights[0].weight",
        ),
        (
            "default",
            json!({ "weights": [{ "architecture": "a", "weight": 1 }, { "architecture": "a", "weight": 2 }] }),
            "duplicate entries for key",
        ),
        (
            "team",
            json!({ "failurePolicy": "Fail" }),
            "only the policy 'default' can say it",
        ),
        (
            "default",
            json!({ "podSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } }),
            "In and NotIn need values",
        ),
        (
            "default",
            json!({ "timeouts": { "gateSeconds": 0 } }),
            "spec.timeouts.gateSeconds",
        ),
    ] {
        let policies: Api<PlacementPolicy> = Api::all(stage.client());
        let policy = json!({
            "apiVersion": "medley.dev/v1alpha1", "kind": "PlacementPolicy",
            "metadata": { "name": name }, "spec": spec,
        });
        let params = PatchParams::apply("tests").force();
        let refused = policies.patch(name, &params, &Patch::Apply(policy)).await;
        let Err(kube::Error::Api(status)) = refused else {
            anyhow::bail!("{spec} was taken");
        };
        assert!(status.message.contains(expected), "{}", status.message);
    }
    stage.end().await;
    Ok(())
}
