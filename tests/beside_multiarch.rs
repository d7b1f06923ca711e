//! Placement beside the genuine multiarch-tuning-operator: one of both gates a pod and lifts the gate.

#[path = "beside/fixture.rs"]
mod fixture;
#[path = "beside/multiarch/story.rs"]
mod story;
#[path = "beside/multiarch/tuning.rs"]
mod tuning;

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ApiResource;
use serde_json::json;
use testkit::peer_version;
use testkit::recording::{Recorder, Subject};

use fixture::WAIT_TIMEOUT;
use story::{EXCLUDED, OUR_GATE, SHOP, Story, THEIR_GATE, architectures, gates};

/// What the multiarch-tuning-operator writes on the pods of
/// [`tuning_alone_gates_lifts_and_writes_what_is_recorded`].
const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../tests/beside/multiarch/pods.json"
);

/// Pods of these images, and the architectures that they all are for.
const PODS: [(&str, &[&str], &[&str]); 4] = [
    ("both", &["apps/both:1"], &["amd64", "arm64"]),
    ("arm", &["apps/arm:1"], &["arm64"]),
    ("attested", &["apps/attested:1"], &["arm64", "s390x"]),
    (
        "sidecar",
        &["apps/more:1", "apps/attested:1"],
        &["arm64", "s390x"],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn tuning_alone_gates_lifts_and_writes_what_is_recorded() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    let subject = Subject::new([ApiResource::erase::<Pod>(&())])
        .played_by(&["administrator", "kube-controller-manager"])
        .replacing(&story.registry(), "<registry>");
    story.install_tuning().await?;
    let recorder = Recorder::start(story.beside.cluster.client(), subject);
    for (name, images, expected) in PODS {
        let admitted = story.create(SHOP, name, images).await?;
        assert_eq!(gates(&admitted), [THEIR_GATE], "{name}");
        // The labels are in the request of the pod's creator, so that the recording does not have them.
        assert_eq!(
            json!(admitted.labels()),
            json!({
                "multiarch.openshift.io/node-affinity": "not-set",
                "multiarch.openshift.io/scheduling-gate": "gated",
            })
        );
        let lifted = story.lifted(SHOP, name).await?;
        assert_eq!(architectures(&lifted), expected.iter().copied().collect());
    }
    recorder.step("pods with architectures in common").await?;
    story
        .events(
            "both",
            &[
                (
                    "ArchAwareSchedGateAdded",
                    "Successfully gated with the multiarch.openshift.io/scheduling-gate scheduling gate",
                ),
                (
                    "ArchAwarePredicateSet",
                    "Set the supported architectures to {amd64, arm64}",
                ),
                (
                    "ArchAwareSchedGateRemovalSuccess",
                    "Successfully removed the multiarch.openshift.io/scheduling-gate scheduling gate",
                ),
            ],
        )
        .await?;

    // No architecture is common, or the registry has no such image.
    story
        .create(SHOP, "never", &["apps/arm:1", "apps/amd:1"])
        .await?;
    story.lifted(SHOP, "never").await?;
    story.create(SHOP, "missing", &["apps/none:1"]).await?;
    story.lifted(SHOP, "missing").await?;
    recorder
        .step("pods that fit nowhere, or are unknown")
        .await?;
    recorder
        .finish()
        .assert_recorded(Path::new(RECORDING), &peer_version(tuning::PROGRAM)?)?;
    Ok(())
}

/// Both write the same architectures; Medley also writes the operating system.
#[tokio::test(flavor = "multi_thread")]
async fn medley_alone_agrees_about_architectures() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.install_medley().await?;
    for (name, images, expected) in PODS {
        let admitted = story.create(SHOP, name, images).await?;
        // No gate if the images of a pod before were the same.
        assert!(!gates(&admitted).contains(&THEIR_GATE), "{name}");
        let lifted = story.lifted(SHOP, name).await?;
        assert_eq!(architectures(&lifted), expected.iter().copied().collect());
    }
    story.uninstall_medley().await
}

