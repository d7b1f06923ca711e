use std::collections::BTreeSet;

use rstest::rstest;

use super::*;
use crate::cdi::data_volume::Report;

fn volume(source: &Value) -> DataVolume {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": {
            "name": "v", "namespace": "n", "uid": "u",
            "labels": { "template.kubevirt.io/architecture": "s390x" },
        },
        "spec": { "source": source },
    }))
    .unwrap()
}

fn made(mode: &str, node: Option<&str>) -> Pod {
    let image = json!({ "registry": {
        "url": "docker://r.example:5000/x@sha256:1", "secretRef": "s", "certConfigMap": "c",
        "platform": { "architecture": "arm64" },
    } });
    made_for(&image, mode, node)
}

fn made_for(source: &Value, mode: &str, node: Option<&str>) -> Pod {
    let volume = volume(source);
    let claim = serde_json::from_value(json!({ "spec": { "volumeMode": mode } })).unwrap();
    let making = ImporterPodInputs {
        volume: &volume,
        claim: &claim,
        room: Some(7),
        attempt: 3,
        node,
        image: "medley:1",
        network: &[
            (environment::NETWORK, "{}".to_owned()),
            ("https_proxy", "http://proxy:3128".to_owned()),
        ],
        insecure: &["r.example:5000".to_owned()],
        allowed: &["192.0.2.0/24".to_owned(), "127.0.0.1:5000".to_owned()],
        sniffing: Sniffing::Refuse,
    };
    let origin = Origin::of(&volume).unwrap();
    serde_json::from_value(pod(&making, &origin)).unwrap()
}

fn environment_of(pod: &Pod) -> Vec<(&str, Option<&str>)> {
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let all = container.env.iter().flatten();
    all.map(|it| (it.name.as_str(), it.value.as_deref()))
        .collect()
}

#[test]
fn importer_environment_for_registry_source() {
    let pod = made("Filesystem", None);
    let spec = pod.spec.clone().unwrap();
    let container = &spec.containers[0];
    let env = environment_of(&pod);
    for expected in [
        ("IMPORTER_SOURCE", Some("registry")),
        (
            "IMPORTER_ENDPOINT",
            Some("docker://r.example:5000/x@sha256:1"),
        ),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", Some("arm64")),
        ("IMPORTER_IMAGE_SIZE", Some("7")),
        ("IMPORTER_CERT_DIR", Some("/certs")),
        ("INSECURE_TLS", Some("true")),
        ("OWNER_UID", Some("u")),
        ("IMPORTER_CHECK_ARCHITECTURE", Some("Refuse")),
        // From the secret, whichever of its keys exist.
        ("IMPORTER_ACCESS_KEY_ID", None),
        ("IMPORTER_SECRET_KEY", None),
    ] {
        assert!(env.contains(&expected), "{expected:?} in {env:?}");
    }
    assert_eq!(
        container.args,
        Some(vec!["importer".into(), "--to".into(), DISK.into()])
    );
    assert_eq!(spec.restart_policy.as_deref(), Some("Never"));
    assert_eq!(pod.metadata.name.as_deref(), Some("importer-v"));
    assert_eq!(
        read(&pod),
        Importer {
            attempt: 3,
            state: State::Scheduled
        }
    );
}

