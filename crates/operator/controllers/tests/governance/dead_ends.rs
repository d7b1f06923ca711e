//! No dead ends: what fails is tried again, and what cannot be read concerns its own profile only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use api::advisor::{Phase, VirtPlatformConfig, VirtPlatformConfigSpec};
use controllers::governance::history;
use fleet::operators::{DeschedulerRelease, HyperConvergedVersion, Installed};
use governance::record::PlanResult;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;
use testkit::wait_until;

use crate::stage::{DENSITY, LOAD_AWARE, NAMESPACE, Stage, WAIT_TIMEOUT, condition};

const EXAMPLE: &str = "example-profile";
const VIRTUALIZATION: &str = "openshift-cnv";

/// A client whose requests with this method, or any, to paths that contain a text are forbidden while the switch is on.
fn forbidding(
    client: Client,
    method: Option<&'static str>,
    part: &'static str,
) -> (Client, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(true));
    let on = Arc::clone(&switch);
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let matches = method.is_none_or(|method| request.method().as_str() == method)
            && request.uri().path().contains(part);
        let forbidden = matches && on.load(Ordering::SeqCst);
        async move {
            if !forbidden {
                return client.send(request).await;
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": format!("{} is forbidden", request.uri().path()),
            });
            let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
            *answer.status_mut() = StatusCode::FORBIDDEN;
            Ok(answer)
        }
    });
    (Client::new(service, "default"), switch)
}

async fn create_example(stage: &Stage) -> anyhow::Result<()> {
    let spec = VirtPlatformConfigSpec {
        profile: EXAMPLE.to_owned(),
        action: api::advisor::Action::Apply,
        ..VirtPlatformConfigSpec::default()
    };
    let config = VirtPlatformConfig::new(EXAMPLE, spec);
    stage
        .configs()
        .create(&PostParams::default(), &config)
        .await?;
    Ok(())
}

/// Waits until the only entry of the history has this outcome.
async fn ends_as(stage: &Stage, config: &str, expected: PlanResult) -> anyhow::Result<()> {
    wait_until(
        "the entry of the history is closed",
        WAIT_TIMEOUT,
        async || {
            let records = history::records(&stage.cluster.client(), NAMESPACE, config).await?;
            let outcomes: Vec<_> = records
                .iter()
                .map(|record| record.outcome.as_ref().map(|outcome| outcome.result))
                .collect();
            Ok((outcomes == [Some(expected)]).then_some(()))
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_kind_delays_no_other_profile() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage.stop().await;
    let (client, forbidden) = forbidding(stage.cluster.client(), None, "/kubedeschedulers");
    let begun = Instant::now();
    stage.operator_as(client).await?;
    assert!(
        begun.elapsed() < WAIT_TIMEOUT,
        "the start does not wait for it"
    );
    for profile in [LOAD_AWARE, DENSITY] {
        stage.edit(profile, json!({ "action": "DryRun" })).await?;
    }
    stage.reaches(DENSITY, Phase::ReviewRequired).await?;
    let status = stage.reaches(LOAD_AWARE, Phase::PrerequisiteFailed).await?;
    let (_, reason, message) = condition(&status, "PrerequisitesMet");
    assert_eq!(reason, "KindUnreadable");
    assert!(
        message.contains("KubeDescheduler: ") && message.contains("is forbidden"),
        "{message}"
    );
    forbidden.store(false, Ordering::SeqCst);
    stage.reaches(LOAD_AWARE, Phase::ReviewRequired).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_namespace_is_awaited() -> anyhow::Result<()> {
    let stage = Stage::with(Installed {
        descheduler: Some(DeschedulerRelease::V5_32),
        hyperconverged: None,
        ..Installed::demo()
    })
    .await?;
    let namespaces: Api<Namespace> = Api::all(stage.cluster.client());
    assert!(namespaces.get_opt(VIRTUALIZATION).await?.is_none());
    stage.operator("v0.1.30").await?;
    create_example(&stage).await?;
    let status = stage.reaches(EXAMPLE, Phase::PrerequisiteFailed).await?;
    let (_, reason, message) = condition(&status, "PrerequisitesMet");
    assert_eq!(reason, "MissingNamespace");
    assert!(message.contains("'openshift-cnv'"), "{message}");
    assert!(status.retry.is_some_and(|retry| retry.at.is_some()));
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(VIRTUALIZATION.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    stage.reaches(EXAMPLE, Phase::Completed).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_write_is_tried_again() -> anyhow::Result<()> {
    let stage = Stage::with(Installed {
        hyperconverged: Some(HyperConvergedVersion::V1Beta1),
        ..Installed::demo()
    })
    .await?;
    // Dry runs are requests of the same method: the plan fails before there is an entry of the history.
    let (client, forbidden) = forbidding(
        stage.cluster.client(),
        Some("PATCH"),
        "/configmaps/example-config",
    );
    stage.operator_as(client).await?;
    create_example(&stage).await?;
    let status = stage.reaches(EXAMPLE, Phase::Failed).await?;
    let (_, _, message) = condition(&status, "Failed");
    assert!(message.contains("is forbidden"), "{message}");
    let retry = status.retry.unwrap_or_default();
    assert_eq!(retry.attempts, 1);
    assert!(retry.at.is_some(), "it says when");
    forbidden.store(false, Ordering::SeqCst);
    let status = stage.reaches(EXAMPLE, Phase::Completed).await?;
    assert_eq!(status.retry, None);
    let maps: Api<ConfigMap> = Api::namespaced(stage.cluster.client(), VIRTUALIZATION);
    assert!(maps.get_opt("example-config").await?.is_some());
    ends_as(&stage, EXAMPLE, PlanResult::Completed).await
}

#[tokio::test(flavor = "multi_thread")]
async fn entry_of_a_deleted_configuration_is_closed() -> anyhow::Result<()> {
    let stage = Stage::quiet().await?;
    stage.edit(LOAD_AWARE, json!({ "action": "Apply" })).await?;
    stage
        .until("the plan has begun", LOAD_AWARE, |status| {
            status.revision == Some(1)
        })
        .await?;
    let params = DeleteParams::default();
    stage.configs().delete(LOAD_AWARE, &params).await?;
    ends_as(&stage, LOAD_AWARE, PlanResult::Superseded).await
}
