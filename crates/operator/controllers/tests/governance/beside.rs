//! Beside the prototype's own operator, and other controllers of the targets.

use api::advisor::Phase;
use governance::prototype::OPERATOR;
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use testkit::wait_until;

use crate::rivals::scale;
use crate::stage::{LOAD_AWARE, Stage, WAIT_TIMEOUT, condition};
use fleet::operators::{DeschedulerRelease, HyperConvergedVersion, Installed};

const PROTOTYPE: (&str, &str) = ("openshift-cnv", OPERATOR.deployment);

fn installed() -> Installed {
    Installed {
        descheduler: Some(DeschedulerRelease::V5_32),
        hyperconverged: Some(HyperConvergedVersion::V1Beta1),
        ..Installed::demo()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_of_the_prototype_are_not_written() -> anyhow::Result<()> {
    let stage = Stage::with(installed()).await?;
    let client = stage.cluster.client();
    scale(&client, PROTOTYPE, 1).await?;
    stage.operator("v0.1.30").await?;
    // Nothing is advertised, and what the prototype has created is left to it.
    assert_eq!(
        stage.configs().list(&ListParams::default()).await?.items,
        []
    );
    let config = serde_json::from_value(json!({
        "apiVersion": "advisor.kubevirt.io/v1alpha1", "kind": "VirtPlatformConfig",
        "metadata": { "name": LOAD_AWARE }, "spec": { "profile": LOAD_AWARE, "action": "DryRun" },
    }))?;
    stage
        .configs()
        .create(&PostParams::default(), &config)
        .await?;
    let events: Api<Event> = Api::all(client.clone());
    let message = wait_until("an event says so", WAIT_TIMEOUT, async || {
        let events = events.list(&ListParams::default()).await?.items;
        let mut events = events.into_iter();
        let found = events.find(|it| it.reason.as_deref() == Some("UpstreamOperatorRuns"));
        Ok(found.and_then(|it| it.message))
    })
    .await?;
    assert!(
        message.contains(
            "scale Deployment openshift-cnv/virt-advisor-operator-controller-manager to 0"
        ),
        "{message}"
    );
    assert_eq!(stage.config(LOAD_AWARE).await?.status, None);

    // It stops: no restart is needed. It starts again in the middle of a plan.
    scale(&client, PROTOTYPE, 0).await?;
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let all = stage.configs().list(&ListParams::default()).await?.items;
    assert!(all.len() > 1, "profiles are advertised");
    scale(&client, PROTOTYPE, 1).await?;
    let events_of = async || {
        let events = events.list(&ListParams::default()).await?.items;
        let of = events.iter().filter(|it| {
            it.reason.as_deref() == Some("UpstreamOperatorRuns")
                && it.involved_object.name.as_deref() != Some(LOAD_AWARE)
        });
        anyhow::Ok(of.count())
    };
    wait_until("all configurations are left", WAIT_TIMEOUT, async || {
        Ok((events_of().await? > 0).then_some(()))
    })
    .await?;
    let before = stage.config(LOAD_AWARE).await?.resource_version();
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage.stop().await;
    let after = stage.config(LOAD_AWARE).await?;
    assert_ne!(before, after.resource_version());
    let status = after.status.unwrap_or_default();
    assert_eq!(status.phase, Some(Phase::ReviewRequired));
    assert_ne!(status.observed_generation, after.metadata.generation);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_names_the_controller_that_would_revert_it() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage
        .create_descheduler(
            "virt-platform-autopilot",
            json!({ "deschedulingIntervalSeconds": 30, "managementState": "Managed", "profiles": ["LongLifecycle"] }),
        )
        .await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    let (is, reason, message) = condition(&status, "Contested");
    assert_eq!((is.as_str(), reason.as_str()), ("True", "OtherController"));
    for text in [
        "/cluster is managed by the virt-platform-autopilot, which sets ",
        "spec.deschedulingIntervalSeconds",
        "platform.kubevirt.io/management-state=Unmanaged",
    ] {
        assert!(message.contains(text), "{message}");
    }
    assert!(status.warnings.contains(&message), "{:?}", status.warnings);

    // What the message asks for ends it.
    let annotation = json!({ "metadata": { "annotations": {
        "platform.kubevirt.io/management-state": "Unmanaged",
    } } });
    stage
        .deschedulers()
        .patch(
            "cluster",
            &PatchParams::default(),
            &Patch::Merge(annotation),
        )
        .await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "Ignore" }))
        .await?;
    stage.reaches(LOAD_AWARE, Phase::Ignored).await?;
    stage
        .edit(LOAD_AWARE, json!({ "action": "DryRun" }))
        .await?;
    let status = stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    assert_ne!(condition(&status, "Contested").0, "True");
    Ok(())
}