#[test]
fn importer_environment_for_http_source() {
    let file = json!({ "http": {
        "url": "https://r.example:5000/x.qcow2", "checksum": "sha256:1", "secretRef": "s",
        "extraHeaders": ["A: b", "C: d"], "secretExtraHeaders": ["t", "v"],
    } });
    let pod = made_for(&file, "Filesystem", None);
    let env = environment_of(&pod);
    for expected in [
        ("IMPORTER_SOURCE", Some("http")),
        ("IMPORTER_ENDPOINT", Some("https://r.example:5000/x.qcow2")),
        ("IMPORTER_REGISTRY_IMAGE_ARCHITECTURE", Some("s390x")),
        ("IMPORTER_CHECKSUM", Some("sha256:1")),
        ("IMPORTER_EXTRA_HEADER_0", Some("A: b")),
        ("IMPORTER_EXTRA_HEADER_1", Some("C: d")),
        ("IMPORTER_ACCESS_KEY_ID", None),
        ("IMPORTER_SECRET_KEY", None),
    ] {
        assert!(env.contains(&expected), "{expected:?} in {env:?}");
    }
    // The list of insecure registries does not apply to web servers.
    assert!(
        !env.iter().any(|(name, _)| *name == "INSECURE_TLS"),
        "{env:?}"
    );
    let spec = pod.spec.unwrap();
    let mounts = spec.containers[0].volume_mounts.clone().unwrap();
    let secret = |mounted: &str| {
        let mount = mounts.iter().find(|it| it.mount_path == mounted)?;
        let volume = spec
            .volumes
            .iter()
            .flatten()
            .find(|it| it.name == mount.name)?;
        volume.secret.clone()?.secret_name
    };
    assert_eq!(secret("/extraheaders/0").as_deref(), Some("t"));
    assert_eq!(secret("/extraheaders/1").as_deref(), Some("v"));
}

#[test]
fn node_pull_selects_architecture() {
    let selector = |pod: Pod| pod.spec.unwrap().node_selector.unwrap();
    let own = selector(made("Filesystem", Some("arm64")));
    assert_eq!(own["kubernetes.io/arch"], "arm64");
    // An importer that pulls by itself can run on any node.
    assert!(!selector(made("Filesystem", None)).contains_key("kubernetes.io/arch"));
}

#[test]
fn block_volume_is_a_device() {
    let spec = made("Block", None).spec.unwrap();
    let device = spec.containers[0].volume_devices.clone().unwrap();
    assert_eq!(device[0].device_path, DEVICE);
}

fn with_status(status: Value) -> State {
    let mut pod = made("Filesystem", None);
    pod.status = Some(serde_json::from_value(status).unwrap());
    read(&pod).state
}

#[rstest]
#[case::new(json!({ "phase": "Pending" }), State::Scheduled)]
#[case::unschedulable(
    json!({ "phase": "Pending", "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1" },
    ] }),
    State::Unschedulable("0/1".to_owned())
)]
#[case::running(json!({ "phase": "Running" }), State::Running(None))]
#[case::done(
    json!({ "phase": "Succeeded", "containerStatuses": [{
        "name": "importer", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 0, "message": "{\"sniffed\":[\"arm64\"]}" } },
    }] }),
    State::Succeeded(Report { sniffed: BTreeSet::from(["arm64".to_owned()]), ..Report::default() })
)]
#[case::failed(
    json!({ "phase": "Failed", "containerStatuses": [{
        "name": "importer", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 1, "message": "{\"reason\":\"NoDisk\",\"message\":\"m\"}" } },
    }] }),
    State::Failed(Failure::new(Reason::NoDisk, "m"))
)]
#[case::evicted(
    json!({ "phase": "Failed", "reason": "Evicted", "message": "no room" }),
    State::Failed(Failure::new(Reason::ImportFailed, "importer pod failed: Evicted: no room"))
)]
fn pod_status_maps_to_importer_state(#[case] status: Value, #[case] state: State) {
    assert_eq!(with_status(status), state);
}

#[test]
fn unpullable_importer_image_is_a_failure() {
    let state = with_status(json!({ "phase": "Pending", "containerStatuses": [{
        "name": "importer", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": "ImagePullBackOff", "message": "m" } },
    }] }));
    assert!(matches!(state, State::Failed(_)), "{state:?}");
}

#[test]
fn names_of_pods_fit() {
    assert_eq!(name("v"), "importer-v");
    let long = "a".repeat(253);
    assert!(name(&long).len() <= SUBDOMAIN_MAX);
    assert_ne!(name(&long), name(&format!("{}b", "a".repeat(252))));
}

