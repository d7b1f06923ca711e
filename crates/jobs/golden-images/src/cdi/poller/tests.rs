use rstest::rstest;

use super::*;

fn cron(name: &str) -> DataImportCron {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataImportCron",
        "metadata": { "name": name, "namespace": "images", "uid": "0123456789" },
        "spec": {
            "managedDataSource": "fedora-arm64", "schedule": "0 */12 * * *",
            "template": { "spec": { "source": { "registry": {
                "url": "docker://r.example:5000/fedora:41", "pullMethod": "node", "secretRef": "s",
                "platform": { "architecture": "arm64" },
            } } } },
        },
    }))
    .unwrap()
}

fn made(status: &Value) -> Pod {
    let cron = cron("fedora-image-cron-arm64");
    let source = cron.spec.template.spec.source.as_ref();
    let registry = source.and_then(|it| it.registry.as_ref()).unwrap();
    let mut object = pod(&cron, registry, "medley:1").unwrap();
    object["status"] = status.clone();
    serde_json::from_value(object).unwrap()
}

#[test]
fn poller_pulls_tag_on_matching_node() {
    let pod = made(&json!({}));
    assert_eq!(
        pod.metadata.name.as_deref(),
        Some("poller-fedora-image-cron-arm64-01234567")
    );
    let spec = pod.spec.unwrap();
    assert_eq!(spec.node_selector.unwrap()["kubernetes.io/arch"], "arm64");
    let container = &spec.containers[0];
    assert_eq!(container.image.as_deref(), Some("r.example:5000/fedora:41"));
    assert_eq!(container.image_pull_policy.as_deref(), Some("Always"));
    assert_eq!(spec.image_pull_secrets.unwrap()[0].name, "s");
    // Nothing of the image runs: the command is Medley's binary, from its own image.
    let begin = &spec.init_containers.unwrap()[0];
    assert_eq!(begin.image.as_deref(), Some("medley:1"));
    assert_eq!(container.command.as_ref().unwrap()[0], "/shared/medley");
}

#[test]
fn names_fit_and_differ() {
    let long = |end: &str| cron(&format!("{}{end}", "a".repeat(252)));
    assert!(name(&long("b")).len() <= SUBDOMAIN_MAX);
    assert_ne!(name(&long("b")), name(&long("c")));
}

fn container(id: &str, state: &Value) -> Value {
    json!({ "containerStatuses": [{
        "name": "poller", "image": "", "imageID": id, "ready": false, "restartCount": 0, "state": state,
    }] })
}

fn failed(reason: Reason) -> PollerState {
    PollerState::Answered(Err(Failure::new(reason, "")))
}

fn found(digest: &str) -> PollerState {
    PollerState::Answered(Ok(PolledVersion {
        digest: digest.to_owned(),
        ..PolledVersion::default()
    }))
}

#[rstest]
#[case::new(json!({ "phase": "Pending" }), PollerState::Waiting)]
#[case::pulled(
    container("r.example:5000/fedora@sha256:1", &json!({ "running": {} })),
    found("sha256:1")
)]
#[case::by_docker(
    container("docker-pullable://r.example/fedora@sha256:1", &json!({})),
    found("sha256:1")
)]
// The image has no executable, so the container fails; that is irrelevant.
#[case::not_run(
    container("r.example/fedora@sha256:1", &json!({ "terminated": { "exitCode": 128 } })),
    found("sha256:1")
)]
#[case::configuration(container("sha256:1", &json!({})), failed(Reason::InvalidDigest))]
#[case::denied(
    container("", &json!({ "waiting": { "reason": "ErrImagePull", "message": "unexpected status from HEAD request: 401 Unauthorized" } })),
    failed(Reason::PullUnauthorized)
)]
#[case::missing(
    container("", &json!({ "waiting": { "reason": "ImagePullBackOff", "message": "failed to resolve reference: r.example/fedora:41: not found" } })),
    failed(Reason::ImageNotFound)
)]
#[case::unschedulable(
    json!({ "phase": "Pending", "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1" },
    ] }),
    PollerState::Hindered(Failure::new(Reason::Unschedulable, ""))
)]
#[case::no_program(
    json!({ "phase": "Pending", "initContainerStatuses": [{
        "name": "program", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": "ErrImagePull", "message": "medley:1: not found" } },
    }] }),
    failed(Reason::ImportFailed)
)]
#[case::evicted(json!({ "phase": "Failed", "reason": "Evicted" }), failed(Reason::ImportFailed))]
fn poller_status_maps_to_result(#[case] status: Value, #[case] expected: PollerState) {
    let state = match read(&made(&status)) {
        PollerState::Answered(Err(failure)) => failed(failure.reason),
        PollerState::Hindered(failure) => PollerState::Hindered(Failure::new(failure.reason, "")),
        other => other,
    };
    assert_eq!(state, expected);
}
