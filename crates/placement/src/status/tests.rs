//! What the status of a policy says.

use api::placement::PlacementPolicy;
use jiff::Timestamp;
use serde_json::json;

use super::{Facts, status};

fn told(object: &PlacementPolicy, complaints: &[String], held: &[String]) -> Vec<String> {
    let status = status(&Facts {
        object,
        complaints,
        admission_registered: true,
        gated: 3,
        held,
        now: Timestamp::UNIX_EPOCH,
    });
    let pods = status.pods.unwrap();
    assert_eq!(
        (pods.gated, usize::try_from(pods.held).unwrap()),
        (3, held.len())
    );
    let conditions = status.conditions.iter();
    conditions
        .map(|it| format!("{}={} {}: {}", it.type_, it.status, it.reason, it.message))
        .collect()
}

#[test]
fn the_status_tells_what_is_wrong_and_who_waits() {
    let object: PlacementPolicy = serde_json::from_value(json!({
        "metadata": { "name": "default", "generation": 2 }, "spec": { "mode": "Warn" },
    }))
    .unwrap();
    assert_eq!(
        told(&object, &[], &[]),
        [
            "Ready=True Warning: no pod is changed; who makes one that runs nowhere is warned",
            "AdmissionReady=True Registered: the API server asks before pods are made",
            "NothingHeld=True NothingHeld: no pod waits for a node that runs its images",
        ]
    );
    let held: Vec<String> = (0..10).map(|n| format!("shop/web-{n}")).collect();
    let all = told(&object, &["spec.podSelector is wrong".to_owned()], &held);
    assert_eq!(
        all[0],
        "Ready=False InvalidPolicy: spec.podSelector is wrong"
    );
    assert!(
        all[2].starts_with(
            "NothingHeld=False PodsHeld: no node runs the images of 10 pods: shop/web-0"
        ) && all[2].ends_with("shop/web-7 and 2 more"),
        "{}",
        all[2]
    );
}
