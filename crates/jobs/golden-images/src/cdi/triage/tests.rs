//! Which DataVolumes are imported, cloned, reported or left alone.

use api::cdi::DataVolume;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use rstest::rstest;
use serde_json::{Value, json};

use super::{VolumeTask, triage};

fn volume(spec: &Value, phase: &str) -> DataVolume {
    let object = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": { "name": "disk", "namespace": "shop", "uid": "one" },
        "spec": spec,
        "status": { "phase": phase },
    });
    serde_json::from_value(object).unwrap()
}

fn import() -> Value {
    json!({ "source": { "registry": { "url": "docker://quay.io/a/b" } } })
}

#[rstest]
#[case::clone(&json!({ "sourceRef": { "kind": "DataSource", "name": "fedora" } }), VolumeTask::Clone)]
#[case::upload(&json!({ "source": { "upload": {} } }), VolumeTask::None)]
fn task_depends_on_the_source(#[case] spec: &Value, #[case] task: VolumeTask) {
    assert_eq!(triage(&volume(spec, ""), None), task);
}

#[rstest]
#[case::foreign_claim("Pending", false, true)]
#[case::own_claim("Pending", true, false)]
#[case::complete("Succeeded", false, false)]
fn claim_of_another_owner_blocks_an_import(
    #[case] phase: &str,
    #[case] is_own: bool,
    #[case] is_blocked: bool,
) {
    let uid = if is_own { "one" } else { "other" };
    let owner = json!({ "apiVersion": "v1", "kind": "DataVolume", "name": "disk", "uid": uid, "controller": true });
    let claim = json!({ "metadata": { "ownerReferences": [owner] } });
    let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    match triage(&volume(&import(), phase), Some(&claim)) {
        VolumeTask::Unavailable { reason, message } => {
            assert!(is_blocked);
            assert_eq!(reason, "ErrResourceExists");
            assert!(message.contains("shop/disk"), "{message}");
        }
        task => assert!(
            !is_blocked && matches!(task, VolumeTask::Import(_)),
            "{task:?}"
        ),
    }
}

#[test]
fn archives_are_not_supported() {
    let mut spec = import();
    spec["contentType"] = "archive".into();
    let VolumeTask::Unavailable { reason, .. } = triage(&volume(&spec, ""), None) else {
        panic!("an archive is no disk");
    };
    assert_eq!(reason, "UnsupportedContentType");
}