#[rstest]
#[case(
    "# HELP x\nkubevirt_cdi_import_progress_total{ownerUID=\"u\"} 42.17\n# EOF\n",
    Some(4217)
)]
#[case(
    "kubevirt_cdi_import_progress_total{ownerUID=\"u\"} 100.0",
    Some(10_000)
)]
#[case("kubevirt_cdi_import_progress_total{ownerUID=\"u\"} NaN", None)]
#[case("kubevirt_cdi_import_progress_total{ownerUID=\"u\"} 1e9", None)]
#[case("other 1", None)]
fn progress_is_read_from_metrics(#[case] text: &str, #[case] parts: Option<u16>) {
    assert_eq!(progress(text), parts);
}

fn pulled_by_node(status: Value) -> Pod {
    let image = json!({ "registry": {
        "url": "docker://r.example:5000/x@sha256:1", "secretRef": "s", "certConfigMap": "c",
        "platform": { "architecture": "arm64" }, "pullMethod": "node",
    } });
    let mut object = json!(made_for(&image, "Filesystem", Some("arm64")));
    object["status"] = status;
    serde_json::from_value(object).unwrap()
}

#[test]
fn node_pulled_image_is_a_volume() {
    let spec = pulled_by_node(json!({})).spec.unwrap();
    let mut volumes = spec.volumes.iter().flatten();
    let image = volumes.find_map(|it| it.image.as_ref()).unwrap();
    assert_eq!(
        image.reference.as_deref(),
        Some("r.example:5000/x@sha256:1")
    );
    assert_eq!(image.pull_policy.as_deref(), Some("IfNotPresent"));
    let container = &spec.containers[0];
    let mut mounts = container.volume_mounts.iter().flatten();
    let mount = mounts.find(|it| it.mount_path == MOUNTED).unwrap();
    assert_eq!(mount.read_only, Some(true));
    let env: Vec<&str> = container
        .env
        .iter()
        .flatten()
        .map(|it| it.name.as_str())
        .collect();
    assert!(env.contains(&environment::MOUNTED), "{env:?}");
    // Credentials are for the kubelet, not for the pod.
    assert!(!env.contains(&environment::SECRET_KEY), "{env:?}");
    assert_eq!(spec.image_pull_secrets.unwrap()[0].name, "s");
}

#[rstest]
#[case(
    "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
    Reason::PullUnauthorized
)]
#[case(
    "rpc error: code = NotFound desc = failed to pull and unpack image \"r.example:5000/x@sha256:1\": failed to resolve reference: r.example:5000/x@sha256:1: not found",
    Reason::ImageNotFound
)]
#[case(
    "failed to pull and unpack image \"r.example:5000/x@sha256:1\": no match for platform in manifest: not found",
    Reason::ArchitectureNotFound
)]
#[case(
    "choosing image instance: no image found in image index for architecture \"arm64\"",
    Reason::ArchitectureNotFound
)]
#[case(
    "dial tcp 10.0.0.1:5000: connect: connection refused",
    Reason::RegistryUnavailable
)]
#[case(
    "429 Too Many Requests - Server message: toomanyrequests",
    Reason::RateLimited
)]
// Medley's own image.
#[case("Back-off pulling image \"medley:1\"", Reason::ImportFailed)]
fn pull_errors_map_to_reasons(#[case] detail: &str, #[case] reason: Reason) {
    let pod = pulled_by_node(json!({ "phase": "Pending", "containerStatuses": [{
        "name": "importer", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": "ErrImagePull", "message": detail } },
    }] }));
    let State::Failed(failure) = read(&pod).state else {
        panic!("{:?}", read(&pod).state);
    };
    assert_eq!(failure.reason, reason, "{failure}");
    assert!(failure.message.contains(detail), "{failure}");
}
