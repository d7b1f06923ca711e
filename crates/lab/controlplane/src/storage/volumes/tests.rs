//! The next step of volumes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::{Reclaim, Step, decide};

fn volume(claim_ref: &Value, policy: &str, by: Option<&str>) -> PersistentVolume {
    let annotations = by.map(|by| json!({ "pv.kubernetes.io/provisioned-by": by }));
    serde_json::from_value(json!({
        "metadata": { "name": "v", "annotations": annotations },
        "spec": { "claimRef": claim_ref, "persistentVolumeReclaimPolicy": policy },
    }))
    .unwrap()
}

fn claim(uid: &str, spec: &Value) -> PersistentVolumeClaim {
    serde_json::from_value(json!({
        "metadata": { "name": "data", "namespace": "shop", "uid": uid }, "spec": spec,
    }))
    .unwrap()
}

fn words(step: &Step) -> String {
    match step {
        Step::Phase(phase) => (*phase).to_owned(),
        Step::Reclaim(Reclaim::Leave) => "released".to_owned(),
        Step::Reclaim(Reclaim::Delete) => "deleted".to_owned(),
        Step::Reclaim(Reclaim::Fail(note)) => format!("failed: {}", note.reason),
        Step::Unbind => "unbind".to_owned(),
        Step::AskClaim => "ask".to_owned(),
        Step::Mismatch(..) => "mismatch".to_owned(),
    }
}

const BOUND: &str = "c1";

#[rstest::rstest]
#[case::free(Value::Null, None, "Available")]
#[case::meant_for_one_to_come(json!({ "name": "data", "namespace": "shop" }), None, "Available")]
#[case::claim_gone(json!({ "name": "data", "namespace": "shop", "uid": BOUND }), None, "released")]
#[case::claim_is_a_namesake(json!({ "name": "data", "namespace": "shop", "uid": BOUND }), Some(("c2", json!({ "volumeName": "v" }))), "released")]
#[case::bound(json!({ "name": "data", "namespace": "shop", "uid": BOUND }), Some((BOUND, json!({ "volumeName": "v" }))), "Bound")]
#[case::half_bound(json!({ "name": "data", "namespace": "shop", "uid": BOUND }), Some((BOUND, json!({}))), "ask")]
#[case::wrong_mode(json!({ "name": "data", "namespace": "shop", "uid": BOUND }), Some((BOUND, json!({ "volumeMode": "Block" }))), "mismatch")]
#[case::claim_went_elsewhere(json!({ "name": "data", "namespace": "shop", "uid": BOUND }), Some((BOUND, json!({ "volumeName": "w" }))), "unbind")]
fn volumes_follow_their_claims(
    #[case] claim_ref: Value,
    #[case] there: Option<(&str, Value)>,
    #[case] expected: &str,
) {
    let claim = there.map(|(uid, spec)| claim(uid, &spec));
    let step = decide(&volume(&claim_ref, "Retain", None), claim.as_ref());
    assert_eq!(words(&step), expected);
}

#[rstest::rstest]
#[case::kept("Retain", None, "released")]
#[case::deleted_by_who_made_it("Delete", Some("example.com/disk"), "released")]
#[case::nobody_can_delete_it("Delete", None, "failed: VolumeFailedDelete")]
#[case::nobody_recycles("Recycle", None, "failed: VolumeFailedRecycle")]
fn volumes_without_a_claim_are_reclaimed(
    #[case] policy: &str,
    #[case] by: Option<&str>,
    #[case] expected: &str,
) {
    let claim_ref = json!({ "name": "data", "namespace": "shop", "uid": BOUND });
    assert_eq!(
        words(&decide(&volume(&claim_ref, policy, by), None)),
        expected
    );
}

#[rstest::rstest]
#[case::temporary("/tmp/data", "deleted")]
#[case::not_temporary("/data", "failed: VolumeFailedDelete")]
#[case::everything_temporary("/tmp/", "failed: VolumeFailedDelete")]
fn only_temporary_host_paths_are_deleted(#[case] path: &str, #[case] expected: &str) {
    let claim_ref = json!({ "name": "data", "namespace": "shop", "uid": BOUND });
    let mut volume = volume(&claim_ref, "Delete", None);
    let spec = volume.spec.as_mut().unwrap();
    spec.host_path = serde_json::from_value(json!({ "path": path })).unwrap();
    assert_eq!(words(&decide(&volume, None)), expected);
}

#[test]
fn provisioned_volume_of_a_claim_bound_elsewhere_is_reclaimed() {
    let claim_ref = json!({ "name": "data", "namespace": "shop", "uid": BOUND });
    let claim = claim(BOUND, &json!({ "volumeName": "w" }));
    let made = volume(&claim_ref, "Delete", Some("example.com/disk"));
    assert_eq!(words(&decide(&made, Some(&claim))), "released");
}
