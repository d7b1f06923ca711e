//! The next step of claims.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::{ClaimInputs, Step, decide, default_class, status};

fn claim(annotations: &Value, spec: &Value) -> PersistentVolumeClaim {
    let mut object = json!({
        "metadata": { "name": "data", "namespace": "shop", "uid": "c1", "annotations": annotations },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "5Gi" } } },
    });
    for (key, field) in spec.as_object().unwrap() {
        object["spec"][key] = field.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn volume(claim_ref: &Value) -> Arc<PersistentVolume> {
    let volume = serde_json::from_value(json!({
        "metadata": { "name": "v" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "capacity": { "storage": "5Gi" }, "claimRef": claim_ref,
        },
        "status": { "phase": "Available" },
    }));
    Arc::new(volume.unwrap())
}

fn class(provisioner: &str, mode: &str) -> StorageClass {
    serde_json::from_value(json!({
        "metadata": { "name": "fast" }, "provisioner": provisioner, "volumeBindingMode": mode,
    }))
    .unwrap()
}

/// A step as text.
fn words(step: &Step) -> String {
    match step {
        Step::Bind(volume) => format!("bind {}", volume.metadata.name.as_deref().unwrap()),
        Step::Assign(class) => format!("assign {class}"),
        Step::Provision(by) => format!("provision by {by}"),
        Step::Pend(None) => "pend".to_owned(),
        Step::Pend(Some(note)) => format!("pend: {} {}", note.reason, note.message),
        Step::Refuse(note) => format!("refuse: {} {}", note.reason, note.message),
        Step::Lose(note) => format!("lose: {} {}", note.reason, note.message),
    }
}

#[rstest::rstest]
#[case::lost_its_name(json!({ "pv.kubernetes.io/bind-completed": "yes" }), json!({}), None,
    "lose: ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")]
#[case::lost_its_volume(json!({ "pv.kubernetes.io/bind-completed": "yes" }), json!({ "volumeName": "v" }), None,
    "lose: ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!")]
#[case::bound(json!({ "pv.kubernetes.io/bind-completed": "yes" }), json!({ "volumeName": "v" }),
    Some(json!({ "namespace": "shop", "name": "data", "uid": "c1" })), "bind v")]
#[case::misbound(json!({ "pv.kubernetes.io/bind-completed": "yes" }), json!({ "volumeName": "v" }),
    Some(json!({ "namespace": "shop", "name": "other", "uid": "c2" })),
    "lose: ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly")]
#[case::volume_to_come(json!({}), json!({ "volumeName": "v" }), None, "pend")]
#[case::asked_for_and_free(json!({}), json!({ "volumeName": "v", "storageClassName": "fast" }), Some(Value::Null), "bind v")]
#[case::asked_for_and_wrong(json!({}), json!({ "volumeName": "v", "storageClassName": "slow" }), Some(Value::Null),
    "pend: VolumeMismatch Cannot bind to requested volume \"v\": storageClassName does not match")]
#[case::asked_for_and_meant(json!({}), json!({ "volumeName": "v" }), Some(json!({ "namespace": "shop", "name": "data" })), "bind v")]
#[case::asked_for_and_taken(json!({}), json!({ "volumeName": "v" }), Some(json!({ "namespace": "shop", "name": "other" })),
    "pend: FailedBinding volume \"v\" already bound to a different claim.")]
#[case::half_bound(json!({ "pv.kubernetes.io/bound-by-controller": "yes" }), json!({ "volumeName": "v" }),
    Some(json!({ "namespace": "shop", "name": "other" })), "refuse: FailedBinding volume \"v\" already bound to a different claim.")]
#[case::found(json!({}), json!({ "storageClassName": "fast" }), Some(Value::Null), "bind v")]
#[case::nothing_there(json!({}), json!({ "storageClassName": "" }), None,
    "pend: FailedBinding no persistent volumes available for this claim and no storage class is set")]
