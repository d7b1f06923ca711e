//! What the status of a policy says.

use api::placement::PlacementPolicy;
use jiff::Timestamp;
use serde_json::json;

use super::{Facts, status};

fn told(object: &PlacementPolicy, complaints: &[String], held: &[String]) -> Vec<String> {
    let status = status(&Facts {
        object,
        complaints,
        forbidden: &[],
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
            "PullSecretsReadable=True Readable: images are inspected with the pull secrets of pods and their service accounts",
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

#[test]
fn forbidden_pull_secrets_are_a_condition_with_a_remedy() {
    let said = |mode: &str, forbidden: &[&str]| -> String {
        let object: PlacementPolicy = serde_json::from_value(json!({
            "metadata": { "name": "default" }, "spec": { "pullSecrets": { "mode": mode } },
        }))
        .unwrap();
        let forbidden: Vec<String> = forbidden.iter().map(|&it| it.to_owned()).collect();
        let status = status(&Facts {
            object: &object,
            complaints: &[],
            forbidden: &forbidden,
            admission_registered: true,
            gated: 0,
            held: &[],
            now: Timestamp::UNIX_EPOCH,
        });
        let found = status.conditions.iter();
        let mut found = found.filter(|it| it.type_ == "PullSecretsReadable");
        let it = found.next().unwrap();
        format!("{} {}: {}", it.status, it.reason, it.message)
    };
    assert_eq!(
        said("None", &[]),
        "True NotRead: images are inspected without pull secrets"
    );
    assert!(said("Named", &[]).starts_with("True Readable: "));
    let pods = said("Pods", &["secrets \"a\" is forbidden", "x"]);
    assert!(
        pods.starts_with("False Forbidden: private images are inspected without their pull secrets: secrets \"a\" is forbidden (and 1 more); ")
            && pods.contains("--pull-secrets pods")
            && pods.contains("Named or None"),
        "{pods}"
    );
    let named = said("Named", &["secrets \"a\" is forbidden"]);
    assert!(named.contains("--pull-secrets NAMESPACE/NAME"), "{named}");
}