#[tokio::test(flavor = "multi_thread")]
async fn medley_leaves_pods_to_tuning_until_it_is_uninstalled() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.install_medley().await?;
    let before = story.create(SHOP, "before", &["apps/both:1"]).await?;
    assert_eq!(gates(&before), [OUR_GATE]);
    story.install_tuning().await?;
    one_of_both_places_each_pod(&story).await?;

    // A pod waits while the operator is uninstalled.
    story.tuning.stop_controller();
    let late = story.create(SHOP, "late", &["apps/both:1"]).await?;
    assert_eq!(gates(&late), [THEIR_GATE]);
    story.tuning.start_controller(&story.beside)?;
    story.uninstall_tuning().await?;
    story.nothing_gated().await?;

    story
        .admission(SHOP, |pod| gates(pod) == [OUR_GATE])
        .await?;
    story.create(SHOP, "after", &["apps/arm:1"]).await?;
    let after = story.lifted(SHOP, "after").await?;
    assert_eq!(architectures(&after), BTreeSet::from(["arm64"]));
    story.uninstall_medley().await
}

#[tokio::test(flavor = "multi_thread")]
async fn tuning_places_pods_when_medley_comes_and_goes() -> anyhow::Result<()> {
    let mut story = Story::start().await?;
    story.install_tuning().await?;
    story.install_medley().await?;
    one_of_both_places_each_pod(&story).await?;

    // Killed: the API server ignores that its webhook does not answer.
    story.kill_medley();
    story.create(EXCLUDED, "alone", &["apps/arm:1"]).await?;
    let admitted = story.create(SHOP, "alone", &["apps/arm:1"]).await?;
    assert_eq!(gates(&admitted), [THEIR_GATE]);
    story.nothing_gated().await?;

    story.install_medley().await?;
    story.create(EXCLUDED, "again", &["apps/more:1"]).await?;
    story.uninstall_medley().await?;
    story.nothing_gated().await?;
    let admitted = story.create(SHOP, "last", &["apps/arm:1"]).await?;
    assert_eq!(gates(&admitted), [THEIR_GATE]);
    story.lifted(SHOP, "last").await?;
    Ok(())
}

/// While both run, the multiarch-tuning-operator places the pods of the namespaces that it selects, and Medley those of
/// others, with the same result.
async fn one_of_both_places_each_pod(story: &Story) -> anyhow::Result<()> {
    story
        .admission(SHOP, |pod| gates(pod) == [THEIR_GATE])
        .await?;
    for (name, images, expected) in PODS {
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let admitted = story.create(SHOP, name, images).await?;
        assert_eq!(gates(&admitted), [THEIR_GATE], "{name}");
        let lifted = story.lifted(SHOP, name).await?;
        assert_eq!(architectures(&lifted), expected, "{name}");
        let ours = lifted
            .annotations()
            .keys()
            .find(|key| key.contains("medley.dev"));
        assert_eq!(ours, None, "{name}");

        let admitted = story.create(EXCLUDED, name, images).await?;
        assert!(!gates(&admitted).contains(&THEIR_GATE), "{name}");
        let lifted = story.lifted(EXCLUDED, name).await?;
        assert_eq!(architectures(&lifted), expected, "{name}");
    }
    let output = story.beside.medley(&[
        "place",
        "explain",
        "both",
        "--namespace",
        SHOP,
        "--insecure",
        &story.registry(),
    ])?;
    let explanation = output.ok()?;
    assert!(
        explanation.starts_with("LeftAlone: the multiarch-tuning-operator places pods"),
        "{explanation}"
    );
    daemon_set_is_not_gated_by_tuning(story).await?;
    story.nothing_gated().await
}

/// The multiarch-tuning-operator leaves pods of DaemonSets alone, and Medley looks at them all the same.
async fn daemon_set_is_not_gated_by_tuning(story: &Story) -> anyhow::Result<()> {
    let labels = json!({ "app": "agent" });
    story
        .beside
        .apply(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "agent", "namespace": SHOP },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "agent", "image": story.image("apps/both:1") }] },
                },
            },
        }))
        .await?;
    let pods = story.pods(SHOP);
    let params = kube::api::ListParams::default().labels("app=agent");
    let agents = testkit::wait_until("a pod on each node", WAIT_TIMEOUT, || async {
        let agents = pods.list(&params).await?.items;
        Ok((agents.len() == 2).then_some(agents))
    })
    .await?;
    for agent in agents {
        let labels = agent.labels();
        assert_eq!(
            labels["multiarch.openshift.io/scheduling-gate"], "not-set",
            "{labels:?}"
        );
    }
    Ok(())
}