fn claims_and_their_volumes(
    #[case] annotations: Value,
    #[case] spec: Value,
    #[case] claim_ref: Option<Value>,
    #[case] expected: &str,
) {
    let volumes: Vec<_> = claim_ref.iter().map(volume).collect();
    let around = ClaimInputs {
        volumes: &volumes,
        ..ClaimInputs::default()
    };
    assert_eq!(
        words(&decide(&claim(&annotations, &spec), &around)),
        expected
    );
}

#[rstest::rstest]
#[case::at_once("example.com/disk", "Immediate", json!({}), &[], "provision by example.com/disk")]
#[case::no_consumer("example.com/disk", "WaitForFirstConsumer", json!({}), &[],
    "pend: WaitForFirstConsumer waiting for first consumer to be created before binding")]
#[case::one_consumer("example.com/disk", "WaitForFirstConsumer", json!({}), &["a"],
    "pend: WaitForPodScheduled waiting for pod a to be scheduled")]
#[case::consumers("example.com/disk", "WaitForFirstConsumer", json!({}), &["a", "b"],
    "pend: WaitForPodScheduled waiting for pods a,b to be scheduled")]
#[case::node_chosen("example.com/disk", "WaitForFirstConsumer", json!({ "volume.kubernetes.io/selected-node": "n" }), &[],
    "provision by example.com/disk")]
#[case::no_provisioner("kubernetes.io/no-provisioner", "Immediate", json!({}), &[],
    "refuse: ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner")]
fn claims_and_their_class(
    #[case] provisioner: &str,
    #[case] mode: &str,
    #[case] annotations: Value,
    #[case] pods: &[&str],
    #[case] expected: &str,
) {
    let class = class(provisioner, mode);
    let pods: Vec<_> = pods.iter().map(|pod| (*pod).to_owned()).collect();
    let around = ClaimInputs {
        class: Some(&class),
        waiting_pods: &pods,
        ..ClaimInputs::default()
    };
    let claim = claim(&annotations, &json!({ "storageClassName": "fast" }));
    assert_eq!(words(&decide(&claim, &around)), expected);
}

#[rstest::rstest]
#[case::none_asked_for(json!({}), "assign standard")]
#[case::none_wanted(json!({ "storageClassName": "" }), "pend: FailedBinding no persistent volumes available for this claim and no storage class is set")]
#[case::one_that_is_not_there(json!({ "storageClassName": "gone" }), "refuse: ProvisioningFailed storageclass.storage.k8s.io \"gone\" not found")]
fn default_class_applies_to_claims_without_one(#[case] spec: Value, #[case] expected: &str) {
    let around = ClaimInputs {
        default_class: Some("standard"),
        ..ClaimInputs::default()
    };
    assert_eq!(words(&decide(&claim(&json!({}), &spec), &around)), expected);
}

#[test]
fn newest_default_class_is_used() {
    let class = |name: &str, day: u32, default: &str| {
        let class: StorageClass = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z"),
                "annotations": { "storageclass.kubernetes.io/is-default-class": default },
            },
            "provisioner": "p",
        }))
        .unwrap();
        Arc::new(class)
    };
    let classes = [
        class("a", 1, "true"),
        class("b", 2, "true"),
        class("c", 3, "false"),
    ];
    assert_eq!(default_class(&classes).as_deref(), Some("b"));
    assert_eq!(default_class(&classes[2..]), None);
}

#[test]
fn capacity_is_copied_when_a_claim_becomes_bound() {
    let small = volume(&Value::Null);
    let mut claim = claim(&json!({}), &json!({}));
    claim.status = Some(status(&claim, "Bound", Some(&small)));
    assert_eq!(json!(claim.status)["capacity"]["storage"], json!("5Gi"));
    let mut grown = small.as_ref().clone();
    let capacity = grown.spec.as_mut().unwrap().capacity.as_mut().unwrap();
    capacity.get_mut("storage").unwrap().0 = "9Gi".to_owned();
    assert_eq!(Some(status(&claim, "Bound", Some(&grown))), claim.status);
    let lost = status(&claim, "Lost", None);
    assert_eq!((lost.capacity, lost.access_modes), (None, None));
}
