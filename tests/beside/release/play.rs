//! What the genuine operator and its stand-in both play: a release is installed, and another one of the same version
//! replaces it.

use api::openshift::{ClusterOperator, ClusterVersion};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::ApiResource;
use serde_json::Value;
use testkit::recording::{Recorder, Subject, Trace};

use crate::payload::{MACHINE_CONFIG, MANIFESTS, Release};
use crate::roles::{INSTALLER, Roles, condition};

/// Field manager of the requests for another release.
pub(crate) const REQUESTER: &str = "oc";
/// What the operator writes, beside the file of the stand-in.
pub(crate) const RECORDING: &str = "cluster-version/migration.json";

/// What the operator writes: it owns the objects of a release, and the status of the ClusterVersion.
pub(crate) fn subject() -> Subject {
    Subject::new([
        ApiResource::erase::<ClusterVersion>(&()),
        ApiResource::erase::<ClusterOperator>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Namespace>(&()),
    ])
    .played_by(&[
        INSTALLER,
        REQUESTER,
        "administrator",
        "medley",
        // The operators of the story, and the control plane of the lab: they send no user agent.
        "unknown",
    ])
    .following("ClusterVersion", "/status/history/0/state")
}

/// A release is installed, once there is a ClusterVersion.
pub(crate) async fn install(
    roles: &Roles,
    recorder: &Recorder,
    single: &Release,
) -> anyhow::Result<ClusterVersion> {
    roles.operators_come_up(single).await?;
    let version = roles.completed(single).await?;
    recorder.step("a release is installed").await?;
    Ok(version)
}

/// After the request for another release: the last operator has not reported its image.
pub(crate) async fn wait_for_last_operator(
    roles: &Roles,
    multi: &Release,
) -> anyhow::Result<ClusterVersion> {
    roles.deployed(MACHINE_CONFIG, multi).await?;
    let done = format!("{} of {MANIFESTS} done", MANIFESTS - 1);
    roles
        .version("waits for the last operator", |version| {
            condition(version, "Progressing").contains(&done)
        })
        .await
}

/// The last operator reports its image, whatever it runs.
pub(crate) async fn report_last_operator(
    roles: &Roles,
    recorder: &Recorder,
    multi: &Release,
) -> anyhow::Result<ClusterVersion> {
    roles.lie(MACHINE_CONFIG).await?;
    let version = roles.completed(multi).await?;
    recorder
        .step("another release of the same version is installed")
        .await?;
    Ok(version)
}

/// A trace without what differs from run to run. Whether minor updates are blocked is decided once when the operator
/// starts, and then every few minutes; the answer depends on which of its caches is filled first.
pub(crate) fn comparable(mut trace: Trace) -> Trace {
    for step in &mut trace.steps {
        let version = step.objects.get_mut("ClusterVersion version");
        let conditions = version.and_then(|it| it.pointer_mut("/status/conditions"));
        if let Some(Value::Array(conditions)) = conditions {
            conditions.retain(|it| it["type"] != "Upgradeable");
        }
    }
    for fields in trace.passing.values_mut() {
        fields.retain(|field| !field.contains("type=\"Upgradeable\""));
    }
    trace.passing.retain(|_, fields| !fields.is_empty());
    trace
}
